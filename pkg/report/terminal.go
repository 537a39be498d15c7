package report

import (
	"bufio"
	"io"
	"strings"
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
		if p.color && x.style != plain && strings.Trim(text, " ") != "" {
			p.w.WriteString(string(x.style))
			p.w.WriteString(text)
			p.w.WriteString(string(reset))
			continue
		}
		p.w.WriteString(text)
	}
	p.w.WriteByte('\n')
}

// flow writes the parts, broken between words into as many lines as the width asks for. Lines after the first are
// indented by hang columns.
func (p *printer) flow(hang int, parts ...part) {
	if p.width == 0 || columns(parts) <= p.width {
		p.line(parts...)
		return
	}
	hang = min(hang, p.width/2)
	var line []part
	at, fresh := 0, true // column; nothing but the indentation stands in the line
	for _, x := range parts {
		for _, word := range words(printable(x.text)) {
			n := utf8.RuneCountInString(word)
			gap := n - utf8.RuneCountInString(strings.TrimLeft(word, " "))
			if at+n > p.width && !fresh && gap > 0 {
				p.line(merged(line)...)
				line, at = []part{{plain, strings.Repeat(" ", hang)}}, hang
				word, n, fresh = word[gap:], n-gap, true
			}
			for at+n > p.width && p.width > hang { // no line is long enough
				room := p.width - at
				if room > 0 {
					runes := []rune(word)
					line = append(line, part{x.style, string(runes[:room])})
					word, n = string(runes[room:]), n-room
				}
				p.line(merged(line)...)
				line, at = []part{{plain, strings.Repeat(" ", hang)}}, hang
			}
			if word != "" {
				line, at = append(line, part{x.style, word}), at+n
				fresh = fresh && strings.TrimLeft(word, " ") == ""
			}
		}
	}
	p.line(merged(line)...)
}

// words cuts s before each run of spaces.
func words(s string) []string {
	var out []string
	start := 0
	for i := 1; i < len(s); i++ {
		if s[i] == ' ' && s[i-1] != ' ' {
			out = append(out, s[start:i])
			start = i
		}
	}
	return append(out, s[start:])
}

// merged joins neighbours of one style.
func merged(parts []part) []part {
	var out []part
	for _, x := range parts {
		if n := len(out); n > 0 && out[n-1].style == x.style {
			out[n-1].text += x.text
			continue
		}
		out = append(out, x)
	}
	return out
}

// columns is how wide parts are.
func columns(parts []part) int {
	n := 0
	for _, x := range parts {
		n += utf8.RuneCountInString(printable(x.text))
	}
	return n
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
	return string(runes[:n-1]) + ellipsis
}
