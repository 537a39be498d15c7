package rebind

import (
	"bytes"
	"io"
	"math"
	"testing"

	"xw/pkg/wire"
)

// FuzzMachine builds any sequence of records, answers to what was asked among them, and wants no panic, generations that
// rise, and no more commands than there is cause for.
func FuzzMachine(f *testing.F) {
	f.Add([]byte{0, 0, 0, 0, 1, 0, 2, 1, 3, 4, 5, 6, 7, 8, 9})
	f.Add(bytes.Repeat([]byte{0, 1, 3, 0, 9, 0, 0}, 40))
	f.Add([]byte("any sequence of records never panics and generations rise"))
	f.Fuzz(func(t *testing.T, ops []byte) {
		w := newWorld(1, 4, true, faults{})
		highest := map[uint32]uint64{0: 1, 1: 1, 2: 1, 3: 1}
		var asked []wire.Record
		m, err := NewMachine(w.session(), func(r wire.Record) error {
			asked = append(asked, r)
			if _, isRead := r.(*wire.Read); isRead {
				return nil
			}
			level, gen, _ := parts(r)
			if gen <= highest[uint32(level)] {
				t.Errorf("%s %+v after generation %d", r.Kind(), r, highest[uint32(level)])
			}
			highest[uint32(level)] = gen
			return nil
		}, nil, func(string, ...any) {})
		if err != nil {
			t.Fatal(err)
		}
		in := fuzzInput{ops}
		for len(in.ops) > 0 {
			before := len(asked)
			r := in.record(asked)
			m.Take(r)
			if b, ok := r.(*wire.Bound); ok {
				highest[b.Watch] = max(highest[b.Watch], b.Generation)
			}
			if len(asked) > before+2 { // for an overdue answer and for the record
				t.Errorf("%d commands at once", len(asked)-before)
			}
		}
		m.Finish()
	})
}

type fuzzInput struct{ ops []byte }

func (f *fuzzInput) byte() byte {
	if len(f.ops) == 0 {
		return 0
	}
	b := f.ops[0]
	f.ops = f.ops[1:]
	return b
}

// number is small, seldom huge.
func (f *fuzzInput) number() uint64 {
	switch b := f.byte(); b {
	case 255:
		return math.MaxUint64
	case 254:
		return math.MaxUint64 - 1
	case 253:
		return 1 << 33
	default:
		return uint64(b)
	}
}

func (f *fuzzInput) opt(v uint64) wire.Opt {
	if f.byte()%3 == 0 {
		return wire.Opt{}
	}
	return wire.Some(v)
}

// addr is often one that a level can have.
func (f *fuzzInput) addr() uint64 {
	b := f.byte()
	level := uint64(b & 3)
	if level == 0 {
		return root
	}
	return level<<20 + uint64(b>>2&3)<<12 + uint64(b>>4&1)*0x10*level
}

func (f *fuzzInput) record(asked []wire.Record) wire.Record {
	time := f.number() * ms
	watch := uint32(f.byte() % 5)
	switch f.byte() % 12 {
	case 0, 1, 2:
		return &wire.Sample{Time: time, CPU: uint32(time % 2), Watch: watch, Generation: 1, Addr: f.addr(), Value: f.opt(f.addr())}
	case 3, 4, 5:
		if len(asked) == 0 {
			return &wire.Comm{Time: time}
		}
		level, gen, addr := parts(asked[len(asked)-1])
		return &wire.Bound{Time: time, Watch: uint32(level), Generation: gen, Addr: addr, Value: f.opt(f.addr()),
			Errno: uint32(f.byte() / 128), Start: time - min(time, ms)}
	case 6:
		return &wire.Bound{Time: time, Watch: watch, Generation: f.number(), Addr: f.opt(f.addr()), Value: f.opt(f.addr()), Start: f.number()}
	case 7:
		return &wire.Lost{Time: time}
	case 8:
		if len(asked) == 0 {
			return &wire.Malformed{}
		}
		b, _ := newEncoder().encode(asked[len(asked)-1])
		return &wire.ControlRecord{Time: time, Bin: b}
	case 9:
		return &wire.Throttle{Time: time, Watch: f.opt(uint64(watch))}
	case 10:
		return &wire.Pause{Watch: watch, From: f.number(), To: time}
	default:
		return &wire.Gap{Time: time, Watch: f.opt(uint64(watch))}
	}
}

// FuzzRun takes any bytes for a stream.
func FuzzRun(f *testing.F) {
	good := encodeAll(f, append(chainStart(), storeAt(10*ms, 0x4000), boundAt(11*ms, 1, 2, 0x4010, wire.Opt{}), endAt(30*ms))...)
	f.Add(good)
	f.Add(good[:len(good)-20])
	f.Add(bytes.Replace(good, []byte("pointer"), []byte("pointre"), 1))
	f.Fuzz(func(t *testing.T, stream []byte) {
		var out bytes.Buffer
		err := Run(wire.NewReader(bytes.NewReader(stream)), wire.NewWriter(&out), io.Discard, Options{})
		if err != nil {
			return
		}
		in := wire.NewReader(&out)
		for in.Next() {
		}
		if in.Err() != nil {
			t.Errorf("a whole stream became a bad one: %v", in.Err())
		}
	})
}
