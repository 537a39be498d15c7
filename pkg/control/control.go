// Package control is the FIFO by which commands reach a running xw-open: how it is made, checked and read. Nothing that
// arrives on it is trusted.
package control

import (
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

// parse cuts whole writes into commands. A run of bytes that is none becomes one message: after it the next command is
// looked for at every byte, since the writer of the bad bytes need not be the one that sends commands.
func parse(p *wire.Parser, b []byte) []Message {
	var list []Message
	bad := 0 // bytes before the present one that are no command
	var reason string
	flush := func(at int) {
		if bad > 0 {
			list = append(list, Message{Reason: reason, Bin: quote(b[at-bad : at])})
			bad = 0
		}
	}
	for at := 0; at < len(b); {
		rec, n, err := p.Parse(b[at:])
		var command wire.Record
		if err == nil {
			command, err = commandOf(rec, n)
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
	flush(len(b))
	return list
}

func quote(b []byte) []byte { return append([]byte(nil), b[:min(len(b), maxQuote)]...) }

// maxCommand is PIPE_BUF of Linux: a command is one write of at most that many bytes, which arrives in one piece
// (pipe(7)).
const maxCommand = 4096

// commandOf returns a copy of the command that a record of so many bytes is; nil for the header.
func commandOf(rec wire.Record, size int) (wire.Record, error) {
	if size > maxCommand {
		return nil, fmt.Errorf("%d bytes, at most %d are allowed", size, maxCommand)
	}
	switch r := rec.(type) {
	case *wire.Bind:
		c := *r
		return &c, nil
	case *wire.Unbind:
		c := *r
		return &c, nil
	case *wire.Read:
		c := *r
		return &c, nil
	case *wire.Header:
		if r.Stream == wire.Control {
			return nil, nil
		}
		return nil, fmt.Errorf("header of a stream of %s", r.Stream)
	}
	return nil, fmt.Errorf("%q is no command", rec.Kind())
}
