package stage

import (
	"io"
	"os"
	"strings"
	"time"
)

const (
	// statusAfter is how long nobody is told of progress: a person does not wait yet.
	statusAfter = time.Second
	statusEvery = 250 * time.Millisecond
)

// Progress shows how far a command has come, in a line of standard error that is erased in the end, if that is a terminal.
// text is called from another goroutine until the function that is returned has returned; "" shows nothing.
func (s *Stage) Progress(text func() string) (stop func()) {
	if !s.StderrIsTerminal() {
		return func() {}
	}
	done, gone := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		next := time.After(statusAfter)
		for {
			select {
			case <-done:
				s.showStatus("")
				return
			case <-next:
			}
			next = time.After(statusEvery)
			if t := text(); t != "" {
				s.showStatus(s.statusLine(t))
			}
		}
	}()
	return func() {
		close(done)
		<-gone
	}
}

// statusLine is a message that fits into one line: a longer one could not be erased.
func (s *Stage) statusLine(text string) string {
	var b strings.Builder
	writePrintable(&b, s.name+": "+text)
	line := []rune(b.String())
	if width, _ := terminalSize(s.stderr); width > 0 && len(line) >= width {
		line = line[:width-1]
	}
	return string(line)
}

// Size is the number of bytes that r has if it is a file, else 0.
func Size(r io.Reader) int64 {
	f, ok := r.(*os.File)
	if !ok {
		return 0
	}
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return 0
	}
	return info.Size()
}

// StdinSize is the number of bytes of standard input if it is a file, else 0.
func (s *Stage) StdinSize() int64 { return Size(s.stdin) }
