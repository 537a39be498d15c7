package report

import "cmp"

// trace is a site reached one way: its frames, innermost first, and the hits that came so.
type trace struct {
	watch  *Watch
	site   *Site
	hits   uint64
	frames []frame
}

// frame is one place of a trace.
type frame struct {
	addr   uint64
	place  Place
	kernel bool
}

// traces lists all ways to all sites that are asked for. A site whose callers were not recorded is one trace. Where a
// chain goes on with an address in no mapping it ends in one unknown frame: what stood in the register of the frame pointer
// is of no use there, and would set equal stacks apart.
func traces(r *Report) []trace {
	var out []trace
	for i := range r.Watches {
		w := &r.Watches[i]
		for k := range w.Sites {
			s := &w.Sites[k]
			if s.filtered {
				continue
			}
			for _, stack := range s.ways() {
				t := trace{watch: w, site: s, hits: stack.Hits, frames: s.top()}
				for _, f := range stack.Frames {
					if unmapped(f) {
						t.frames = append(t.frames, frame{place: Place{Func: "[unknown]"}})
						break
					}
					t.frames = append(t.frames, frame{addr: f.IP.V, place: f.Place})
				}
				out = append(out, t)
			}
		}
	}
	return out
}

// ways are the call stacks of a site, or the one of which nothing is known.
func (s *Site) ways() []Stack {
	recorded := uint64(0)
	for _, stack := range s.Stacks {
		recorded += stack.Hits
	}
	if recorded == s.Hits {
		return s.Stacks
	}
	return append(s.Stacks[:len(s.Stacks):len(s.Stacks)], Stack{Hits: s.Hits - recorded, Other: true})
}

// top is the place of the access, and in the kernel's case where the process was.
func (s *Site) top() []frame {
	addr := s.IP.V
	if s.InsnAddr.OK {
		addr = s.InsnAddr.V
	}
	frames := []frame{{addr: addr, place: s.Place, kernel: s.Origin != 0}}
	if s.User != nil {
		frames = append(frames, frame{addr: s.User.IP.V, place: s.User.Place})
	}
	return frames
}

// names are the functions of a frame, innermost first.
func (f *frame) names() []string {
	var out []string
	for _, in := range f.place.Inlined {
		out = append(out, string(cmp.Or(in.Func, "?")))
	}
	name := string(f.place.Func)
	if name == "" {
		name = cmp.Or(f.place.String(), hex(f.addr).String())
	}
	return append(out, name)
}
