package report

import (
	"cmp"
	"errors"
	"fmt"

	"xw/pkg/wire"
)

// Model collects the records of an events stream. It is not for concurrent use. Nothing of a record that is added is
// kept but copies.
type Model struct {
	opts    Options
	session wire.Session
	regs    regLayout
	watches []*watch
	threads threads
	texts   texts
	notes   noteList
	remarks noteList // on the names that were found
	gaps    gapList
	lost    lostRecords
	paused  map[throttled]int // index into gaps.items, plus 1, of the intervals that are open
	late    uint64
	last    uint64 // latest time seen
	end     *wire.EndInfo
	broken  error // why the stream ended before its end record
	done    bool

	parts       uint64 // streams so far, the present one included
	threadsSeen uint64 // the most that one of those before told
	unwatched   uint64 // ns between streams
	mixed       error  // why they are not of one target
}

// Options say how a Model names what it found. All are optional.
type Options struct {
	Symbols Symbolizer // names addresses
	// Op asks for the sites that read (r), write (w) or do either (rw, ""). A watch with access r asks for r.
	Op string
}

// maxCode bounds the code that is kept for an ip: far more than an instruction and its neighbours take.
const maxCode = 1024

// New returns a model of the session that h opens. It fails for a header of another stream.
func New(h *wire.Header, opts Options) (*Model, error) {
	if h.Stream != wire.Events {
		return nil, &StreamError{Stream: h.Stream}
	}
	m := &Model{
		opts:    opts,
		session: h.Session,
		regs:    newRegLayout(h.Session.Regs),
		threads: newThreads(len(h.Session.Watches)),
		texts:   newTexts(),
		paused:  map[throttled]int{},
		lost:    lostRecords{perCPU: map[uint32]*uint64{}, thread: h.Session.Scope == "thread"},
		last:    h.Session.StartNS,
		parts:   1,
	}
	for i := range h.Session.Watches {
		m.watches = append(m.watches, newWatch(&m.session.Watches[i], uint64(i)))
	}
	for i, w := range m.watches {
		w.bits, w.bind.blind.start = cmp.Or(h.Session.Target.Bits, 64), h.Session.StartNS
		if w.Parent.OK && w.Parent.V < uint64(i) { // levels follow each other
			w.parent = m.watches[w.Parent.V]
			w.parent.child = w
		}
	}
	for _, n := range h.Session.Notes {
		m.notes.add(n)
	}
	return m, nil
}

// StreamError says that a stream is not one of events.
type StreamError struct{ Stream string }

func (e *StreamError) Error() string {
	return fmt.Sprintf("read header: this is a stream of %q and not of %q", e.Stream, wire.Events)
}

// Add takes one record.
func (m *Model) Add(rec wire.Record) {
	if s, ok := rec.(*wire.Sample); ok {
		m.sample(s)
		return
	}
	if m.done {
		return
	}
	m.addTask(rec)
	m.addSight(rec)
	m.addTrouble(rec)
}

// addTask takes what tells about threads and what they run.
func (m *Model) addTask(rec wire.Record) {
	if m.opts.Symbols != nil {
		m.opts.Symbols.Add(rec)
	}
	switch r := rec.(type) {
	case *wire.Thread:
		m.checkBirth(r)
		m.threads.attached(r)
	case *wire.Fork:
		m.see(r.Time)
		m.threads.fork(r)
	case *wire.Exit:
		m.see(r.Time)
		m.threads.exit(r.TID)
	case *wire.Comm:
		m.see(r.Time)
		m.threads.named(r.TID, r.Comm)
	case *wire.Exec:
		m.see(r.Time)
		m.threads.named(r.TID, r.Comm)
	case *wire.Mmap:
		m.see(r.Time)
		m.texts.mapped(r)
	case *wire.Code:
		m.texts.saw(r)
	}
}

// addSight takes what tells how the watches were set.
func (m *Model) addSight(rec wire.Record) {
	switch r := rec.(type) {
	case *wire.Bound:
		m.see(r.Time)
		if w := m.watch(r.Watch, "bound"); w != nil {
			w.bound(r)
		}
	case *wire.Rebind:
		m.see(r.Time)
		if w := m.watch(r.Watch, "rebind"); w != nil {
			w.rebind(r)
		}
	case *wire.Check:
		m.see(r.Time)
		if w := m.watch(r.Watch, "check"); w != nil {
			m.check(w, r)
		}
	case *wire.Counts:
		m.see(r.Time)
		if w := m.watch(r.Watch, "counts"); w != nil {
			w.takeCounts(r)
		}
	case *wire.Note:
		m.see(r.Time)
		m.notes.add(r.Text)
	case *wire.End:
		info := r.Info
		m.end, m.done = &info, true
	}
}

// see moves the latest time seen.
func (m *Model) see(t uint64) { m.last = max(m.last, t) }

// watch returns a watch by its id, or nil after having noted the gap.
func (m *Model) watch(id uint32, kind string) *watch {
	if int(id) < len(m.watches) {
		return m.watches[id]
	}
	m.gaps.add(Gap{Kind: gapMalformed, Count: num(1),
		Detail: Text(fmt.Sprintf("%s record of watch %d, which the header does not have", kind, id))})
	return nil
}

func (m *Model) sample(s *wire.Sample) {
	if m.done {
		return
	}
	m.see(s.Time)
	w := m.watch(s.Watch, "sample")
	if w == nil {
		return
	}
	m.lost.seen(s.CPU, s.Time)
	t := m.threads.get(s.TID)
	m.threads.hit(t, w.id)
	w.hit(s, m.keyOf(s), t, &m.regs)
}

// Finish says that no more records come: nil if the stream ended with its end record, else why it did not.
func (m *Model) Finish(err error) {
	if err == nil && m.end == nil {
		err = errors.New("the stream has no end record")
	}
	m.broken, m.done = err, true
}

// noteList keeps each note once.
type noteList struct {
	items []Text
	seen  map[Text]bool
	more  uint64
}

func (l *noteList) add(s string) {
	t := Text(s)
	switch {
	case t == "" || l.seen[t]:
		return
	case len(l.items) >= MaxEntries:
		l.more++
		return
	case l.seen == nil:
		l.seen = map[Text]bool{}
	}
	l.seen[t] = true
	l.items = append(l.items, t)
}

func (l *noteList) list() []Text {
	notes := append([]Text{}, l.items...)
	if l.more > 0 {
		notes = append(notes, Text(fmt.Sprintf("%d more notes", l.more)))
	}
	return notes
}
