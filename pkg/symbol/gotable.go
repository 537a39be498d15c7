package symbol

import (
	"debug/elf"
	"debug/gosym"
	"encoding/binary"
	"strings"

	"xw/pkg/symbol/internal/debuginfo"
)

// maxGoTable bounds a Go program's line table; that of the largest programs has some 40 MB.
const maxGoTable = 128 << 20

// goTable is the table that every Go program carries for its own stack traces: functions, files and lines, without
// inlined calls. Stripping does not remove it.
type goTable struct{ table *gosym.Table }

// goTable reads the table, nil if the file has none that is in order.
func (im *image) goTable() *goTable {
	s := im.byName(".gopclntab")
	if s == nil {
		s = im.byName(".data.rel.ro.gopclntab") // of a PIE
	}
	if s == nil {
		return nil
	}
	data, err := im.data(s, maxGoTable)
	if err != nil || !plausibleGoTable(data) {
		return nil
	}
	start, ok := im.goTextStart(data)
	if !ok {
		return nil
	}
	return newGoTable(data, start)
}

// plausibleGoTable checks the number of functions before memory is made for them: each takes more than 32 bytes of
// the table (runtime/symtab.go, pcHeader: magic, 0, 0, quantum, pointer size, number of functions).
func plausibleGoTable(data []byte) bool {
	if len(data) < 16 || data[7] != 8 && data[7] != 4 {
		return false
	}
	n := uint64(binary.LittleEndian.Uint32(data[8:]))
	if data[7] == 8 {
		n = binary.LittleEndian.Uint64(data[8:])
	}
	return n > 0 && n <= uint64(len(data)/32)
}

// goTextStart returns the address of runtime.text, which the table's addresses are relative to: what the header says
// (third word; Go 1.18 to 1.25, not in PIE), else its symbol, else the beginning of .text if the table then has the
// program's first function where the program begins, which is so where no C code is linked in.
func (im *image) goTextStart(data []byte) (uint64, bool) {
	if data[7] == 8 && len(data) >= 32 {
		if start := binary.LittleEndian.Uint64(data[24:]); start != 0 {
			return start, true
		}
	}
	syms, _ := im.symbols(elf.SHT_SYMTAB)
	for i := range syms {
		if syms[i].name == "runtime.text" {
			return syms[i].addr, true
		}
	}
	text := im.byName(".text")
	if text == nil {
		return 0, false
	}
	t := newGoTable(data, text.Addr)
	if t == nil {
		return 0, false
	}
	fn := t.table.PCToFunc(im.entry)
	return text.Addr, fn != nil && fn.Entry == im.entry && strings.HasPrefix(fn.Name, "_rt0_")
}

// newGoTable decodes the table; debug/gosym is not hardened.
func newGoTable(data []byte, textStart uint64) (t *goTable) {
	defer func() {
		if recover() != nil {
			t = nil
		}
	}()
	table, err := gosym.NewTable(nil, gosym.NewLineTable(data, textStart))
	if err != nil || len(table.Funcs) == 0 {
		return nil
	}
	return &goTable{table}
}

func (t *goTable) find(addr uint64) (p debuginfo.Place, ok bool) {
	defer func() {
		if recover() != nil {
			p, ok = debuginfo.Place{}, false
		}
	}()
	file, line, fn := t.table.PCToLine(addr)
	if fn == nil || line <= 0 {
		return debuginfo.Place{}, false
	}
	return debuginfo.Place{File: file, Line: line, Func: fn.Name, Start: fn.Entry}, true
}
