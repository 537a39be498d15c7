//go:build amd64

package session

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"xw/pkg/proc"
	"xw/pkg/target"
	"xw/pkg/watch"
	"xw/pkg/wire"
)

// run is one session. It belongs to the goroutine of Run.
type run struct {
	cfg     Config
	io      Streams
	proc    *proc.Process
	child   *command // nil with PID
	watches []wire.Watch
	notes   []string
	set     *watch.Set

	laterReads bool // a watch that is opened later than others makes hits of reads

	waiter *watch.Waiter
	pipe   *pipe
	out    *stream

	start    uint64 // when everything was armed
	reason   string // why the session stops; "" while it goes on
	cause    error  // for StopError
	execed   bool
	verified time.Time // when the target's memory was looked at last
	rounds   rounds
	chains   *chains
	rate     *rate
	sights   sights
	files    *files        // nil when the stream goes to Out
	past     []wire.Counts // what the files before the present one have, by watch
	bounds   []wire.Bound  // made and not yet written
}

// Run does one session and returns when it is over: nil when the stream has its end record, or its reader has gone.
func Run(ctx context.Context, cfg Config, io Streams) (err error) {
	r := &run{cfg: cfg, io: io}
	defer r.close()
	if err := r.attach(ctx); err != nil {
		return err
	}
	if err := r.begin(ctx); err != nil {
		return err
	}
	r.loop(ctx)
	return r.finish(ctx)
}

// attach finds the target, resolves the watches and opens them.
func (r *run) attach(ctx context.Context) error {
	specs, err := parse(r.cfg.Watches)
	if err != nil {
		return err
	}
	if len(r.cfg.Command) > 0 {
		return r.attachCommand(ctx, specs)
	}
	if r.proc, err = proc.Open(r.cfg.PID); err != nil {
		return watch.Explain(err)
	}
	if tid := r.proc.GivenTID(); tid != 0 {
		r.note("%d is a thread of process %d, which is watched as a whole", tid, r.proc.PID())
	}
	if err := r.open(specs, resolveOptions); err != nil {
		return err
	}
	return r.proc.Verify()
}

// resolveOptions accepts every access: the report decodes the instructions that r needs.
var resolveOptions = target.Options{AllowRead: true}

// note tells the user and, in the header, every later reader.
func (r *run) note(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	r.notes = append(r.notes, text)
	r.io.Say("%s", text)
}

func parse(watches []string) ([]target.Spec, error) {
	var specs []target.Spec
	for _, w := range watches {
		spec, err := target.Parse(w)
		if err != nil {
			return nil, err
		}
		specs = append(specs, spec)
	}
	return specs, nil
}

// take adds what a plan resolved, behind what there is.
func (r *run) take(plan *target.Plan) {
	first, chains := uint64(len(r.watches)), uint64(0)
	for _, w := range r.watches {
		if w.Chain.OK {
			chains = max(chains, w.Chain.V+1)
		}
	}
	for _, w := range plan.Watches {
		w.ID += first
		if w.Parent.OK {
			w.Parent.V += first
		}
		if w.Chain.OK {
			w.Chain.V += chains
		}
		r.watches = append(r.watches, w)
	}
	for _, n := range plan.Notes {
		r.note("%s", n)
	}
}

func (r *run) openConfig() watch.Config {
	return watch.Config{
		Slots: slots(r.watches, 0), Scope: r.cfg.Scope, Values: r.cfg.Values, Kernel: r.cfg.Kernel, Regs: r.cfg.Regs,
		Chains: slices.ContainsFunc(r.watches, func(w wire.Watch) bool { return w.Chain.OK }), LaterReads: r.laterReads, Callchain: r.cfg.Callchain, RingSize: r.cfg.RingSize, MaxSamplers: r.cfg.MaxSamplers,
	}
}

