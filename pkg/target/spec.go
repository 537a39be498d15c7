// Package target says what to watch: the grammar of --watch, its resolution in a live process, and the plan of hardware
// slots that comes of it.
package target

import (
	"fmt"
	"strconv"
	"strings"
)

// Grammar is what a watch looks like, for messages.
const Grammar = "a watch is [NAME=]PLACE{->OFFSET}[:LEN][:ACCESS]; " +
	"PLACE is 0xADDR, SYMBOL, MODULE!SYMBOL or MODULE+OFFSET, each with an optional +OFFSET or -OFFSET; " +
	"LEN is a number of bytes; ACCESS is w, rw, r or x"

// Accesses of a Spec and of a watch.
const (
	Write     = "w"
	ReadWrite = "rw"
	Read      = "r"
	Execute   = "x"
)

// Spec is one watch as it was typed.
type Spec struct {
	Name   string  // NAME, or the watch as typed without length and access
	Place  string  // PLACE as typed
	Hops   []int64 // bytes to add to the value of each level above, one for each "->"
	Len    uint64  // bytes; 0 if none was given
	Access string  // w, rw, r or x

	place place
}

// UsageError says that a watch is none by the grammar. It makes the exit code 2.
type UsageError struct {
	Spec   string // as typed
	Reason string
}

func (e *UsageError) Error() string { return fmt.Sprintf("watch %q: %s", e.Spec, e.Reason) }

// Usage is true: the command line is to blame.
func (e *UsageError) Usage() bool { return true }

// Hint is what the grammar accepts.
func (e *UsageError) Hint() string { return Grammar }

// Parse reads one watch. It works from the right, since names and paths hold colons, signs and arrows of their own: what
// cannot be an access, a length, a hop or an offset is part of the place. The error is a *UsageError.
func Parse(s string) (Spec, error) {
	spec, err := parse(s)
	if err != nil {
		return Spec{}, &UsageError{Spec: s, Reason: err.Error()}
	}
	return spec, nil
}

func parse(s string) (Spec, error) {
	spec := Spec{Access: Write}
	rest, err := spec.cutLenAccess(s)
	if err != nil {
		return Spec{}, err
	}
	spec.Name = rest
	if name, after, ok := cutName(rest); ok {
		if name == "" {
			return Spec{}, fmt.Errorf("no name before =")
		}
		spec.Name, rest = name, after
	}
	if spec.Place, err = spec.cutHops(rest); err != nil {
		return Spec{}, err
	}
	if spec.place, err = parsePlace(spec.Place); err != nil {
		return Spec{}, err
	}
	return spec, spec.check()
}

// cutLenAccess takes [':' LEN] [':' ACCESS] from the end.
func (spec *Spec) cutLenAccess(s string) (string, error) {
	hasAccess := false
	if head, tail, ok := cutColon(s); ok && isAccess(tail) {
		s, spec.Access, hasAccess = head, tail, true
	}
	head, tail, ok := cutColon(s)
	if ok && isDigits(tail) {
		n, err := parseNumber(tail)
		if err != nil {
			return "", fmt.Errorf("length: %w", err)
		}
		if n == 0 {
			return "", fmt.Errorf("length 0: the least is 1 byte")
		}
		s, spec.Len = head, n
		head, tail, ok = cutColon(s)
	}
	if !ok || !mistaken(head, tail) {
		return s, nil
	}
	switch {
	case tail == "":
		return "", fmt.Errorf("nothing after the colon")
	case spec.Len == 0 && !hasAccess:
		return "", fmt.Errorf("%q is neither a length nor one of w, rw, r, x", tail)
	case spec.Len == 0:
		return "", fmt.Errorf("%q is not a length", tail)
	}
	return "", fmt.Errorf("%q before the length: one length may come, and then one access", tail)
}

