package report

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// Folded writes one line for each call stack, outermost frame first, with its hits: the form that flame graphs are made
// from. The first frame is the watch; frames of the kernel end in _[k], inlined ones in _[i].
func Folded(w io.Writer, r *Report) error {
	sums := map[string]uint64{}
	for _, t := range traces(r) {
		sums[foldedLine(&t)] += t.hits
	}
	b := bufio.NewWriter(w)
	for _, line := range slices.Sorted(maps.Keys(sums)) {
		fmt.Fprintf(b, "%s %d\n", line, sums[line])
	}
	return b.Flush()
}

func foldedLine(t *trace) string {
	var names []string
	for i := range t.frames {
		f := &t.frames[i]
		all := f.names()
		for k, name := range all {
			name = foldedName(name)
			switch {
			case f.kernel:
				name += "_[k]"
			case k < len(all)-1:
				name += "_[i]"
			}
			names = append(names, name)
		}
		if f.kernel && t.site.Syscall != "" {
			names = append(names, foldedName(string(t.site.Syscall))+"_[k]")
		}
	}
	names = append(names, foldedName(label(t.watch)))
	slices.Reverse(names)
	return strings.Join(names, ";")
}

// foldedName keeps a name from being read as several frames.
func foldedName(s string) string { return strings.ReplaceAll(printable(s), ";", ":") }
