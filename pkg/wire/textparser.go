package wire

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sort"
	"strconv"
	"strings"
)

// textParser fills a record from the values of a line. It is the visitor of the record that it fills.
type textParser struct {
	fields []Field
	field  int // index of the next field
	values map[string]string
	err    error
}

// next takes the value of the next field; ok is false when it is absent.
func (t *textParser) next() (value string, ok bool) {
	f := t.fields[t.field]
	t.field++
	value, given := t.values[f.Name]
	delete(t.values, f.Name)
	switch {
	case !given && !f.Nil && !f.Added:
		t.check(errors.New("missing"))
	case given && (!f.Nil || value != "nil"):
		return value, true
	}
	return "", false
}

// check notes what is wrong with the field that was taken last. Only the first failure counts.
func (t *textParser) check(err error) {
	if err != nil && t.err == nil {
		t.err = fmt.Errorf("field %s: %w", t.fields[t.field-1].Name, err)
	}
}

// leftOver says which values belong to no field.
func (t *textParser) leftOver() error {
	var names []string
	for name := range t.values {
		names = append(names, name)
	}
	if names == nil {
		return nil
	}
	sort.Strings(names)
	return fmt.Errorf("unknown field %q", names[0])
}

func (t *textParser) uint() (v uint64, ok bool) {
	s, ok := t.next()
	if !ok {
		return 0, false
	}
	v, err := parseUint(s)
	t.check(err)
	return v, true
}

// parseUint reads a decimal number, or a hex one after 0x. A leading zero changes nothing.
func parseUint(s string) (uint64, error) {
	digits, isHex := strings.CutPrefix(s, "0x")
	base := 10
	if isHex {
		base = 16
	}
	v, err := strconv.ParseUint(digits, base, 64)
	if err != nil {
		return 0, fmt.Errorf("%.40q: not an unsigned 64-bit number", s)
	}
	return v, nil
}

func (t *textParser) u64(p *uint64) { *p, _ = t.uint() }

func (t *textParser) u32(p *uint32) {
	v, _ := t.uint()
	*p = uint32(v)
	if v > 1<<32-1 {
		t.check(fmt.Errorf("%d does not fit in 32 bits", v))
	}
}

func (t *textParser) opt(p *Opt) {
	v, ok := t.uint()
	*p = Opt{v, ok}
}

func (t *textParser) boolean(p *bool) {
	s, ok := t.next()
	*p = s == "true"
	if ok && s != "true" && s != "false" {
		t.check(fmt.Errorf("%.40q: neither true nor false", s))
	}
}

func (t *textParser) str(p *string) {
	s, ok := t.next()
	if !ok {
		return
	}
	var err error
	*p, err = unquote(s)
	t.check(err)
}

func unquote(s string) (string, error) {
	out, err := strconv.Unquote(s)
	if err != nil || s[0] != '"' {
		return "", fmt.Errorf("%.40q: not a double-quoted string", s)
	}
	return out, nil
}

func (t *textParser) bin(p *[]byte) {
	s, ok := t.next()
	if !ok {
		return
	}
	b, err := parseBin(s)
	t.check(err)
	*p = b
}

// parseBin reads hex digits and typed groups, joined by commas: u8:1,u16:2,u32:9,u64:0x400510,s:"abc",zero:4,dead.
// Numbers are little-endian, zero:N is N zero bytes. An empty string, "", is no bytes.
func parseBin(s string) ([]byte, error) {
	b := []byte{}
	if s == `""` {
		return b, nil
	}
	for s != "" {
		n := groupLen(s)
		var err error
		if b, err = appendGroup(b, s[:n]); err != nil {
			return nil, err
		}
		if len(b) > MaxRecord {
			return nil, errLongRecord
		}
		s = strings.TrimPrefix(s[n:], ",")
	}
	return b, nil
}

// groupLen returns the length of the group at the start of s: up to the first comma outside quotes.
func groupLen(s string) int {
	quoted := false
	for i := 0; i < len(s); i++ {
		switch {
		case quoted && s[i] == '\\':
			i++
		case s[i] == '"':
			quoted = !quoted
		case s[i] == ',' && !quoted:
			return i
		}
	}
	return len(s)
}

func appendGroup(b []byte, group string) ([]byte, error) {
	name, value, typed := strings.Cut(group, ":")
	if !typed {
		out, err := hex.AppendDecode(b, []byte(group))
		if err != nil || group == "" {
			return nil, fmt.Errorf("%.40q: not pairs of hex digits", group)
		}
		return out, nil
	}
	switch name {
	case "s":
		text, err := unquote(value)
		return append(b, text...), err
	case "zero":
		return appendZeros(b, value)
	default:
		return appendLittle(b, name, value)
	}
}

func appendZeros(b []byte, count string) ([]byte, error) {
	n, err := parseUint(count)
	if err == nil && n > MaxRecord {
		err = fmt.Errorf("%d zero bytes, at most %d are allowed", n, MaxRecord)
	}
	if err != nil {
		return nil, err
	}
	return append(b, make([]byte, n)...), nil
}

func appendLittle(b []byte, name, value string) ([]byte, error) {
	v, err := parseUint(value)
	if err != nil {
		return nil, err
	}
	width := map[string]int{"u8": 1, "u16": 2, "u32": 4, "u64": 8}[name]
	switch {
	case width == 0:
		return nil, fmt.Errorf("%.40q: expected u8, u16, u32, u64, s or zero before the colon", name)
	case width < 8 && v>>(8*width) != 0:
		return nil, fmt.Errorf("%d does not fit in %d bytes", v, width)
	}
	return append(b, binary.LittleEndian.AppendUint64(nil, v)[:width]...), nil
}

func (t *textParser) u64s(p *[]uint64) {
	s, ok := t.next()
	if !ok {
		return
	}
	list, ok := strings.CutPrefix(s, "[")
	list, closed := strings.CutSuffix(list, "]")
	if !ok || !closed {
		t.check(fmt.Errorf("%.40q: expected [NUMBER,...]", s))
		return
	}
	*p = []uint64{}
	if list == "" {
		return
	}
	for item := range strings.SplitSeq(list, ",") {
		v, err := parseUint(item)
		t.check(err)
		*p = append(*p, v)
	}
}

func (t *textParser) doc(p any) {
	s, ok := t.next()
	if ok {
		t.check(strictJSON([]byte(s), p))
	}
}

// strictJSON reads one JSON value and refuses keys that it does not know: in text written by hand they are mistakes.
func strictJSON(b []byte, p any) error {
	dec := json.NewDecoder(strings.NewReader(string(b)))
	dec.DisallowUnknownFields()
	if err := dec.Decode(p); err != nil {
		return err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("more than one JSON value")
	}
	return nil
}
