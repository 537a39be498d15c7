package decode

import (
	"bytes"
	"io"
	"testing"

	"xw/pkg/wire"
)

// load is a raw stream of n hits as a busy session writes it: two CPUs, 40 sites, 8 threads, registers, a round every
// 1000 hits.
func load(t testing.TB, n int) []byte {
	t.Helper()
	records := append([]wire.Record{rawHeader()}, rawSources()...)
	bins := [2][]byte{}
	for i := range n {
		h := hitSpec{time: uint64(1000 + i), pid: 7, tid: uint32(7 + i%8), ip: 0x400000 + uint64(i*7%40), slot: uint32(i % 3),
			addr: 0x1000, value: uint64(i), comm: "worker", regs: true}
		h.code[0] = byte(i * 7 % 40)
		rec := h.record()
		bins[i%2] = append(bins[i%2], rec...)
		if (i+1)%1000 != 0 && i != n-1 {
			continue
		}
		for cpu, bin := range bins {
			for len(bin) > 0 {
				part := bin[:min(len(bin), wire.MaxChunk/len(rec)*len(rec))]
				records = append(records, &wire.Chunk{CPU: uint32(cpu), Bin: part})
				bin = bin[len(part):]
			}
		}
		bins = [2][]byte{}
		records = append(records, &wire.Round{T: uint64(1000 + i)})
	}
	return encode(t, append(records, &wire.End{})...)
}

func BenchmarkDecode(b *testing.B) {
	const n = 200_000
	stream := load(b, n)
	b.SetBytes(int64(len(stream)))
	for b.Loop() {
		if err := Run(wire.NewReader(bytes.NewReader(stream)), wire.NewWriter(io.Discard)); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/sample")
}
