package wire

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/vmihailenco/msgpack/v5"
)

// The maps of a stream are read and written through the struct tags of Session and EndInfo. This file holds what the
// tags cannot say: optional integers, addresses in JSON, and that a list is never nil.

// EncodeMsgpack writes the integer, or nil.
func (o Opt) EncodeMsgpack(e *msgpack.Encoder) error {
	if !o.OK {
		return e.EncodeNil()
	}
	return e.EncodeUint(o.V)
}

// DecodeMsgpack reads an integer; the codec deals with nil.
func (o *Opt) DecodeMsgpack(d *msgpack.Decoder) error {
	v, err := d.DecodeUint64()
	*o = Opt{v, err == nil}
	return err
}

// MarshalJSON writes the integer, or null.
func (o Opt) MarshalJSON() ([]byte, error) {
	if !o.OK {
		return []byte("null"), nil
	}
	return strconv.AppendUint(nil, o.V, 10), nil
}

// UnmarshalJSON reads an integer, a string with one, or null.
func (o *Opt) UnmarshalJSON(b []byte) error {
	*o = Opt{}
	if string(b) == "null" {
		return nil
	}
	v, err := parseUint(strings.Trim(string(b), `"`))
	*o = Opt{v, err == nil}
	return err
}

// addrJSON is an address in JSON: a hex string, since numbers above 2^53 do not survive every parser.
type addrJSON Opt

func (a addrJSON) MarshalJSON() ([]byte, error) {
	if !a.OK {
		return []byte("null"), nil
	}
	return fmt.Appendf(nil, `"0x%x"`, a.V), nil
}

func (a *addrJSON) UnmarshalJSON(b []byte) error { return (*Opt)(a).UnmarshalJSON(b) }

type slotJSON struct {
	Addr addrJSON `json:"addr"`
	Len  uint64   `json:"len"`
}

// MarshalJSON writes the address as a hex string.
func (s Slot) MarshalJSON() ([]byte, error) {
	return json.Marshal(slotJSON{addrJSON(Some(s.Addr)), s.Len})
}

// UnmarshalJSON accepts the address as a number too.
func (s *Slot) UnmarshalJSON(b []byte) error {
	var j slotJSON
	err := strictJSON(b, &j)
	*s = Slot{j.Addr.V, j.Len}
	return err
}

// plainWatch is Watch without its methods.
type plainWatch Watch

type watchJSON struct {
	plainWatch
	Addr addrJSON `json:"addr"`
}

// MarshalJSON writes the address as a hex string.
func (w Watch) MarshalJSON() ([]byte, error) {
	return json.Marshal(watchJSON{plainWatch(w), addrJSON(w.Addr)})
}

// UnmarshalJSON accepts the address as a number too.
func (w *Watch) UnmarshalJSON(b []byte) error {
	var j watchJSON
	err := strictJSON(b, &j)
	*w = Watch(j.plainWatch)
	w.Addr = Opt(j.Addr)
	return err
}

// reset empties a doc that is used again and returns it.
func reset(doc any) any {
	switch d := doc.(type) {
	case *Session:
		*d = Session{}
	case *EndInfo:
		*d = EndInfo{}
	}
	return doc
}

// tidy makes the lists of a doc that was read nil where they are empty, so that what was written compares equal.
func tidy(doc any) {
	s, ok := doc.(*Session)
	if !ok {
		return
	}
	for _, list := range []*[]string{&s.Target.Argv, &s.Regs, &s.SampleFields, &s.Notes} {
		if len(*list) == 0 {
			*list = nil
		}
	}
	if len(s.Watches) == 0 {
		s.Watches = nil
	}
	for i := range s.Watches {
		if len(s.Watches[i].Slots) == 0 {
			s.Watches[i].Slots = nil
		}
	}
}

// portable returns the doc as it is written: its lists are empty and not nil, and its strings are UTF-8, so that a
// filter in any language can go over them without a check.
func portable(doc any) any {
	switch d := doc.(type) {
	case *EndInfo:
		e := *d
		e.Error = utf8Only(e.Error)
		return &e
	case *Session:
		s := *d
		s.Target.Exe, s.Target.Comm = utf8Only(s.Target.Exe), utf8Only(s.Target.Comm)
		s.Target.Argv = portableList(s.Target.Argv)
		s.Regs, s.SampleFields, s.Notes = portableList(s.Regs), portableList(s.SampleFields), portableList(s.Notes)
		s.Watches = append([]Watch{}, s.Watches...)
		for i := range s.Watches {
			w := &s.Watches[i]
			w.Name, w.Place = utf8Only(w.Name), utf8Only(w.Place)
			w.Slots = append([]Slot{}, w.Slots...)
		}
		return &s
	default:
		return doc
	}
}

func portableList(list []string) []string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = utf8Only(s)
	}
	return out
}

// utf8Only replaces what is no UTF-8: a strict decoder would refuse the whole record.
func utf8Only(s string) string { return strings.ToValidUTF8(s, "\ufffd") }
