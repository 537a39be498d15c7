// Command xw-open sets hardware watchpoints on a live process and writes what they record to standard output.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"xw/pkg/session"
	"xw/pkg/stage"
)

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

// flags is the command line.
type flags struct {
	PID         stage.Number   `name:"pid" placeholder:"N" help:"A live process, with all its threads."`
	Watch       []string       `name:"watch" sep:"none" placeholder:"WATCH" help:"What to watch, repeatable: [NAME=]PLACE{->OFFSET}[:LEN][:ACCESS]. PLACE is a symbol, MODULE!SYMBOL, MODULE+OFFSET or 0xADDR, each with +N or -N; ACCESS is w (default), rw, r, or x for execution."`
	List        stage.Optional `name:"list" placeholder:"[PATTERN]" help:"Print the target's writable data symbols and exit: all, or those with PATTERN in their names (* and ? match a whole name)."`
	Duration    stage.Duration `name:"duration" placeholder:"D" help:"Stop after D, such as 5s; 0: when the target ends or at a signal."`
	MaxEvents   stage.Number   `name:"max-events" placeholder:"N" help:"Deliver N hits, all watches together, then stop; 0: no limit."`
	MaxRate     stage.Number   `name:"max-rate" placeholder:"N" help:"Pause a watch that has more than N hits per second until that is made up for, for a second or two at most; 0: no limit."`
	Scope       string         `name:"scope" enum:"auto,cpu,inherit,thread" default:"auto" help:"How to cover the target's tasks: auto, cpu, inherit or thread."`
	Regs        bool           `name:"regs" negatable:"" default:"true" help:"Take the 16 general registers at each hit."`
	Values      string         `name:"values" enum:"auto,bpf,off" default:"auto" help:"The watched bytes as they stood at the hit, read by a BPF program: auto, bpf or off."`
	Kernel      string         `name:"kernel" enum:"auto,on,off" default:"auto" help:"Also hits that the kernel makes for the process: auto, on or off."`
	Callchain   bool           `name:"callchain" help:"Take the user call stack at each hit, by frame pointers (code that is built with -fno-omit-frame-pointer)."`
	Control     string         `name:"control" placeholder:"FIFO" help:"Listen there for commands of xw-rebind; made if it does not exist."`
	RingSize    stage.Number   `name:"ring-size" placeholder:"BYTES" help:"Size of each CPU's ring, a power of two of pages; default 16 MiB, on more than 2 CPUs down to 4 MiB."`
	Latency     stage.Duration `name:"latency" placeholder:"D" default:"10ms" help:"Longest time a hit may wait in a ring; default 10ms."`
	MaxSamplers stage.Number   `name:"max-samplers" placeholder:"N" help:"Refuse to open more than N watchpoints (slots x threads); default: 256 in scope thread, else what the descriptor limit allows."`
	Output      string         `name:"output" short:"o" placeholder:"FILE" help:"Write the stream to FILE instead of standard output."`
	Rotate      stage.Number   `name:"rotate" placeholder:"SIZE" help:"With -o: begin the next file, FILE.1, FILE.2..., after SIZE bytes; each is a whole stream."`
	Keep        *stage.Number  `name:"keep" placeholder:"N" help:"With --rotate: keep the newest N files; default 8."`
	ChildOutput string         `name:"child-output" placeholder:"FILE" help:"Where CMD's standard output goes; default: standard error."`
	Kill        bool           `name:"kill" help:"End CMD when xw-open stops."`
	Command     []string       `arg:"" optional:"" name:"cmd" help:"After --: start CMD and watch it from its first instruction."`
}

// minRotate is several times what the head of a stream takes.
const minRotate = 1 << 20

