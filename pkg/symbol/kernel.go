package symbol

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"
)

// kernelSymbols are the functions of the running kernel and its modules, from /proc/kallsyms.
type kernelSymbols struct {
	syms    []kernelSymbol       // by address
	bounds  map[string][2]uint64 // code and data of each module, from /proc/modules
	text    [2]uint64            // _stext to _etext
	problem string               // why there are none
}

type kernelSymbol struct {
	addr   uint64
	name   string
	module string // "" for the kernel proper
}

// maxKernelSymbols bounds kallsyms; a distribution's kernel with its modules has some 250 000.
const maxKernelSymbols = 4 << 20

// resolveKernel names an address of the kernel. Its addresses are random for each boot, so that the symbols of this
// machine fit only a capture of the same boot.
func (r *Resolver) resolveKernel(f *Frame, addr uint64) {
	const vsyscall = 0xffffffffff600000 // a page of the upper half that runs in user mode
	if addr&^(pageSize-1) == vsyscall {
		f.Module = "[vsyscall]"
		return
	}
	f.Kernel, f.Module = true, "[kernel]"
	if !r.local {
		f.Note = "kernel symbols are only known on the machine of the capture, before it reboots"
		return
	}
	if r.kernel == nil {
		r.kernel = r.readKernelSymbols()
	}
	s, ok := r.kernel.find(addr)
	if !ok {
		f.Module, f.Note = "", r.kernel.problem
		if r.kernel.problem != "" {
			f.Module = "[kernel]"
		}
		return
	}
	f.Func, f.Offset = s.name, addr-s.addr
	if s.module != "" {
		f.Module = s.module
	}
}

// find returns the function around an address. kallsyms has no sizes: a function reaches to the next symbol, and no
// further than the kernel's or the module's own memory.
func (k *kernelSymbols) find(addr uint64) (kernelSymbol, bool) {
	n := sort.Search(len(k.syms), func(i int) bool { return k.syms[i].addr > addr })
	if n == 0 {
		return kernelSymbol{}, false
	}
	s := k.syms[n-1]
	for i := n - 2; i >= 0 && k.syms[i].addr == s.addr; i-- { // the first of several names of one address
		s = k.syms[i]
	}
	bounds := k.text
	if s.module != "" {
		bounds = k.bounds[s.module]
	}
	return s, addr >= bounds[0] && addr < bounds[1]
}

func (r *Resolver) readKernelSymbols() *kernelSymbols {
	k := &kernelSymbols{bounds: map[string][2]uint64{}}
	file, err := os.Open(filepath.Join(r.proc, "kallsyms"))
	if err != nil {
		k.problem = "kernel symbols cannot be read"
		return k
	}
	defer file.Close()
	k.parse(file)
	if len(k.syms) == 0 {
		k.problem = "kernel addresses are hidden from this user (kptr_restrict)"
		return k
	}
	if modules, err := r.readProc("modules"); err == nil {
		k.parseModules(modules)
	}
	return k
}

// parse reads lines of "ADDRESS TYPE NAME [MODULE]". Addresses are zero for those who may not know them.
func (k *kernelSymbols) parse(r io.Reader) {
	names := map[string]string{}
	sc := bufio.NewScanner(r)
	for sc.Scan() && len(k.syms) < maxKernelSymbols {
		line := sc.Text()
		at, rest, ok := strings.Cut(line, " ")
		addr, err := strconv.ParseUint(at, 16, 64)
		if !ok || err != nil || addr < kernelStart || len(rest) < 3 || !strings.ContainsRune("tTwW", rune(rest[0])) {
			continue
		}
		name, module, _ := strings.Cut(rest[2:], "\t")
		switch name {
		case "_stext":
			k.text[0] = addr
		case "_etext":
			k.text[1] = addr
		}
		if names[module] == "" {
			names[module] = strings.Clone(module)
		}
		k.syms = append(k.syms, kernelSymbol{addr, strings.Clone(name), names[module]})
	}
	slices.SortStableFunc(k.syms, func(a, b kernelSymbol) int { return cmp.Compare(a.addr, b.addr) })
}

// parseModules reads lines of "NAME SIZE REFERENCES USERS STATE ADDRESS".
func (k *kernelSymbols) parseModules(text string) {
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 6 {
			continue
		}
		size, err1 := strconv.ParseUint(fields[1], 10, 64)
		start, err2 := strconv.ParseUint(strings.TrimPrefix(fields[5], "0x"), 16, 64)
		if err1 == nil && err2 == nil && start != 0 {
			k.bounds[fmt.Sprintf("[%s]", fields[0])] = [2]uint64{start, start + size}
		}
	}
}
