package session

import (
	"sync/atomic"
	"time"
)

// pipe decouples the draining of rings from a reader that may stall: blocks of the stream wait in a queue for a
// goroutine that writes them. It has one user and one writing goroutine, which ends when the queue is closed or the
// program exits; a write that blocks for ever cannot be ended otherwise without changing the mode of a descriptor
// that other processes share.
type pipe struct {
	queue chan job
	free  chan []byte
	done  chan struct{}   // closed when the writing goroutine has ended
	stop  <-chan struct{} // closed when the session is to stop
	late  chan struct{}   // nil until expire; closed when the time is over
	now   func([]byte) (bool, error)
	open  atomic.Int64 // jobs put and not yet done
	err   atomic.Pointer[error]
	count atomic.Uint64 // bytes queued since the last file began
}

// job is something for the writing goroutine: a block to write, or something to do between blocks.
type job struct {
	block []byte
	do    func() error
}

// queueBlocks blocks of up to blockSize bytes wait for the reader. With the kernel's 64 KiB for a pipe and the rings that
// is enough for a reader that pauses for its garbage collection; a longer queue would only delay the moment when hits
// are lost, and xw-open has to stay small.
const (
	queueBlocks = 64
	blockSize   = 128 << 10
)

// newPipe starts writing to write, or past the goroutine to now, which is nil or writes all or nothing without blocking.
// After stop is closed no write waits for the reader longer than stopLimit.
func newPipe(stop <-chan struct{}, write func([]byte) (int, error), now func([]byte) (bool, error), failed func()) *pipe {
	p := &pipe{stop: stop, now: now, queue: make(chan job, queueBlocks), free: make(chan []byte, queueBlocks), done: make(chan struct{})}
	go func() {
		defer close(p.done)
		for j := range p.queue {
			if p.err.Load() == nil {
				if err := j.run(write); err != nil {
					p.err.Store(&err)
					failed()
				}
			}
			p.open.Add(-1)
			select {
			case p.free <- j.block[:0]:
			default:
			}
		}
	}()
	return p
}

func (j job) run(write func([]byte) (int, error)) error {
	if j.do != nil {
		return j.do()
	}
	_, err := write(j.block)
	return err
}

// written is the number of bytes queued since it was last set to 0.
func (p *pipe) written() uint64 { return p.count.Load() }

// Write queues a copy of b, unless nothing is queued and the reader has room for it now: waking the goroutine costs 50 us
// in a virtual machine. It blocks only while the queue is full, which busy tells beforehand, and after expire for no longer
// than that allows.
func (p *pipe) Write(b []byte) (int, error) {
	if err := p.failure(); err != nil {
		return 0, err
	}
	if p.now != nil && p.open.Load() == 0 {
		done, err := p.now(b)
		if err != nil {
			p.err.Store(&err)
			return 0, err
		}
		if done {
			p.count.Add(uint64(len(b)))
			return len(b), nil
		}
	}
	var block []byte
	select {
	case block = <-p.free:
	default:
		block = make([]byte, 0, blockSize)
	}
	if err := p.put(job{block: append(block, b...)}); err != nil {
		return 0, err
	}
	p.count.Add(uint64(len(b)))
	return len(b), nil
}

// between has do called when everything before it is written. Its error is one of writing.
func (p *pipe) between(do func() error) error { return p.put(job{do: do}) }

func (p *pipe) put(j job) error {
	p.open.Add(1)
	for {
		select {
		case p.queue <- j:
			return nil
		case <-p.late:
			return ErrNoEnd // with the job still counted as open: its bytes are missing before whatever comes next
		case <-p.stop:
			p.expire()
		}
	}
}

// stopLimit bounds how long a reader that does not read may hold up the end.
const stopLimit = time.Second

// expire bounds how long all writes from now on, and close, together may wait for the reader.
func (p *pipe) expire() {
	if p.late == nil {
		late := make(chan struct{})
		p.late = late
		time.AfterFunc(stopLimit, func() { close(late) })
	}
	p.stop = nil
}

// busy reports that the reader is behind: what is in the rings had better stay there. The margin is for the block that
// is being filled and for what one round writes besides ring data.
func (p *pipe) busy() bool { return len(p.queue) > queueBlocks-8 }

// failure is the error that ended the writing, if one has.
func (p *pipe) failure() error {
	if err := p.err.Load(); err != nil {
		return *err
	}
	return nil
}

// close waits until everything is written, as long as expire allows.
func (p *pipe) close() error {
	close(p.queue)
	select {
	case <-p.done:
		return p.failure()
	case <-p.late:
		return ErrNoEnd
	}
}
