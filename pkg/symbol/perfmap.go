package symbol

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// Bounds on a perf map; that of a large server has some hundred thousand lines.
const (
	maxPerfMap     = 256 << 20 // bytes
	maxPerfEntries = 2 << 20
	maxPerfLine    = 4096
)

// perfMap is the list of functions that a JIT compiler wrote to /tmp/perf-PID.map, for perf
// (tools/perf/Documentation/jit-interface.txt): lines of "START SIZE NAME", hexadecimal, a later one replacing an
// earlier one.
type perfMap struct {
	entries []jitEntry // by start
	maxEnd  []uint64   // maxEnd[i]: highest end among entries[:i+1]
}

type jitEntry struct {
	start, end uint64
	order      int // of the line
	name       string
}

func (p *perfMap) find(addr uint64) (jitEntry, bool) {
	best := jitEntry{order: -1}
	n := sort.Search(len(p.entries), func(i int) bool { return p.entries[i].start > addr })
	for i := n - 1; i >= 0 && p.maxEnd[i] > addr; i-- {
		if e := p.entries[i]; e.end > addr && e.order > best.order {
			best = e
		}
	}
	return best, best.order >= 0
}

// readPerfMap reads a perf map, nil if it is too large to be one.
func readPerfMap(r io.Reader) *perfMap {
	p := &perfMap{}
	sc := bufio.NewScanner(io.LimitReader(r, maxPerfMap))
	sc.Buffer(make([]byte, maxPerfLine), maxPerfLine)
	for sc.Scan() {
		if e, ok := parsePerfLine(sc.Text()); ok {
			if len(p.entries) >= maxPerfEntries {
				return nil
			}
			e.order = len(p.entries)
			p.entries = append(p.entries, e)
		}
	}
	slices.SortStableFunc(p.entries, func(a, b jitEntry) int { return cmp.Compare(a.start, b.start) })
	p.maxEnd = make([]uint64, len(p.entries))
	var end uint64
	for i, e := range p.entries {
		end = max(end, e.end)
		p.maxEnd[i] = end
	}
	return p
}

func parsePerfLine(line string) (jitEntry, bool) {
	startText, rest, _ := strings.Cut(line, " ")
	sizeText, name, ok := strings.Cut(rest, " ")
	start, err1 := strconv.ParseUint(strings.TrimPrefix(startText, "0x"), 16, 64)
	size, err2 := strconv.ParseUint(strings.TrimPrefix(sizeText, "0x"), 16, 64)
	if !ok || err1 != nil || err2 != nil || name == "" || start+size <= start || strings.ContainsFunc(name, unicode.IsControl) {
		return jitEntry{}, false
	}
	return jitEntry{start: start, end: start + size, name: name}, true
}

// resolveJIT names code that a JIT compiler made, if the process has a perf map that knows the address.
func (r *Resolver) resolveJIT(f *Frame, pid uint32, addr uint64) bool {
	p, read := r.jits[pid]
	if !read {
		p = r.openPerfMap(pid)
		r.jits[pid] = p
	}
	if p == nil {
		return false
	}
	e, ok := p.find(addr)
	if !ok {
		return false
	}
	f.Func, f.Offset, f.JIT = Demangle(e.name), addr-e.start, true
	return true
}

// openPerfMap reads the perf map of a process, as it names itself in its own pid and mount namespaces or as this one
// does. /tmp belongs to everybody: the file must be of root, of the caller or of the process's user, and not older than
// the process.
func (r *Resolver) openPerfMap(pid uint32) *perfMap {
	for _, path := range r.perfMapPaths(pid) {
		file, _, err := openRegular(path)
		if err != nil {
			continue
		}
		defer file.Close()
		if r.symfs == "" && !r.trusted(pid, file) {
			continue
		}
		if p := readPerfMap(file); p != nil {
			return p
		}
	}
	return nil
}

func (r *Resolver) perfMapPaths(pid uint32) []string {
	own := fmt.Sprintf("tmp/perf-%d.map", r.nsPID(pid))
	outer := fmt.Sprintf("tmp/perf-%d.map", pid)
	switch {
	case r.symfs != "":
		return []string{filepath.Join(r.symfs, outer), filepath.Join(r.symfs, own)}
	case r.isAlive(pid):
		return []string{filepath.Join(r.proc, fmt.Sprint(pid), "root", own), "/" + outer}
	case r.local:
		if _, err := os.Stat(filepath.Join(r.proc, fmt.Sprint(pid))); errors.Is(err, fs.ErrNotExist) { // else the pid has been reused
			return []string{"/" + outer}
		}
	}
	return nil
}

// nsPID returns the pid that a process has in its own pid namespace.
func (r *Resolver) nsPID(pid uint32) uint64 {
	if uint64(pid) == r.session.Target.PID && r.session.Target.NSID != 0 {
		return r.session.Target.NSID
	}
	return uint64(pid)
}

func (r *Resolver) trusted(pid uint32, file *os.File) bool {
	info, err := file.Stat()
	if err != nil {
		return false
	}
	uid := owner(info)
	if uid != 0 && uid != os.Getuid() {
		dir, err := os.Stat(filepath.Join(r.proc, fmt.Sprint(pid)))
		if err != nil || owner(dir) != uid {
			return false
		}
	}
	const clockTick = 10 * time.Millisecond // both times are known to about that
	born, ok := r.born(pid)
	return !ok || !info.ModTime().Add(clockTick).Before(born)
}
