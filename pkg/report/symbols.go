package report

import (
	"xw/pkg/symbol"
	"xw/pkg/wire"
)

// Symbols is the Symbolizer of a real session: it names addresses by the files that the target had mapped.
type Symbols struct {
	resolver *symbol.Resolver
	pid      uint32
}

// NewSymbols returns the Symbolizer of a session. If symfs is not "" only files under that directory are used.
func NewSymbols(s *wire.Session, symfs string) *Symbols {
	return &Symbols{symbol.NewResolver(symbol.Options{Session: s, SymFS: symfs}), uint32(s.Target.PID)}
}

// Close closes the files that were opened.
func (s *Symbols) Close() { s.resolver.Close() }

// Add implements Symbolizer.
func (s *Symbols) Add(rec wire.Record) {
	switch r := rec.(type) {
	case *wire.Mmap:
		s.resolver.AddMap(r)
	case *wire.Fork:
		s.resolver.AddFork(r)
	case *wire.Exec:
		s.resolver.AddExec(r)
	case *wire.Thread:
		s.resolver.AddThread(r)
	}
}

// Place implements Symbolizer. Whoever shares the target's memory shares its mappings.
func (s *Symbols) Place(addr, time uint64) Place {
	f := s.resolver.Resolve(s.pid, addr, time)
	p := Place{Func: Text(f.Func), Module: Text(f.Module), ModuleOffset: Hex(f.ModuleOffset), File: Text(f.File),
		Line: lineNumber(f.Line), Inlined: []Inlined{}, JIT: f.JIT, Note: Text(f.Note)}
	if f.Func != "" {
		p.Offset = num(f.Offset)
	}
	for _, in := range f.Inlined {
		p.Inlined = append(p.Inlined, Inlined{Func: Text(in.Func), CallFile: Text(in.CallFile), CallLine: lineNumber(in.CallLine)})
	}
	return p
}

// ReadCode implements Symbolizer.
func (s *Symbols) ReadCode(addr, time uint64, p []byte) int {
	code, _ := s.resolver.Code(s.pid, addr, time, len(p))
	return copy(p, code)
}

func lineNumber(n int) Num { return Num(wire.Opt{V: uint64(max(n, 0)), OK: n > 0}) }
