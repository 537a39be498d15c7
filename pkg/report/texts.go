package report

import (
	"bytes"
	"math"
	"strings"

	"xw/pkg/wire"
)

const (
	protExec = 4 // PROT_EXEC
	// maxInsn is the length of the longest instruction, in bytes.
	maxInsn = 15
	// maxTexts bounds how often the code at an ip is told apart. Data beside it changes, too.
	maxTexts = 16
)

// text is which code stands at an ip: of which file, and of those that this had there one after the other which one.
type text struct {
	home, version uint32
}

// texts knows the code at each ip as time goes on: a library makes room for another one at its address, and a compiler
// writes new code over old.
type texts struct {
	spans   []extent // executable, by address, not overlapping
	files   map[file][]build
	homes   uint32
	code    map[textAt]code
	version map[place]uint32 // the newest
	recent  [4096]recentText
	round   uint32 // how often anything changed, which makes what is recent worthless
}

// extent is a mapping as far as no later one covers it.
type extent struct {
	start, end uint64
	home       uint32
}

// file is a mapped file where it was loaded. Memory that has none is one for all addresses: its code tells itself apart.
type file struct {
	path string
	bias uint64
}

type build struct {
	id   []byte // nil if it is unknown
	home uint32
}

// place is an ip in what is mapped there.
type place struct {
	ip   uint64
	home uint32
}

// textAt is the code at an ip.
type textAt struct {
	ip uint64
	text
}

type recentText struct {
	ip    uint64
	round uint32
	text
}

// code is the content of memory around an ip, as it was at a hit.
type code struct {
	start uint64
	bytes []byte
}

func newTexts() texts {
	return texts{files: map[file][]build{}, code: map[textAt]code{}, version: map[place]uint32{}, round: 1}
}

// at tells which code stands at ip now.
func (t *texts) at(ip uint64) text {
	r := &t.recent[ip%uint64(len(t.recent))]
	if r.ip != ip || r.round != t.round {
		*r = recentText{ip: ip, round: t.round}
		for _, s := range t.spans {
			if s.start <= ip && ip < s.end {
				r.home = s.home
			}
		}
		r.version = t.version[place{ip, r.home}]
	}
	return r.text
}

// mapped takes a mapping.
func (t *texts) mapped(r *wire.Mmap) {
	if r.Prot&protExec == 0 || r.Len == 0 || r.Start > math.MaxUint64-r.Len {
		return
	}
	added := extent{r.Start, r.Start + r.Len, t.home(r)}
	var spans []extent
	for _, s := range t.spans {
		if s.start < added.start && added.start < s.end {
			spans = append(spans, extent{s.start, added.start, s.home})
		}
		if s.start < added.end && added.end < s.end {
			spans = append(spans, extent{added.end, s.end, s.home})
		}
		if s.end <= added.start || s.start >= added.end {
			spans = append(spans, s)
		}
	}
	t.spans = append(spans, added)
	t.round++
}

// home numbers what is mapped. A build id that is unknown may be any.
func (t *texts) home(r *wire.Mmap) uint32 {
	if !strings.HasPrefix(r.Path, "/") || strings.HasPrefix(r.Path, "//") {
		return 0
	}
	f := file{r.Path, r.Start - r.Offset}
	builds := t.files[f]
	for i := range builds {
		b := &builds[i]
		if b.id == nil {
			b.id = bytes.Clone(r.BuildID)
		}
		if r.BuildID == nil || bytes.Equal(b.id, r.BuildID) {
			return b.home
		}
	}
	t.homes++
	t.files[f] = append(builds, build{bytes.Clone(r.BuildID), t.homes})
	return t.homes
}

// saw takes the code at an ip. It is another one than before if the bytes that an instruction before ip can have differ.
func (t *texts) saw(r *wire.Code) {
	if len(r.Bin) > maxCode {
		return
	}
	now := code{r.Start, bytes.Clone(r.Bin)}
	at := textAt{r.IP, t.at(r.IP)}
	if old, ok := t.code[at]; ok && !sameBefore(r.IP, old, now) && at.version < maxTexts {
		at.version++
		t.version[place{r.IP, at.home}] = at.version
		t.round++
	}
	t.code[at] = now
}

// sameBefore compares the code just before ip, as far as both have it.
func sameBefore(ip uint64, a, b code) bool {
	start := max(a.start, b.start, ip-min(ip, maxInsn))
	end := min(a.start+uint64(len(a.bytes)), b.start+uint64(len(b.bytes)), ip)
	return start >= end || bytes.Equal(a.bytes[start-a.start:end-a.start], b.bytes[start-b.start:end-b.start])
}
