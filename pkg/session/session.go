// Package session is one run of xw-open: it resolves what to watch, attaches, drains the rings into the raw stream,
// stops, counts, and writes the end.
package session

import (
	"errors"
	"io"
	"os"
	"time"
)

// Config is what the command line asks for.
type Config struct {
	PID         int
	Command     []string // instead of PID
	Watches     []string // WATCH arguments as typed
	Duration    time.Duration
	MaxEvents   uint64
	MaxRate     uint64 // hits per second of each watch; 0 for no limit
	Scope       string
	Values      string
	Kernel      string
	Regs        bool
	Callchain   bool
	Output      string // file for the stream, instead of Out; "" for none
	Rotate      uint64 // bytes after which the next of a row of files is begun; 0 for one file
	Keep        int    // how many files of the row are kept
	Control     string // path of the control FIFO; "" for none
	RingSize    int
	Latency     time.Duration
	MaxSamplers int
	ChildOutput string // file for the output of Command; "" is standard error
	Kill        bool   // end Command when the session stops
}

// Streams are where a session writes.
type Streams struct {
	Out    io.Writer                        // the raw stream
	OutNow func([]byte) (bool, error)       // writes to Out what its reader has room for now, all or nothing; nil if nobody can tell
	In     *os.File                         // standard input of Command
	Err    *os.File                         // standard output and error of Command
	Say    func(format string, args ...any) // a message for the user
	Hint   func(format string, args ...any) // what to do about the message before
	Closed error                            // what a write to Out returns, and the context's cause is, when the reader has gone
	Signal func(cause error) os.Signal      // the signal that ended the context; nil if it was something else
}

// Stop reasons, the stop_reason of the end record.
const (
	StopDuration   = "duration"
	StopMaxEvents  = "max_events"
	StopExited     = "target_exited"
	StopExec       = "target_exec"
	StopInterrupt  = "interrupted"
	StopDownstream = "downstream_closed"
	StopError      = "error"
)

// ErrNoEnd says that the reader took too long and the stream has no end record.
var ErrNoEnd = errors.New("write the end of the stream: the reader of standard output does not read: hits are lost and the stream has no end record")