// slots lists the hardware slots of the watches from index first on.
func slots(watches []wire.Watch, first int) []watch.Slot {
	var list []watch.Slot
	for i, w := range watches[first:] {
		for j, s := range w.Slots {
			slot := watch.Slot{Watch: first + i, Index: j, Addr: s.Addr, Len: s.Len, Access: w.Access}
			slot.Wake = w.Role == "header" || w.Role == "pointer"
			if w.Role == "pointer" {
				leaf := watches[first+i+1] // a chain's levels follow each other
				slot.Child = &watch.Child{Offset: leaf.Offset, Len: leaf.Len, Access: leaf.Access}
			}
			list = append(list, slot)
		}
	}
	return list
}

// begin writes what a reader has to know first, and says that the session is ready.
func (r *run) begin(ctx context.Context) (err error) {
	if err := r.bindChains(); err != nil {
		return err
	}
	fds := []int{r.proc.PidFD(), r.set.Fd()}
	if r.chains.fifo != nil {
		fds = append(fds, r.chains.fifo.Fd())
	}
	if r.waiter, err = watch.NewWaiter(fds...); err != nil {
		return err
	}
	write, now := r.io.Out.Write, r.io.OutNow
	if r.cfg.Output != "" {
		if r.files, err = newFiles(r.cfg.Output, r.cfg.Rotate, r.cfg.Keep); err != nil {
			return err
		}
		write, now = func(b []byte) (int, error) { return r.files.file.Write(b) }, nil
	}
	r.past = make([]wire.Counts, len(r.watches))
	r.pipe = newPipe(ctx.Done(), write, now, r.waiter.Wake)
	r.out = newStream(wire.NewWriter(r.pipe))
	context.AfterFunc(ctx, r.waiter.Wake)
	r.rate = newRate(r.cfg.MaxRate, len(r.watches))
	if r.cfg.MaxEvents > 0 {
		r.set.Limit(r.cfg.MaxEvents)
	}
	r.start = watch.Now()
	if err := r.writeHead(r.set.NewSources()); err != nil {
		return err
	}
	info := r.set.Info()
	r.io.Say("ready pid=%d threads=%d watches=%d slots=%d scope=%s values=%s kernel=%s",
		r.proc.PID(), info.Threads, len(r.watches), r.slots(), info.Scope, info.Values, info.Kernel)
	return r.release()
}

// writeHead writes what a reader has to know before the first hit.
func (r *run) writeHead(sources []watch.Source) error {
	header, err := r.header()
	if err != nil {
		return err
	}
	r.out.write(header)
	for _, src := range sources {
		r.writeSource(src)
	}
	if err := r.writeThreads(); err != nil {
		return err
	}
	if err := r.writeMaps(); err != nil {
		return err
	}
	r.writeBounds()
	r.writeChecks()
	r.out.flush()
	return r.out.err
}

func (r *run) slots() int {
	n := 0
	for _, w := range r.watches {
		n += len(w.Slots)
	}
	return n
}

// loop drains until there is a reason to stop.
func (r *run) loop(ctx context.Context) {
	deadline := time.Now().Add(r.cfg.Duration)
	r.rate.burst = watch.Now()
	room := func() bool { return !r.pipe.busy() }
	for r.reason == "" {
		wait := r.rate.latency(r.cfg.Latency)
		if r.cfg.Duration > 0 {
			wait = max(0, min(wait, time.Until(deadline)))
		}
		if r.urgent() > r.rounds.covered && room() {
			wait = 0
		}
		r.listen(room())
		ready, err := r.waiter.Wait(wait)
		if err != nil {
			r.stop(StopError, err)
			return
		}
		if r.chains.fifo != nil && ready[len(ready)-1] {
			r.command()
		}
		r.drain(room)
		if room() && !r.set.Full() {
			r.tellLost()
		}
		r.limitRate()
		r.maybeRotate()
		switch {
		case r.pipe.failure() != nil, r.out.err != nil:
			r.stopWriting()
		case ctx.Err() != nil && errors.Is(context.Cause(ctx), r.io.Closed):
			r.stop(StopDownstream, nil)
		case ctx.Err() != nil:
			r.stop(StopInterrupt, nil)
		case r.set.Full():
			r.stop(StopMaxEvents, nil)
		case r.execed || r.replaced():
			r.stop(StopExec, nil)
		case ready[0]:
			r.stop(StopExited, nil)
		case r.cfg.Duration > 0 && !time.Now().Before(deadline):
			r.stop(StopDuration, nil)
		}
	}
}

