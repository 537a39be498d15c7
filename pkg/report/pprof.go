package report

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/google/pprof/profile"
)

// Pprof writes the hits as a gzipped profile of package pprof: one sample for each call stack, labelled with the watch,
// the operation and, in the kernel's case, the system call.
func Pprof(w io.Writer, r *Report) error {
	b := &profileBuilder{
		p: &profile.Profile{
			SampleType:        []*profile.ValueType{{Type: "hits", Unit: "count"}},
			DefaultSampleType: "hits",
			PeriodType:        &profile.ValueType{Type: "hits", Unit: "count"},
			Period:            1,
			TimeNanos:         int64(r.Session.RealtimeNS.V),
			DurationNanos:     int64(r.Session.ElapsedNS.V),
			Comments:          comments(r),
		},
		mappings:  map[Text]*profile.Mapping{},
		locations: map[locationKey]*profile.Location{},
		functions: map[functionKey]*profile.Function{},
	}
	for _, t := range traces(r) {
		b.add(&t)
	}
	if err := b.p.CheckValid(); err != nil {
		return fmt.Errorf("make profile: %w", err)
	}
	return b.p.Write(w)
}

// comments carry into the profile what a reader must know.
func comments(r *Report) []string {
	var out []string
	for i := range r.Watches {
		w := &r.Watches[i]
		if missing := missing(r, w); len(missing) > 0 {
			out = append(out, fmt.Sprintf("%s is incomplete: %s", label(w), strings.Join(missing, "; ")))
		}
	}
	return out
}

type profileBuilder struct {
	p         *profile.Profile
	mappings  map[Text]*profile.Mapping
	locations map[locationKey]*profile.Location
	functions map[functionKey]*profile.Function
}

type locationKey struct {
	addr   uint64
	kernel bool
}

type functionKey struct{ name, file string }

func (b *profileBuilder) add(t *trace) {
	s := &profile.Sample{
		Value: []int64{int64(t.hits)},
		Label: map[string][]string{"watch": {label(t.watch)}, "op": {string(t.site.Op)}},
	}
	if t.site.SyscallNR.OK {
		s.Label["syscall"] = []string{string(cmp.Or(t.site.Syscall, Text(t.site.SyscallNR.String())))}
	}
	for i := range t.frames {
		s.Location = append(s.Location, b.location(&t.frames[i]))
	}
	b.p.Sample = append(b.p.Sample, s)
}

func (b *profileBuilder) location(f *frame) *profile.Location {
	key := locationKey{f.addr, f.kernel}
	if l := b.locations[key]; l != nil {
		return l
	}
	l := &profile.Location{ID: uint64(len(b.p.Location) + 1), Address: f.addr, Mapping: b.mapping(f)}
	// A line stands in the function it is followed by: the innermost has the place's own, each other one is where the
	// call stands.
	file, line := f.place.File, f.place.Line
	for _, in := range f.place.Inlined {
		l.Line = append(l.Line, b.line(string(cmp.Or(in.Func, "?")), file, line))
		file, line = in.CallFile, in.CallLine
	}
	if f.place.Func != "" {
		l.Line = append(l.Line, b.line(string(f.place.Func), file, line))
	}
	b.locations[key] = l
	b.p.Location = append(b.p.Location, l)
	return l
}

func (b *profileBuilder) line(name string, file Text, line Num) profile.Line {
	key := functionKey{name, string(file)}
	fn := b.functions[key]
	if fn == nil {
		fn = &profile.Function{ID: uint64(len(b.p.Function) + 1), Name: name, SystemName: name, Filename: string(file)}
		b.functions[key] = fn
		b.p.Function = append(b.p.Function, fn)
	}
	return profile.Line{Function: fn, Line: int64(line.V)}
}

// mapping is the module of a frame, marked as named already so that pprof does not look for symbols elsewhere.
func (b *profileBuilder) mapping(f *frame) *profile.Mapping {
	if f.place.Module == "" {
		return nil
	}
	m := b.mappings[f.place.Module]
	if m == nil {
		m = &profile.Mapping{ID: uint64(len(b.p.Mapping) + 1), File: string(f.place.Module), HasFunctions: true,
			HasFilenames: true, HasLineNumbers: true, HasInlineFrames: true}
		b.mappings[f.place.Module] = m
		b.p.Mapping = append(b.p.Mapping, m)
	}
	return m
}
