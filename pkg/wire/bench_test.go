package wire

import (
	"bytes"
	"io"
	"testing"
)

// hotSample is a hit as a live session gives it: values of usual size, 16 registers, no call chain.
func hotSample() *Sample {
	return &Sample{Time: 123456789012345, CPU: 1, PID: 12345, TID: 12346, Watch: 1, Generation: 1,
		Addr: 0x55d0c0ffe040, IP: 0x55d0c0ff1a2b, Value: Some(123456), Regs: bytes.Repeat([]byte{0x5a}, 128)}
}

func hotChunk() *Chunk { return &Chunk{CPU: 1, Bin: make([]byte, MaxChunk)} }

// endless repeats one record after a header.
type endless struct {
	head, body []byte
	at         int
}

func newEndless(t testing.TB, r Record) *endless {
	return &endless{head: encodeAll(t, []Record{&Header{Version: 1, Stream: Raw}}), body: encodeAll(t, []Record{r})}
}

func (e *endless) Read(p []byte) (int, error) {
	if len(e.head) > 0 {
		n := copy(p, e.head)
		e.head = e.head[n:]
		return n, nil
	}
	n := 0
	for n < len(p) {
		c := copy(p[n:], e.body[e.at:])
		n += c
		e.at = (e.at + c) % len(e.body)
	}
	return n, nil
}

func hotRecords() map[string]Record {
	withChain := hotSample()
	withChain.Callchain = []uint64{0x55d0c0ff1a2b, 0x55d0c0ff2a2b, 0x55d0c0ff3a2b}
	return map[string]Record{"sample": hotSample(), "callchain": withChain, "chunk": hotChunk()}
}

func BenchmarkRead(b *testing.B) {
	for name, rec := range hotRecords() {
		b.Run(name, func(b *testing.B) {
			r := NewReader(newEndless(b, rec))
			b.ReportAllocs()
			for b.Loop() {
				if !r.Next() {
					b.Fatal(r.Err())
				}
			}
			b.SetBytes(int64(len(r.Raw())))
		})
	}
}

func BenchmarkWrite(b *testing.B) {
	for name, rec := range hotRecords() {
		b.Run(name, func(b *testing.B) {
			w := NewWriter(io.Discard)
			b.ReportAllocs()
			for b.Loop() {
				if err := w.Write(rec); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkJSONL(b *testing.B) {
	j := NewJSONL([]string{"rax", "rbx", "rcx", "rdx", "rsi", "rdi", "rbp", "rsp"})
	rec := hotSample()
	var line []byte
	b.ReportAllocs()
	for b.Loop() {
		line = j.Append(line[:0], rec)
	}
}

func TestHotRecordsDoNotAllocate(t *testing.T) {
	const runs = 2000
	for name, rec := range hotRecords() {
		r := NewReader(newEndless(t, rec))
		r.Next()
		if n := testing.AllocsPerRun(runs, func() {
			if !r.Next() {
				t.Fatal(r.Err())
			}
		}); n != 0 {
			t.Errorf("read %s: %v allocations", name, n)
		}
		w := NewWriter(io.Discard)
		if n := testing.AllocsPerRun(runs, func() {
			if err := w.Write(rec); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("write %s: %v allocations", name, n)
		}
	}
	j := NewJSONL([]string{"rax", "rbx"})
	line := make([]byte, 0, 1024)
	if n := testing.AllocsPerRun(runs, func() { line = j.Append(line[:0], hotSample()) }); n > 2 {
		t.Errorf("jsonl: %v allocations, 2 of them the sample itself", n)
	}
}
