package report

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"xw/pkg/wire"
)

// siteHits are the hits and the instruction of each site, sorted.
func siteHits(w Watch) (list []string) {
	for _, s := range w.Sites {
		list = append(list, fmt.Sprintf("%d %s", s.Hits, s.Insn))
	}
	slices.Sort(list)
	return list
}

// TestCodeAtOneAddress gives each hit to the code that stood at its ip then, when libraries follow one another at an
// address and code is written anew.
func TestCodeAtOneAddress(t *testing.T) {
	const ip = 0x400043
	mmap := func(time uint64, path string, buildID []byte) *wire.Mmap {
		return &wire.Mmap{Time: time, Start: 0x400000, Len: 0x2000, Offset: 0x1000, Prot: 5, Path: path, BuildID: buildID}
	}
	store := func(time uint64) *wire.Sample {
		s := hit(time, 7, ip, time)
		s.Regs = registers(0x1000, 0, 0, 0x1000)
		return s
	}
	code := func(last string) *wire.Code {
		b := []byte(strings.Repeat("\x90", 64-len(last)) + last)
		return &wire.Code{IP: ip, Start: ip - uint64(len(b)), Bin: b}
	}
	const inc, mov, add = "\x48\xff\x07", "\x48\x89\x07", "\x48\x01\x07"
	for _, test := range []struct {
		name    string
		records []wire.Record
		want    []string
	}{
		{"another library and back", []wire.Record{
			mmap(1, "/a.so", nil), code(inc), store(2), store(3), mmap(4, "/b.so", nil), code(mov), store(5), mmap(6, "/a.so", nil), store(7),
		}, []string{"1 mov qword ptr [rdi], rax", "3 inc qword ptr [rdi]"}},
		{"another build of the file", []wire.Record{
			mmap(1, "/a.so", []byte{1}), code(inc), store(2), mmap(3, "/a.so", []byte{2}), store(4),
		}, []string{"1 ", "1 inc qword ptr [rdi]"}},
		{"the same build, once unknown", []wire.Record{
			mmap(1, "/a.so", []byte{1}), code(inc), store(2), mmap(3, "/a.so", nil), store(4), mmap(5, "/a.so", []byte{1}), store(6),
		}, []string{"3 inc qword ptr [rdi]"}},
		{"data mapped elsewhere, and over the code", []wire.Record{
			mmap(1, "/a.so", nil), code(inc), store(2), &wire.Mmap{Time: 3, Start: 0x500000, Len: 0x1000, Prot: 5, Path: "/b.so"},
			&wire.Mmap{Time: 4, Start: 0x400000, Len: 0x1000, Prot: 1, Path: "/b.so"}, store(5),
		}, []string{"2 inc qword ptr [rdi]"}},
		{"a part of the mapping", []wire.Record{
			mmap(1, "/a.so", nil), code(inc), store(2), &wire.Mmap{Time: 3, Start: 0x401000, Len: 0x1000, Prot: 5, Path: "/b.so"}, store(4),
		}, []string{"2 inc qword ptr [rdi]"}},
		{"code written anew", []wire.Record{
			code(inc), store(1), code(mov), store(2), store(3), code(add), store(4),
		}, []string{"1 add qword ptr [rdi], rax", "1 inc qword ptr [rdi]", "2 mov qword ptr [rdi], rax"}},
		{"more of the same code", []wire.Record{
			&wire.Code{IP: ip, Start: 0x400040, Bin: []byte(inc)}, store(1), code(inc), store(2),
		}, []string{"2 inc qword ptr [rdi]"}},
		{"data before the code", []wire.Record{
			&wire.Code{IP: ip, Start: ip - 20, Bin: []byte("12345" + strings.Repeat("\x90", 12) + inc)}, store(1),
			&wire.Code{IP: ip, Start: ip - 20, Bin: []byte("54321" + strings.Repeat("\x90", 12) + inc)}, store(2),
		}, []string{"2 inc qword ptr [rdi]"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := newModel(t, nil)
			hits := uint64(0)
			for _, r := range test.records {
				m.Add(r)
				if _, ok := r.(*wire.Sample); ok {
					hits++
				}
			}
			r := finish(m, wire.Counts{Counted: hits})
			if got := siteHits(r.Watches[0]); !slices.Equal(got, test.want) {
				t.Errorf("sites %q, want %q", got, test.want)
			}
		})
	}
}

// TestCodeThatKeepsChanging bounds the sites of one ip.
func TestCodeThatKeepsChanging(t *testing.T) {
	m := newModel(t, nil)
	const n = 1000
	for i := range uint64(n) {
		m.Add(&wire.Code{IP: 0x400, Start: 0x3f8, Bin: []byte{byte(i), byte(i >> 8), 0, 0, 0, 0x48, 0xff, 7}})
		m.Add(hit(i, 7, 0x400, i))
	}
	w := finish(m, wire.Counts{Counted: n}).Watches[0]
	if len(w.Sites) != maxTexts+1 || w.Hits != n {
		t.Errorf("%d sites, %d hits", len(w.Sites), w.Hits)
	}
}
