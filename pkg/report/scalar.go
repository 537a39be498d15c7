package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"xw/pkg/wire"
)

// Hex is an address, register or value that may be unknown. As JSON it is a hex string, since JavaScript rounds numbers
// above 2^53.
type Hex wire.Opt

// Num is a count or time that may be unknown.
type Num wire.Opt

// Ratio is a part of a whole, from 0 to 1, that may be unknown.
type Ratio struct {
	V  float64
	OK bool
}

// Text is a text; "" is unknown and null as JSON.
type Text string

// hex and num make values that are known.
func hex(v uint64) Hex { return Hex(wire.Some(v)) }
func num(v uint64) Num { return Num(wire.Some(v)) }

// MarshalJSON implements json.Marshaler.
func (h Hex) MarshalJSON() ([]byte, error) {
	return appendOptHex(make([]byte, 0, 20), wire.Opt(h)), nil
}

// MarshalJSON implements json.Marshaler.
func (n Num) MarshalJSON() ([]byte, error) {
	return appendOpt(make([]byte, 0, 20), wire.Opt(n)), nil
}

// MarshalJSON implements json.Marshaler.
func (t Text) MarshalJSON() ([]byte, error) {
	return appendText(make([]byte, 0, len(t)+2), string(t)), nil
}

// MarshalJSON implements json.Marshaler: four digits behind the point.
func (r Ratio) MarshalJSON() ([]byte, error) {
	if !r.OK {
		return []byte("null"), nil
	}
	return strconv.AppendFloat(nil, math.Round(r.V*1e4)/1e4, 'f', -1, 64), nil
}

func (h Hex) String() string {
	if !h.OK {
		return "?"
	}
	return "0x" + strconv.FormatUint(h.V, 16)
}

func (n Num) String() string {
	if !n.OK {
		return "?"
	}
	return strconv.FormatUint(n.V, 10)
}

// Regs are the registers of a hit, in the order of the stream.
type Regs struct {
	Names  []string
	Values []uint64
}

// MarshalJSON implements json.Marshaler: an object from names to hex strings.
func (r *Regs) MarshalJSON() ([]byte, error) {
	b := []byte{'{'}
	for i, name := range r.Names {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(appendString(b, name), ':')
		b = appendHex(b, r.Values[i])
	}
	return append(b, '}'), nil
}

func appendHex(b []byte, v uint64) []byte {
	b = append(b, `"0x`...)
	b = strconv.AppendUint(b, v, 16)
	return append(b, '"')
}

func appendOptHex(b []byte, o wire.Opt) []byte {
	if !o.OK {
		return append(b, "null"...)
	}
	return appendHex(b, o.V)
}

func appendOpt(b []byte, o wire.Opt) []byte {
	if !o.OK {
		return append(b, "null"...)
	}
	return strconv.AppendUint(b, o.V, 10)
}

// appendText appends a string, or null for "".
func appendText(b []byte, s string) []byte {
	if s == "" {
		return append(b, "null"...)
	}
	return appendString(b, s)
}

func appendString(b []byte, s string) []byte {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // no string makes it fail
	return append(b, bytes.TrimSuffix(out.Bytes(), []byte{'\n'})...)
}

// appendVisible appends JSON with those characters escaped that are not seen but drive a terminal, and which JSON does not
// ask to be escaped: they can only stand in strings.
func appendVisible(dst, doc []byte) []byte {
	for i := 0; i < len(doc); {
		if c := doc[i]; c < 0x7f {
			dst = append(dst, c)
			i++
			continue
		}
		r, size := utf8.DecodeRune(doc[i:])
		i += size
		if unicode.IsPrint(r) {
			dst = utf8.AppendRune(dst, r)
			continue
		}
		for _, unit := range utf16.AppendRune(nil, r) {
			dst = fmt.Appendf(dst, `\u%04x`, unit)
		}
	}
	return dst
}

// isPlain tells whether doc is ASCII without DEL.
func isPlain(doc []byte) bool {
	for _, c := range doc {
		if c >= 0x7f {
			return false
		}
	}
	return true
}

// printable returns s with everything escaped that is not seen but drives a terminal.
func printable(s string) string {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= 0x7f {
			return escape(s)
		}
	}
	return s
}

func escape(s string) string {
	b := make([]byte, 0, len(s)+16)
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			b = fmt.Appendf(b, `\x%02x`, s[i])
		case unicode.IsPrint(r):
			b = append(b, s[i:i+size]...)
		default:
			quoted := strconv.QuoteRune(r)
			b = append(b, quoted[1:len(quoted)-1]...)
		}
		i += size
	}
	return string(b)
}
