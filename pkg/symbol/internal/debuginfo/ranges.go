package debuginfo

// span is a half-open range of addresses.
type span struct{ lo, hi uint64 }

// maxSpans bounds one range list; the longest in practice (a unit with one section per function) have some 100 000.
const maxSpans = 1 << 20

// spans returns the address ranges of an entry of u from its DW_AT_low_pc, high_pc and ranges, those that are empty or
// cannot be read left out.
func (u *unit) spans(sk *skeleton, low, high, ranges value) []span {
	if ranges.ok() {
		return u.rangeList(sk, ranges)
	}
	lo, ok := u.address(sk, low)
	if !ok || !high.ok() {
		return nil
	}
	hi := lo + high.n
	if isAddress(high.form) {
		if hi, ok = u.address(sk, high); !ok {
			return nil
		}
	}
	if hi <= lo {
		return nil
	}
	return []span{{lo, hi}}
}

// rangeList reads a list of .debug_rnglists (DWARF 5) or .debug_ranges.
func (u *unit) rangeList(sk *skeleton, v value) []span {
	base, _ := sk.address(sk, sk.readRoot().low)
	if u.version < 5 {
		off := v.n
		if u != sk {
			off += sk.readRoot().rangesBase
		}
		return u.readRanges(sk.obj.cursor(".debug_ranges", int64(off)), base)
	}
	off := v.n
	if v.form == formRnglistx {
		rngBase := u.readRoot().rngBase
		if v.n > 1<<40 {
			return nil
		}
		c := u.obj.cursor(".debug_rnglists", int64(rngBase+v.n*uint64(u.offsetSize())))
		if off = rngBase + c.uint(u.offsetSize()); c.err != nil {
			return nil
		}
	}
	return u.readRngList(sk, u.obj.cursor(".debug_rnglists", int64(off)), base)
}

// readRanges reads a range list of DWARF 2 to 4 (section 2.17.3 of version 4).
func (u *unit) readRanges(c *cursor, base uint64) []span {
	addrSize := int(u.addrSize)
	selector := ^uint64(0) >> (64 - 8*addrSize)
	var out []span
	for len(out) < maxSpans && u.obj.spend(1) {
		lo, hi := c.uint(addrSize), c.uint(addrSize)
		switch {
		case c.err != nil || lo == 0 && hi == 0:
			return out
		case lo == selector:
			base = hi
		case lo < hi:
			out = append(out, span{base + lo, base + hi})
		}
	}
	return out
}

// Entries of range lists, DWARF 5 section 7.25.
const (
	rleEnd = iota
	rleBaseAddressx
	rleStartxEndx
	rleStartxLength
	rleOffsetPair
	rleBaseAddress
	rleStartEnd
	rleStartLength
)

// readRngList reads a range list of DWARF 5. Reading an indexed address moves another cursor than c.
func (u *unit) readRngList(sk *skeleton, c *cursor, base uint64) []span {
	size := int(u.addrSize)
	indexed := func(i uint64) uint64 {
		addr, ok := sk.indexedAddress(i)
		if !ok {
			c.fail("address index out of range")
		}
		return addr
	}
	var out []span
	for len(out) < maxSpans && c.err == nil && u.obj.spend(1) {
		var s span
		switch c.u8() {
		case rleEnd:
			return out
		case rleBaseAddressx:
			base = indexed(c.uleb())
		case rleStartxEndx:
			s.lo = indexed(c.uleb())
			s.hi = indexed(c.uleb())
		case rleStartxLength:
			s.lo = indexed(c.uleb())
			s.hi = s.lo + c.uleb()
		case rleOffsetPair:
			s.lo = base + c.uleb()
			s.hi = base + c.uleb()
		case rleBaseAddress:
			base = c.uint(size)
		case rleStartEnd:
			s.lo, s.hi = c.uint(size), c.uint(size)
		case rleStartLength:
			s.lo = c.uint(size)
			s.hi = s.lo + c.uleb()
		default:
			return out
		}
		if s.lo < s.hi && c.err == nil {
			out = append(out, s)
		}
	}
	return out
}
