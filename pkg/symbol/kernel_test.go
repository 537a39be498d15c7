package symbol

import (
	"os"
	"path/filepath"
	"testing"

	"xw/pkg/wire"
)

// fakeProc makes a directory with files of proc(5).
func fakeProc(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

const (
	kallsyms = `0000000000000000 A fixed_percpu_data
ffffffff81000000 T _stext
ffffffff81000000 T startup_64
ffffffff81000100 t copy_user
ffffffff81000100 T rep_movs_alternative
ffffffff81000200 D some_data
ffffffff81001000 T _etext
ffffffffc0000000 t nft_do_chain	[nf_tables]
ffffffffc0001000 T nft_trace	[nf_tables]
ffffffffc0100000 t bpf_prog_6deef7357e7b4530	[bpf]
`
	modules = "nf_tables 8192 1 nft_compat, Live 0xffffffffc0000000\n"
)

func TestKernelSymbols(t *testing.T) {
	proc := fakeProc(t, map[string]string{"kallsyms": kallsyms, "modules": modules, "sys/kernel/random/boot_id": "this-boot\n"})
	r := NewResolver(Options{Session: &wire.Session{BootID: "this-boot"}, Proc: proc})
	for addr, want := range map[uint64]Frame{
		0xffffffff81000000: {Func: "_stext", Module: "[kernel]", Kernel: true},
		0xffffffff81000104: {Func: "copy_user", Offset: 4, Module: "[kernel]", Kernel: true},
		0xffffffff81000fff: {Func: "copy_user", Offset: 0xeff, Module: "[kernel]", Kernel: true},
		0xffffffff81001000: {Kernel: true},
		0xffffffff80000000: {Kernel: true},
		0xffffffffc0000010: {Func: "nft_do_chain", Offset: 0x10, Module: "[nf_tables]", Kernel: true},
		0xffffffffc0001fff: {Func: "nft_trace", Offset: 0xfff, Module: "[nf_tables]", Kernel: true},
		0xffffffffc0002000: {Kernel: true},
		0xffffffffc0100010: {Kernel: true}, // its end is not known
		0xffffffffff600007: {Module: "[vsyscall]"},
	} {
		got := r.Resolve(7, addr, 1)
		if got.Func != want.Func || got.Offset != want.Offset || got.Module != want.Module || got.Kernel != want.Kernel || got.Line != -1 {
			t.Errorf("%#x: got %+v, expected %+v", addr, got, want)
		}
	}
}

func TestNoKernelSymbols(t *testing.T) {
	hidden := "0000000000000000 T _stext\n0000000000000000 T copy_user\n"
	for name, c := range map[string]struct {
		boot, kallsyms, note string
	}{
		"hidden":       {"this-boot", hidden, "kernel addresses are hidden from this user (kptr_restrict)"},
		"another boot": {"that-boot", kallsyms, "kernel symbols are only known on the machine of the capture, before it reboots"},
		"no boot id":   {"", kallsyms, "kernel symbols are only known on the machine of the capture, before it reboots"},
	} {
		proc := fakeProc(t, map[string]string{"kallsyms": c.kallsyms, "sys/kernel/random/boot_id": "this-boot\n"})
		got := NewResolver(Options{Session: &wire.Session{BootID: c.boot}, Proc: proc}).Resolve(7, 0xffffffff81000104, 1)
		if got.Func != "" || got.Module != "[kernel]" || !got.Kernel || got.Note != c.note {
			t.Errorf("%s: got %+v", name, got)
		}
	}
}
