package report

import (
	"strconv"
	"unicode/utf8"

	"xw/pkg/wire"
)

// Hex is an address, register or value that may be unknown. As JSON it is a hex string, since JavaScript rounds numbers
// above 2^53.
type Hex wire.Opt

// Num is a count or time that may be unknown.
type Num wire.Opt

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

// appendString appends s as a JSON string. What could drive a terminal (DEL and the C1 controls, which JSON does not ask
// to be escaped) is escaped too, and bytes that are no UTF-8 become U+FFFD.
func appendString(b []byte, s string) []byte {
	b = append(b, '"')
	for i := 0; i < len(s); {
		c := s[i]
		if c >= ' ' && c < 0x7f && c != '"' && c != '\\' {
			b = append(b, c)
			i++
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		i += size
		switch {
		case r == '"' || r == '\\':
			b = append(b, '\\', byte(r))
		case r == '\n':
			b = append(b, `\n`...)
		case r == '\t':
			b = append(b, `\t`...)
		case isFormatting(r):
			b = appendEscapedRune(b, r)
		default:
			b = utf8.AppendRune(b, r)
		}
	}
	return append(b, '"')
}

func appendEscapedRune(b []byte, r rune) []byte {
	const digits = "0123456789abcdef"
	return append(b, '\\', 'u', digits[r>>12&15], digits[r>>8&15], digits[r>>4&15], digits[r&15])
}

// isFormatting tells whether r moves the cursor, changes colours or the direction of writing instead of being seen.
func isFormatting(r rune) bool {
	switch {
	case r < ' ', r >= 0x7f && r < 0xa0: // C0, DEL, C1
		return true
	case r == 0x2028 || r == 0x2029: // line and paragraph separators
		return true
	case r == 0x061c, r >= 0x200b && r <= 0x200f, r >= 0x202a && r <= 0x202e, r >= 0x2060 && r <= 0x2069, r == 0xfeff:
		return true // direction marks and what has no width
	}
	return false
}

// printable returns s with everything that could drive a terminal escaped.
func printable(s string) string {
	for i := 0; i < len(s); i++ {
		if c := s[i]; c < ' ' || c >= 0x7f {
			return escape(s)
		}
	}
	return s
}

func escape(s string) string {
	const digits = "0123456789abcdef"
	b := make([]byte, 0, len(s)+16)
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1, isFormatting(r) && size == 1:
			b = append(b, '\\', 'x', digits[s[i]>>4], digits[s[i]&15])
		case isFormatting(r):
			b = appendEscapedRune(b, r)
		default:
			b = append(b, s[i:i+size]...)
		}
		i += size
	}
	return string(b)
}
