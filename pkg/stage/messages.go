package stage

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"unicode"
)

// Rules for everything that xw says on standard error:
//
//   - one message is one line, "xw-decode: " and a text that starts in lower case and ends without a full stop;
//   - an error reads "operation: subject: cause", the cause last and in the words of the system;
//   - what the user typed is quoted with %q, numbers carry their unit;
//   - what to do about it is no part of the message but a line of its own, "hint: " and what to type;
//   - a list (nearest names, candidates) follows its message on lines that are indented;
//   - a message is for the person at the terminal: what a reader of the data must know is a record of the stream;
//   - nothing is said when all is well and nobody waits for it.

// Messages prints messages and hints for a person. Its methods may be called from several goroutines. A nil Messages
// prints nothing.
type Messages struct {
	name string

	mu     sync.Mutex // held for each message, so that lines stay whole
	w      io.Writer
	status bool // a line of status stands in the terminal
}

// NewMessages returns a printer of the messages of the named command.
func NewMessages(name string, w io.Writer) *Messages {
	return &Messages{name: name, w: w}
}

// Say prints one message. Control characters in it are escaped: a name that comes out of a stream must not drive the
// terminal. Lines after the first are printed indented.
func (m *Messages) Say(format string, args ...any) {
	if m != nil {
		m.print(m.name+": ", fmt.Sprintf(format, args...))
	}
}

// Hint prints what to do about the message before it.
func (m *Messages) Hint(format string, args ...any) {
	if m != nil {
		m.print("hint: ", fmt.Sprintf(format, args...))
	}
}

// Fail prints err and the hints that it carries.
func (m *Messages) Fail(err error) {
	m.Say("%v", err)
	for _, hint := range hints(err) {
		m.Hint("%s", hint)
	}
}

func (m *Messages) print(prefix, text string) {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	var b strings.Builder
	for i, line := range lines {
		if i == 0 {
			b.WriteString(prefix)
		} else {
			b.WriteString("  ")
		}
		writePrintable(&b, line)
		b.WriteByte('\n')
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.erase()
	// Nobody can be told that standard error does not work.
	_, _ = io.WriteString(m.w, b.String())
}

// eraseLine goes to the first column and erases the line (ECMA-48 EL).
const eraseLine = "\r\x1b[K"

// erase takes a status away. The caller holds mu.
func (m *Messages) erase() {
	if m.status {
		_, _ = io.WriteString(m.w, eraseLine)
		m.status = false
	}
}

// showStatus shows a text in place of the status before; "" shows none.
func (m *Messages) showStatus(text string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.erase()
	if text != "" {
		_, _ = io.WriteString(m.w, text)
		m.status = true
	}
}

func writePrintable(b *strings.Builder, line string) {
	for _, r := range line {
		if unicode.IsPrint(r) {
			b.WriteRune(r)
			continue
		}
		b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
	}
}
