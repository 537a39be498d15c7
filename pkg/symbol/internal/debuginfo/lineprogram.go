package debuginfo

import "math"

// Opcodes of line programs, DWARF 5 section 7.22.
const (
	lnsCopy           = 1
	lnsAdvancePC      = 2
	lnsAdvanceLine    = 3
	lnsSetFile        = 4
	lnsSetColumn      = 5
	lnsConstAddPC     = 8
	lnsFixedAdvancePC = 9
	lnsSetISA         = 12
	lneEndSequence    = 1
	lneSetAddress     = 2
	lneDefineFile     = 3
)

// lineMachine runs a line program, DWARF 5 section 6.2.2.
type lineMachine struct {
	*lineHeader
	t       *lineTable
	text    []span
	addr    uint64
	opIndex uint64
	file    uint64
	line    int64
	first   int // first row of the sequence under way
}

// run decodes the program at the cursor. Sequences outside of text, which linkers leave behind of functions they
// dropped, are not kept.
func (t *lineTable) run(c *cursor, h *lineHeader, text []span) {
	m := &lineMachine{lineHeader: h, t: t, text: text}
	m.reset()
	for c.err == nil && c.offset() < h.end && len(t.rows) < maxRows {
		if op := c.u8(); op >= h.opcodeBase {
			adjusted := uint64(op - h.opcodeBase)
			m.advance(adjusted / h.lineRange)
			m.line += h.lineBase + int64(adjusted%h.lineRange)
			m.emit()
		} else if op == 0 {
			m.extended(c)
		} else {
			m.standard(c, op)
		}
	}
	t.rows = t.rows[:m.first] // a sequence without an end covers nothing
}

func (m *lineMachine) reset() {
	m.addr, m.opIndex, m.file, m.line, m.first = 0, 0, 1, 1, len(m.t.rows)
}

func (m *lineMachine) advance(ops uint64) {
	ops += m.opIndex
	m.addr += m.minInst * (ops / m.maxOps)
	m.opIndex = ops % m.maxOps
}

func (m *lineMachine) emit() {
	r := row{addr: m.addr, file: uint32(min(m.file, math.MaxUint32))}
	if m.line > 0 && m.line <= math.MaxUint32 {
		r.line = uint32(m.line)
	}
	m.t.rows = append(m.t.rows, r)
}

// endSequence closes the sequence under way; it is dropped when it is empty or outside of the program's code.
func (m *lineMachine) endSequence() {
	rows := m.t.rows[m.first:]
	if len(rows) > 0 && rows[0].addr < m.addr && within(m.text, rows[0].addr) {
		m.t.seqs = append(m.t.seqs, sequence{span{rows[0].addr, m.addr}, m.first, len(m.t.rows)})
	} else {
		m.t.rows = m.t.rows[:m.first]
	}
	m.reset()
}

func (m *lineMachine) standard(c *cursor, op uint8) {
	switch op {
	case lnsCopy:
		m.emit()
	case lnsAdvancePC:
		m.advance(c.uleb())
	case lnsAdvanceLine:
		m.line += c.sleb()
	case lnsSetFile:
		m.file = c.uleb()
	case lnsConstAddPC:
		m.advance(uint64(255-m.opcodeBase) / m.lineRange)
	case lnsFixedAdvancePC:
		m.addr += c.uint(2)
		m.opIndex = 0
	case lnsSetColumn, lnsSetISA:
		c.uleb()
	default: // flags without an operand, and what later versions may add
		for range m.lengths[op] {
			c.uleb()
		}
	}
}

func (m *lineMachine) extended(c *cursor) {
	n := c.uleb()
	next := c.offset() + int64(min(n, math.MaxInt32))
	if n == 0 || next > m.end {
		c.fail("extended opcode beyond the end of its line table")
		return
	}
	switch c.u8() {
	case lneEndSequence:
		m.endSequence()
	case lneSetAddress:
		if n == 5 || n == 9 {
			m.addr, m.opIndex = c.uint(int(n-1)), 0
		}
	case lneDefineFile:
		m.t.readFile(c)
	}
	if c.err == nil {
		c.seek(next)
	}
}

// within reports whether one of the spans holds an address.
func within(spans []span, addr uint64) bool {
	for _, s := range spans {
		if addr >= s.lo && addr < s.hi {
			return true
		}
	}
	return false
}
