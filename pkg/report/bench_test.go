package report

import (
	"testing"

	"xw/pkg/wire"
)

// busy returns the samples of a session that has warmed up: 8 threads, 20 sites, 64 values, registers, call stacks.
func busy() []*wire.Sample {
	var out []*wire.Sample
	for i := range uint64(4096) {
		s := hit(1000+i, uint32(100+i%8), 0x400000+i%20, i%64)
		s.CPU = uint32(i % 2)
		s.Regs = registers(i, 0, 0, 0x1000)
		s.Callchain = []uint64{0x400000 + i%20, 0x500000 + i%3, 0x600000}
		out = append(out, s)
	}
	return out
}

func TestSamplesDoNotAllocate(t *testing.T) {
	m := newModel(t, nil)
	samples := busy()
	add := func() {
		for _, s := range samples {
			m.Add(s)
		}
	}
	add()
	if n := testing.AllocsPerRun(5, add); n != 0 {
		t.Errorf("%v allocations for %d samples", n, len(samples))
	}
}

func BenchmarkAdd(b *testing.B) {
	m := newModel(b, nil)
	samples := busy()
	for _, s := range samples {
		s.Callchain = nil
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		m.Add(samples[i%len(samples)])
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "samples/s")
}
