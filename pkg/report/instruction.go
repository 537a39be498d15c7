package report

import (
	"encoding/binary"
	"slices"
	"strconv"
	"strings"

	"xw/pkg/insn"
	"xw/pkg/wire"
)

// instruction is what is known of the instruction that made the hits of a site.
type instruction struct {
	insn.Result
	loaded wire.Opt // what the watched bytes held before the last hit, by registers and instruction
	stored wire.Opt // what they held after it
}

// instruction names the instruction that made the last hit of a site, whose ip is at a place.
func (m *Model) instruction(w *watch, st *site, at Place) instruction {
	in := &insn.Input{
		IP: st.key.ip, Bits: int(m.session.Target.Bits), Kernel: st.key.origin != 0, Regs: m.regs.general(st.regs),
		Access: w.Access, Addr: st.addr, Len: st.len, Value: st.value,
		Symbol: func(addr uint64) (string, uint64) { return m.symbol(addr, st.last) },
	}
	if in.Bits != 32 {
		in.Bits = 64
	}
	if c, ok := m.texts.code[textAt{st.key.ip, st.key.text}]; ok {
		in.Code, in.CodeStart = c.bytes, c.start
	}
	if at.Func != "" && at.Offset.OK {
		in.FuncStart = st.key.ip - at.Offset.V
	}
	if s := m.opts.Symbols; s != nil && !in.Kernel {
		in.ReadCode = func(addr uint64, p []byte) int { return s.ReadCode(addr, st.last, p) }
	}
	r := insn.Find(in)
	return instruction{
		Result: r,
		loaded: r.Within(r.Loaded, st.addr, st.len),
		stored: r.Within(r.Stored, st.addr, st.len),
	}
}

// changes tells whether the instruction of a site never leaves the watched bytes as they were.
func (st *site) changes() bool {
	r := &st.insn.Result
	return r.Status == insn.Exact && r.Changes && r.Operand.OK && r.Operand.V >= st.addr && r.Operand.V+r.Size <= st.addr+st.len
}

// symbol names an address in the text of an instruction: what covers it and where that starts. Of data only what is
// watched has a name.
func (m *Model) symbol(addr, time uint64) (string, uint64) {
	for _, w := range m.watches {
		if name := placeName(w.Place); name != "" && w.Addr.OK && !w.Parent.OK && addr-w.Addr.V < w.Len {
			symbol, offset := cutOffset(name)
			return symbol, w.Addr.V - offset
		}
	}
	if p := m.place(addr, time); p.Func != "" && p.Offset.OK {
		return string(p.Func), addr - p.Offset.V
	}
	return "", 0
}

// placeName is SYMBOL+OFFSET of a place, MODULE+OFFSET where nothing has a symbol; "" for a mere address.
func placeName(place string) string {
	if _, name, ok := strings.Cut(place, "!"); ok {
		return name
	}
	if strings.HasPrefix(place, "0x") {
		return ""
	}
	return place
}

// cutOffset takes the offset behind a symbol from the end of a place.
func cutOffset(place string) (symbol string, offset uint64) {
	if i := strings.LastIndexByte(place, '+'); i >= 0 {
		if n, err := strconv.ParseUint(place[i+1:], 0, 64); err == nil {
			return place[:i], n
		}
	}
	return place, 0
}

// general returns registers in the order rax rbx rcx rdx rsi rdi rbp rsp r8..r15; nil unless all are there.
func (l *regLayout) general(regs []byte) *[16]uint64 {
	if regs == nil || slices.Contains(l.order[:], -1) {
		return nil
	}
	out := new([16]uint64)
	for i, at := range l.order {
		out[i] = binary.LittleEndian.Uint64(regs[8*at:])
	}
	return out
}

// orderOf returns the indexes of the general registers among names; -1 for one that is not there.
func orderOf(names []string) (order [16]int) {
	for i, name := range [16]string{"rax", "rbx", "rcx", "rdx", "rsi", "rdi", "rbp", "rsp", "r8", "r9", "r10", "r11", "r12",
		"r13", "r14", "r15"} {
		order[i] = slices.Index(names, name)
	}
	return order
}