// replacedPeriod is how often the target's memory is looked at.
const replacedPeriod = 200 * time.Millisecond

// replaced reports an exec that no record told of: the record found no room in the ring, or in scope thread the thread
// that did it had no events yet.
func (r *run) replaced() bool {
	if time.Since(r.verified) < replacedPeriod {
		return false
	}
	r.verified = time.Now()
	return errors.Is(r.proc.Verify(), proc.ErrReplaced)
}

func (r *run) stop(reason string, cause error) {
	if r.reason == "" {
		r.reason, r.cause = reason, cause
	}
}

// stopWriting stops because the stream cannot be written.
func (r *run) stopWriting() {
	err := r.pipe.failure()
	if err == nil { // otherwise the error of the stream comes of it
		err = r.out.err
	}
	if errors.Is(err, r.io.Closed) {
		r.stop(StopDownstream, nil)
		return
	}
	r.stop(StopError, err)
}

// listen waits for commands from now on, or does not: an answer has to have room.
func (r *run) listen(room bool) {
	switch {
	case r.chains.fifo == nil:
	case room:
		r.waiter.Replace(r.chains.fifo.Fd())
	default:
		r.waiter.Drop()
	}
}

// command takes commands from the FIFO.
func (r *run) command() {
	if err := r.takeCommands(); err != nil {
		r.refuse(err.Error(), nil)
		r.chains.fifo.Close()
		r.chains.fifo = nil
		r.waiter.Drop()
	}
	r.out.flush() // a refusal has no round to go with
}

// finish switches the watchpoints off, drains the rest, counts and writes the end.
func (r *run) finish(ctx context.Context) error {
	r.pipe.expire()
	if r.reason != StopExited && r.reason != StopExec {
		r.writeChecks()
	}
	stopErr := r.set.Stop()
	end := watch.Now()
	for i := range r.watches {
		r.writePause(i, end)
	}
	for range 2 { // the second round covers what was on its way during the first
		r.drain(func() bool { return true })
		time.Sleep(2 * inFlight)
	}
	r.drain(func() bool { return true })
	if stopErr != nil {
		r.stop(StopError, stopErr)
		r.cause = errors.Join(r.cause, stopErr)
	}
	r.writeCounts()
	r.writeGaps()
	r.writeNoHits()
	info := wire.EndInfo{StopReason: r.reason, EndNS: end, ElapsedNS: end - r.start, ThreadsSeen: uint64(r.set.Info().Threads) + r.set.Born(), Child: r.endChild(ctx)}
	if r.cause != nil {
		info.Error = r.cause.Error()
	}
	r.out.write(&wire.End{Info: info})
	r.out.flush()
	err := r.pipe.close()
	if err == nil {
		err = r.out.err
	}
	if r.files != nil && err == nil {
		err = r.files.close()
	}
	switch {
	case r.reason == StopDownstream, errors.Is(err, r.io.Closed):
		return nil
	case r.cause != nil:
		return r.cause
	}
	return err
}

func (r *run) close() {
	if r.chains != nil && r.chains.fifo != nil {
		r.chains.fifo.Close()
	}
	if r.set != nil {
		r.set.Close()
	}
	if r.waiter != nil {
		r.waiter.Close()
	}
	if r.child != nil {
		r.child.close()
	}
	if r.proc != nil {
		r.proc.Close()
	}
}

func bootID() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "" // a reader then takes no kernel symbols from its own machine
	}
	return strings.TrimSpace(string(b))
}
