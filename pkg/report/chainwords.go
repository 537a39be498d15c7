package report

import "fmt"

// endOf is when the session ended, or the last that is known of it.
func endOf(r *Report) uint64 {
	if s := &r.Session; s.StartNS.OK && s.ElapsedNS.OK {
		return s.StartNS.V + s.ElapsedNS.V
	}
	var last uint64
	for i := range r.Watches {
		last = max(last, r.Watches[i].LastNS.V)
	}
	for _, c := range r.Chains {
		for _, b := range c.Bindings {
			last = max(last, b.FromNS.V, b.ToNS.V)
		}
	}
	return last
}

// chainWords says how often a chain was moved and what that cost.
func chainWords(c *Chain) string {
	return fmt.Sprintf("%s, blind for %s in all, %s at the longest", plural(c.Rebinds, "re-binding"), duration(c.BlindNS),
		duration(c.LongestBlindNS))
}

func signed(v int64) string {
	if v < 0 {
		return fmt.Sprintf("-%#x", -v)
	}
	return fmt.Sprintf("+%#x", v)
}

func bindingAddr(b Binding) string {
	switch {
	case b.Errno.OK:
		return "refused"
	case !b.Addr.OK:
		return "none"
	}
	return b.Addr.String()
}

func bindingEnd(r *Report, b Binding) uint64 {
	if b.ToNS.OK {
		return b.ToNS.V
	}
	return endOf(r)
}

func bindingLength(r *Report, b Binding) string {
	if to := bindingEnd(r, b); b.FromNS.OK && to >= b.FromNS.V {
		return duration(to - b.FromNS.V)
	}
	return "?"
}

// bindingMark is what a reader of a binding ought to know besides.
func bindingMark(b Binding) string {
	if b.Addr.OK && b.FromNS.OK && !b.Value.OK && !b.Errno.OK {
		return "could not be read when armed"
	}
	return ""
}
