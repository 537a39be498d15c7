package report

import (
	"cmp"
	"slices"
)

// callPath is how a site was reached, as far as the frame pointers lead.
type callPath struct {
	hits   uint64
	frames []Caller // innermost first
	ends   string   // why the chain ends; "" if it leads to the start of the thread, as far as is known
}

// callPaths are the call stacks of a site as people are shown them. Where code keeps no frame pointers the chain goes on
// with what else stood in the register; from the first address on that is in no mapping it is left out.
func callPaths(s *Site) []callPath {
	var paths []callPath
	for _, stack := range s.Stacks {
		p := callPath{hits: stack.Hits, frames: stack.Frames}
		if stack.Other {
			p.ends = "callers that were too many to tell apart"
		}
		if i := slices.IndexFunc(p.frames, unmapped); i >= 0 {
			p.frames, p.ends = p.frames[:i], "no frame pointer leads further"
		}
		if len(p.frames) == 0 && !stack.Other {
			p.ends = "no frame pointer leads to a caller"
		}
		if i := slices.IndexFunc(paths, p.alike); i >= 0 {
			paths[i].hits += p.hits
			continue
		}
		paths = append(paths, p)
	}
	slices.SortStableFunc(paths, func(a, b callPath) int { return cmp.Compare(b.hits, a.hits) })
	return paths
}

func unmapped(c Caller) bool { return c.Module == "" && c.Func == "" }

func (p *callPath) alike(other callPath) bool {
	return p.ends == other.ends && slices.EqualFunc(p.frames, other.frames, func(a, b Caller) bool { return a.IP == b.IP })
}