// Validate checks what the types of the flags cannot.
func (f *flags) Validate() error {
	switch {
	case f.PID == 0 && len(f.Command) == 0:
		return errors.New("nothing to watch: give --pid N, or -- CMD [ARG...]")
	case f.PID != 0 && len(f.Command) > 0:
		return fmt.Errorf("--pid and -- CMD exclude each other: %q was taken for CMD", f.Command[0])
	case f.PID > 1<<31-1:
		return errors.New("--pid: not a process id")
	case f.Duration < 0:
		return errors.New("--duration: must not be negative")
	case f.Latency <= 0:
		return errors.New("--latency: must be positive")
	case f.RingSize != 0 && (f.RingSize&(f.RingSize-1) != 0 || f.RingSize < stage.Number(os.Getpagesize()) || f.RingSize > 1<<30):
		return errors.New("--ring-size: must be a power of two between a page and 1 GiB")
	case f.MaxSamplers > 1<<31-1:
		return errors.New("--max-samplers: too large")
	case f.Rotate > 0 && f.Output == "":
		return errors.New("--rotate needs -o FILE")
	case f.Rotate > 0 && f.Rotate < minRotate:
		return fmt.Errorf("--rotate: must be at least %d bytes", minRotate)
	case f.Keep != nil && f.Rotate == 0:
		return errors.New("--keep needs --rotate SIZE")
	case f.keep() == 0 || f.keep() > 1<<20:
		return errors.New("--keep: must be between 1 and 1048576")
	case len(f.Command) == 0 && (f.Kill || f.ChildOutput != ""):
		return errors.New("--kill and --child-output need -- CMD")
	case f.List.Set && f.PID == 0:
		return errors.New("--list needs --pid N")
	}
	return nil
}

// keep is how many files are kept.
func (f *flags) keep() stage.Number {
	const usual = 8
	if f.Keep == nil {
		return usual
	}
	return *f.Keep
}

func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	f := &flags{}
	return stage.Run(stage.Command{
		Name: "xw-open", Flags: f, Rule: stage.Source,
		Summary: "Set hardware watchpoints on a live process, without stopping it, and write what they record to standard output.",
		Do:      func(ctx context.Context, s *stage.Stage) error { return open(ctx, s, f) },
	}, args, stdin, stdout, stderr)
}

func open(ctx context.Context, s *stage.Stage, f *flags) error {
	if f.List.Set {
		return session.List(int(f.PID), f.List.Value, s.Stdout, s.Say)
	}
	if len(f.Watch) == 0 {
		pid := "N"
		if f.PID != 0 {
			pid = fmt.Sprint(uint64(f.PID))
		}
		return stage.WithHint(stage.Usagef("nothing to watch: give --watch WATCH"), "xw-open --pid %s --list [PATTERN] prints what can be watched by name", pid)
	}
	if f.Output == "" {
		if err := s.BinaryOut("xw-open ... | xw-decode | xw-report, or xw-open ... -o trace.xw"); err != nil {
			return err
		}
		if err := s.WatchDownstream(); err != nil {
			return err
		}
	}
	return session.Run(ctx, session.Config{
		PID: int(f.PID), Command: f.Command, Watches: f.Watch, Duration: time.Duration(f.Duration), MaxEvents: uint64(f.MaxEvents), MaxRate: uint64(f.MaxRate),
		Scope: f.Scope, Values: f.Values, Kernel: f.Kernel, Regs: f.Regs, Callchain: f.Callchain,
		Output: f.Output, Rotate: uint64(f.Rotate), Keep: int(f.keep()), Control: f.Control, RingSize: int(f.RingSize),
		Latency: time.Duration(f.Latency), MaxSamplers: int(f.MaxSamplers), ChildOutput: f.ChildOutput, Kill: f.Kill,
	}, session.Streams{Out: s.Stdout, OutNow: s.WriteNow(), In: os.Stdin, Err: os.Stderr, Say: s.Say, Hint: s.Hint, Closed: stage.ErrDownstreamClosed, Signal: signalOf})
}

// signalOf is the signal that ended the context, nil if it was something else.
func signalOf(cause error) os.Signal {
	var s *stage.SignalError
	if errors.As(cause, &s) {
		return s.Signal
	}
	return nil
}
