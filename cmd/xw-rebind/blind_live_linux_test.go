package main

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"xw/pkg/hwtest"
	"xw/pkg/wire"
)

// BenchmarkBlind measures the time from a store to a pointer until the leaf is armed at its new place, over 200 stores, in a
// program with one or eight threads.
//
//	go test ./cmd/xw-rebind -run '^$' -bench Blind -benchtime 1x
func BenchmarkBlind(b *testing.B) {
	hwtest.Require(b)
	for _, how := range []struct {
		scope, values string
		threads       int
		hops          int
	}{
		{"cpu", "bpf", 1, 1}, {"cpu", "bpf", 8, 1}, {"inherit", "bpf", 8, 1}, {"thread", "off", 8, 1}, {"cpu", "off", 1, 1},
		{"cpu", "bpf", 1, 2},
	} {
		b.Run(fmt.Sprintf("scope=%s/values=%s/threads=%d/hops=%d", how.scope, how.values, how.threads, how.hops), func(b *testing.B) {
			var blind []time.Duration
			for range b.N {
				blind = append(blind, measureBlind(b, how.scope, how.values, how.threads, how.hops)...)
			}
			slices.Sort(blind)
			at := func(part float64) float64 { return blind[int(part*float64(len(blind)-1))].Seconds() * 1e6 }
			b.ReportMetric(at(0.5), "us-p50")
			b.ReportMetric(at(0.99), "us-p99")
			b.ReportMetric(at(1), "us-max")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// measureBlind returns the blind time of each of 200 moves of a chain of so many hops, whose header is rewritten.
func measureBlind(b *testing.B, scope, values string, threads, hops int) (blind []time.Duration) {
	const moves, period = 200, 5 * time.Millisecond
	p := startPuppet(b, threads)
	offsets := []int64{0x10, 0x18, field}[3-hops:]
	first := p.list(offsets[:hops-1]...)[0]
	heads := []uint64{first, p.alloc(0x80) + 0x40}
	if hops > 1 { // two headers, with the same object below
		p.point(0, heads[1]+0x10, p.do(0, "load %#x 8 1", first+0x10).result)
	}
	pipe := startPipeline(b, setup{args: []string{"--pid", p.pid(), "--watch", "hp=" + arrow(offsets...) + ":4", "--scope", scope, "--values", values}})
	pipe.ready()
	for i := range moves {
		moved := p.point(i%threads, p.anchor, heads[(i+1)%2])
		bound := await(b, pipe.log, "the leaf follows", func(r *wire.Bound) bool { return r.Watch == uint32(hops) && r.Start >= moved.from })
		hit := await(b, pipe.log, "the store is seen", func(s *wire.Sample) bool { return s.Watch == 0 && s.Time >= moved.from })
		blind = append(blind, time.Duration(bound.Time-hit.Time))
		time.Sleep(period)
	}
	pipe.stop()
	return blind
}
