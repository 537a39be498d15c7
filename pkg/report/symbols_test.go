package report

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"os"
	"runtime"
	"strings"
	"testing"

	"xw/pkg/hwtest"
	"xw/pkg/insn"
	"xw/pkg/symbol"
	"xw/pkg/wire"
)

const program = `long counter;
__attribute__((noinline)) void work(long *p, long v) { *p = v; }
__attribute__((noinline)) void tick(void) { counter += 3; }
int main(void) { work(&counter, 7); tick(); return counter; }
`

// TestSymbols names the sites of a program that was compiled here, with nothing but the records of a stream and its file.
func TestSymbols(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("the program is looked at as one of x86-64")
	}
	path := hwtest.BuildC(t, program, "-no-pie", "-fcf-protection=none", "-fno-stack-protector", "-O1")
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	f, err := elf.NewFile(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	sf, err := symbol.Open(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	addr := addresses(t, f)
	counter := addr["counter"]

	h := &wire.Header{Version: 1, Stream: wire.Events, Session: wire.Session{
		Target:  wire.Target{PID: 7, Bits: 64, Exe: path},
		StartNS: 1, Regs: []string{"rax", "rbx", "rcx", "rdx", "rsi", "rdi", "rbp", "rsp", "r8", "r9", "r10", "r11", "r12",
			"r13", "r14", "r15"},
		Watches: []wire.Watch{{Name: "counter", Place: "main!counter", Addr: wire.Some(counter), Access: "w", Len: 8,
			Slots: []wire.Slot{{Addr: counter, Len: 8}}}},
	}}
	symbols := NewSymbols(&h.Session, "")
	defer symbols.Close()
	m, err := New(h, Options{Symbols: symbols})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_LOAD && p.Flags&elf.PF_X != 0 {
			start := p.Vaddr &^ 4095
			m.Add(&wire.Mmap{Time: 1, PID: 7, TID: 7, Start: start, Len: p.Memsz + p.Vaddr - start, Offset: p.Off &^ 4095, Prot: 5,
				Path: path, BuildID: sf.BuildID()})
		}
	}
	store := hit(2, 7, addr["work"]+3, 7) // mov [rdi],rsi has three bytes
	store.Addr, store.Regs = counter, registers(0, 0, 7, counter)
	m.Add(store)
	add := hit(3, 7, addr["tick"]+8, 10) // add qword ptr [rip+...],3 has eight
	add.Addr, add.Regs = counter, registers(0, 0, 7, counter)
	m.Add(add)
	w := finish(m, wire.Counts{Counted: 2}).Watches[0]

	for _, s := range w.Sites {
		want := Site{InsnAddr: hex(addr["work"]), Insn: "mov qword ptr [rdi], rsi", Op: insn.Write, LastStored: hex(7),
			Place: Place{Func: "work", Line: num(2)}}
		if s.IP.V == add.IP {
			want = Site{InsnAddr: hex(addr["tick"]), Insn: "add qword ptr [counter], 0x3", Op: insn.ReadWrite,
				LastStored: s.LastStored, Place: Place{Func: "tick", Line: num(3)}}
		}
		if s.InsnAddr != want.InsnAddr || s.Insn != want.Insn || s.Op != want.Op || s.LastStored != want.LastStored {
			t.Errorf("instruction %s %q, %s, stored %s (%s); want %+v", s.InsnAddr, s.Insn, s.Op, s.LastStored, s.InsnReason, want)
		}
		if s.Func != want.Func || s.Offset != num(0) || s.Line != want.Line || !strings.HasSuffix(string(s.File), "main.c") {
			t.Errorf("place %s at %s:%s", s.Place, s.File, s.Line)
		}
	}
}

func addresses(t *testing.T, f *elf.File) map[string]uint64 {
	t.Helper()
	list, err := f.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]uint64{}
	for _, s := range list {
		out[s.Name] = s.Value
	}
	// The test counts the bytes of two instructions; should the compiler choose others, it must be told.
	text := f.Section(".text")
	code := make([]byte, 8)
	if _, err := text.ReadAt(code, int64(out["work"]-text.Addr)); err != nil || binary.BigEndian.Uint32(code)>>8 != 0x488937 {
		t.Fatalf("work begins with %x (%v) and not with mov [rdi],rsi", code, err)
	}
	return out
}
