package main

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"time"

	"xw/pkg/report"
	"xw/pkg/stage"
)

// redraw is the time between two views of a live report.
const redraw = time.Second

// follow reads the stream into m and shows how the report grows: redrawn in a terminal, else as snapshots one after the
// other. When it returns nothing is written any more.
func follow(m *report.Model, f *flags, s *stage.Stage, in *input) {
	var mu sync.Mutex // guards m
	done, gone := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		tick := time.NewTicker(redraw)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
			}
			mu.Lock()
			r := m.Report()
			mu.Unlock()
			if show(r, f, s) != nil { // whoever reads has gone, which ends the context
				return
			}
		}
	}()
	for in.next() {
		mu.Lock()
		m.Add(in.Record())
		mu.Unlock()
	}
	close(done)
	<-gone
	if s.StdoutIsTerminal() {
		_, _ = s.Stdout.Write([]byte(clearScreen)) // the report that follows shows whether it works
	}
}

// clearScreen moves to the top left corner and erases what follows (ECMA-48 CUP, ED).
const clearScreen = "\x1b[H\x1b[J"

// show writes one view in one piece, so that it does not flicker.
func show(r *report.Report, f *flags, s *stage.Stage) error {
	var b bytes.Buffer
	if s.StdoutIsTerminal() {
		b.WriteString(clearScreen)
	}
	if err := report.TextReport(&b, r, textOptions(f, s)); err != nil {
		return err
	}
	fit(&b, s.Height())
	if !s.StdoutIsTerminal() {
		b.WriteString(strings.Repeat("-", 72) + "\n")
	}
	_, err := s.Stdout.Write(b.Bytes())
	return err
}

// fit cuts a view to the lines of the terminal, so that its beginning stays in sight; 0 is no limit.
func fit(b *bytes.Buffer, height int) {
	if height < 2 {
		return
	}
	lines := bytes.SplitAfter(b.Bytes(), []byte{'\n'})
	if more := len(lines) - height; more > 0 { // the last one is empty: the cursor is there
		kept := bytes.Join(lines[:height-2], nil)
		b.Truncate(len(kept))
		fmt.Fprintf(b, "(%d lines more)\n", more+1)
	}
}
