package wire

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
)

var errLongLine = fmt.Errorf("longer than %d bytes", MaxLine)

// textSource reads the lines of a text stream and gives the records in MessagePack, so that everything after it is
// the same for both forms.
type textSource struct {
	in    *bufio.Reader
	line  []byte // memory of a line in more than one piece
	enc   *encoder
	begin int64 // offset of the line read last
	after int64 // offset of the line after it
	count int   // lines read
}

func newTextSource(r io.Reader) *textSource {
	return &textSource{in: bufio.NewReaderSize(r, bufferSize), enc: newEncoder()}
}

// next implements source.
func (t *textSource) next() ([]byte, error) {
	for {
		line, err := t.readLine()
		if err != nil {
			return nil, err
		}
		line = bytes.TrimSpace(line)
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		kind, rest := cutKind(string(line))
		raw, err := t.parse(kind, rest)
		if err != nil {
			return nil, t.bad(printable([]byte(kind)), err, true)
		}
		return raw, nil
	}
}

func cutKind(line string) (kind, rest string) {
	i := strings.IndexAny(line, " \t")
	if i < 0 {
		return line, ""
	}
	return line[:i], line[i:]
}

func (t *textSource) position() (offset int64, line int) { return t.begin, t.count }

func (t *textSource) buffered() int {
	start, _ := t.in.Peek(t.in.Buffered())
	if bytes.IndexByte(start, '\n') < 0 {
		return 0
	}
	return len(start)
}

func (t *textSource) bad(kind string, err error, whole bool) error {
	return &FormatError{Offset: t.begin, Line: t.count, Kind: kind, Err: err, whole: whole}
}

// readLine returns the next line; the last one may lack its newline.
func (t *textSource) readLine() ([]byte, error) {
	t.begin = t.after
	t.count++
	t.line = t.line[:0]
	for {
		piece, err := t.in.ReadSlice('\n')
		t.line = append(t.line, piece...)
		t.after += int64(len(piece))
		switch {
		case len(t.line) > MaxLine:
			return nil, t.bad("", errLongLine, false)
		case err == nil:
			return t.line, nil
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF) && len(t.line) > 0:
			return t.line, nil
		case errors.Is(err, io.EOF):
			return nil, io.EOF
		default:
			return nil, fmt.Errorf("read stream: %w", err)
		}
	}
}

// parse returns the record of a line in MessagePack.
func (t *textSource) parse(kind, rest string) ([]byte, error) {
	t.enc.buf = t.enc.buf[:0]
	values, err := splitValues(rest)
	if err != nil {
		return nil, err
	}
	if digits, ok := values["raw"]; ok {
		return parseRaw(digits)
	}
	info := t.enc.kinds[kind]
	if info == nil {
		return nil, fmt.Errorf("unknown kind %q without raw=", kind)
	}
	r := info.New()
	p := textParser{fields: info.Fields, values: values}
	r.visit(&p)
	if p.err == nil {
		p.err = p.leftOver()
	}
	if p.err != nil {
		return nil, p.err
	}
	if err := t.enc.encode(r); err != nil {
		return nil, err
	}
	return t.enc.buf, nil
}

// parseRaw returns the bytes of raw=HEX, which must be one record.
func parseRaw(digits string) ([]byte, error) {
	raw, err := hex.DecodeString(digits)
	if err != nil {
		return nil, fmt.Errorf("field raw: %w", err)
	}
	var s scanner
	whole, err := s.advance(raw)
	switch {
	case err != nil:
		return nil, fmt.Errorf("field raw: %w", err)
	case !whole || s.pos < len(raw):
		return nil, errors.New("field raw: not the bytes of one record")
	}
	return raw, nil
}

// splitValues cuts `name=value name=value` into its fields.
func splitValues(rest string) (map[string]string, error) {
	values := make(map[string]string)
	for rest = strings.TrimLeft(rest, " \t"); rest != ""; rest = strings.TrimLeft(rest, " \t") {
		name, after, ok := strings.Cut(rest, "=")
		if !ok || name == "" || strings.ContainsAny(name, " \t\"") {
			return nil, fmt.Errorf("expected name=value, found %.40q", rest)
		}
		n := valueLen(after)
		if n == 0 {
			return nil, fmt.Errorf("field %s: no value", name)
		}
		if _, twice := values[name]; twice {
			return nil, fmt.Errorf("field %s: given twice", name)
		}
		values[name], rest = after[:n], after[n:]
	}
	return values, nil
}

// valueLen returns the length of the value at the start of s: up to the first blank outside quotes and braces.
func valueLen(s string) int {
	depth, quoted := 0, false
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{':
			depth++
		case c == '}':
			depth--
		case depth <= 0 && (c == ' ' || c == '\t'):
			return i
		}
	}
	return len(s)
}