// cutColon cuts at the last colon that is not one half of "::".
func cutColon(s string) (head, tail string, ok bool) {
	i := strings.LastIndexByte(s, ':')
	if i < 0 || i > 0 && s[i-1] == ':' {
		return s, "", false
	}
	return s[:i], s[i+1:], true
}

// mistaken reports whether what follows a colon was meant to be a length or an access and is none. Part of a place is what
// looks like a path, a module or a qualified name, and the names go:X and type:X of the Go linker.
func mistaken(head, tail string) bool {
	linker := head[strings.LastIndexByte(head, '!')+1:]
	if tail != "" && (linker == "go" || linker == "type") {
		return false
	}
	return strings.Trim(tail, wordChars+"-") == ""
}

const (
	digits    = "0123456789"
	wordChars = digits + "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_"
)

func isAccess(s string) bool {
	return s == Write || s == ReadWrite || s == Read || s == Execute
}

// isDigits reports whether s was meant to be a number: it has only digits, or starts as hex and is a word.
func isDigits(s string) bool {
	if hex, ok := cutHexPrefix(s); ok {
		return strings.Trim(hex, wordChars) == ""
	}
	return s != "" && strings.Trim(s, digits) == ""
}

func cutHexPrefix(s string) (string, bool) {
	if hex, ok := strings.CutPrefix(s, "0x"); ok {
		return hex, true
	}
	return strings.CutPrefix(s, "0X")
}

// parseNumber reads a decimal number, or a hex one after 0x; a leading zero changes nothing.
func parseNumber(s string) (uint64, error) {
	base, text := 10, s
	if hex, ok := cutHexPrefix(s); ok {
		base, text = 16, hex
	}
	n, err := strconv.ParseUint(text, base, 64)
	if err != nil {
		return 0, fmt.Errorf("%q: %w", s, err.(*strconv.NumError).Err)
	}
	return n, nil
}

// cutName takes NAME '=' from the front. A name has letters, digits, blanks, '_', '-' and '.'; other text before the sign
// belongs to the place, as in a path or in operator=.
func cutName(s string) (name, rest string, ok bool) {
	name, rest, ok = strings.Cut(s, "=")
	for _, r := range name {
		if r < 0x80 && !strings.ContainsRune(wordChars+"-. ", r) {
			return "", s, false
		}
	}
	return name, rest, ok && !strings.HasSuffix(name, "operator")
}

// cutHops takes {"->" OFFSET} from the end. The arrow of C++'s operator-> and of a type is part of the name.
func (spec *Spec) cutHops(s string) (string, error) {
	for {
		i := strings.LastIndex(s, "->")
		if i < 0 || strings.HasSuffix(s[:i], "operator") || strings.ContainsAny(s[i+2:], "()<>{}:!") {
			return s, nil
		}
		hop, err := parseOffset(s[i+2:])
		if err != nil {
			return "", fmt.Errorf("offset after ->: %w", err)
		}
		spec.Hops = append([]int64{hop}, spec.Hops...)
		s = s[:i]
	}
}

// parseOffset reads a number with an optional sign.
func parseOffset(s string) (int64, error) {
	text, negative := strings.CutPrefix(s, "-")
	if !negative {
		text = strings.TrimPrefix(s, "+")
	}
	n, err := parseNumber(text)
	if err != nil {
		return 0, err
	}
	if n > 1<<63-1 {
		return 0, fmt.Errorf("%q: %w", s, strconv.ErrRange)
	}
	if negative {
		return -int64(n), nil
	}
	return int64(n), nil
}

// check holds the parts against each other.
func (spec *Spec) check() error {
	if spec.Access == Execute && spec.Len != 0 {
		return fmt.Errorf("x takes no length: it watches the instruction that starts at the address")
	}
	if len(spec.Hops) > 0 && spec.Len != 0 && (spec.Len > 8 || spec.Len&(spec.Len-1) != 0) {
		return fmt.Errorf("length %d: the end of a chain has 1, 2, 4 or 8 bytes", spec.Len)
	}
	return nil
}
