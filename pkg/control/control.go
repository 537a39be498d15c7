// Package control is the FIFO by which commands reach a running xw-open: how it is made, checked and read. Nothing that
// arrives on it is trusted.
package control

import (
	"errors"
	"fmt"

	"xw/pkg/wire"
)

// Message is one thing that arrived.
type Message struct {
	Command wire.Record // *wire.Bind, *wire.Unbind or *wire.Read; nil if something else arrived
	Reason  string      // why there is no command
	Bin     []byte      // the bytes, cut to maxQuote
}

// maxQuote bounds the bytes of a bad message that are passed on.
const maxQuote = 256

// fixArray is the upper half of the first byte of an array of up to 15 elements, as every command is one.
const fixArray = 0x90

// parse cuts bytes into commands. A run of bytes that is none becomes one message: after it the next command is looked for
// at every byte, since the writer of the bad bytes need not be the one that sends commands. If more bytes follow, those of
// a command that is not whole yet are left over.
func parse(p *wire.Parser, b []byte, more bool) (list []Message, rest []byte) {
	bad := 0 // bytes before the present one that are no command
	var reason string
	flush := func(at int) {
		if bad > 0 {
			list = append(list, Message{Reason: reason, Bin: quote(b[at-bad : at])})
			bad = 0
		}
	}
	at := 0
	for at < len(b) {
		if bad > 0 && b[at]&0xf0 != fixArray { // cheap, since a flood of garbage must not keep its reader from other work
			bad++
			at++
			continue
		}
		command, n, err := parseCommand(p, b[at:])
		if more && errors.Is(err, wire.ErrTruncated) && len(b)-at < maxCommand {
			break
		}
		if err != nil {
			if bad == 0 {
				reason = fmt.Sprintf("malformed command: %v", err)
			}
			bad++
			at++
			continue
		}
		flush(at)
		if command != nil {
			list = append(list, Message{Command: command, Bin: quote(b[at : at+n])})
		}
		at += n
	}
	flush(at)
	return list, b[at:]
}

func quote(b []byte) []byte { return append([]byte(nil), b[:min(len(b), maxQuote)]...) }

// maxCommand is PIPE_BUF of Linux: a command is one write of at most that many bytes, which arrives in one piece
// (pipe(7)).
const maxCommand = 4096

// parseCommand returns a copy of the command that b begins with, nil for the header, and its length.
func parseCommand(p *wire.Parser, b []byte) (command wire.Record, size int, err error) {
	rec, size, err := p.Parse(b)
	if err != nil {
		return nil, 0, err
	}
	if size > maxCommand {
		return nil, 0, fmt.Errorf("%d bytes, at most %d are allowed", size, maxCommand)
	}
	switch r := rec.(type) {
	case *wire.Bind:
		c := *r
		return &c, size, nil
	case *wire.Unbind:
		c := *r
		return &c, size, nil
	case *wire.Read:
		c := *r
		return &c, size, nil
	case *wire.Header:
		if r.Stream == wire.Control {
			return nil, size, nil
		}
		return nil, 0, fmt.Errorf("header of a stream of %s", r.Stream)
	}
	return nil, 0, fmt.Errorf("%q is no command", rec.Kind())
}
