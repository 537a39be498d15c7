package report

import (
	"bufio"
	"io"
	"unicode/utf8"
)

// style is an SGR sequence (ECMA-48), "" for none.
type style string

const (
	plain  style = ""
	bold   style = "\x1b[1m"
	dim    style = "\x1b[2m"
	red    style = "\x1b[31m"
	green  style = "\x1b[32m"
	yellow style = "\x1b[33m"
	cyan   style = "\x1b[36m"
	reset  style = "\x1b[0m"
)

// part is a piece of a line.
type part struct {
	style style
	text  string
}

// printer writes lines for a person. It is the only place where text meets the terminal, and there everything that could
// drive one is escaped.
type printer struct {
	w     *bufio.Writer
	width int // columns; 0: no limit
	color bool
}

func newPrinter(w io.Writer, width int, color bool) *printer {
	return &printer{w: bufio.NewWriter(w), width: width, color: color}
}

// line writes the parts, cut to the width. Errors are the writer's own and come out of flush.
func (p *printer) line(parts ...part) {
	room := p.width
	for _, x := range parts {
		text := printable(x.text)
		if p.width > 0 {
			text = cut(text, room)
			room -= utf8.RuneCountInString(text)
		}
		if p.color && x.style != plain && text != "" {
			p.w.WriteString(string(x.style))
			p.w.WriteString(text)
			p.w.WriteString(string(reset))
			continue
		}
		p.w.WriteString(text)
	}
	p.w.WriteByte('\n')
}

func (p *printer) flush() error { return p.w.Flush() }

// cut shortens s to n columns; what is missing shows as an ellipsis.
func cut(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	if n <= 0 {
		return ""
	}
	runes := []rune(s)
	return string(runes[:n-1]) + "…"
}
