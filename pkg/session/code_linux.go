//go:build amd64

package session

import (
	"errors"
	"io/fs"
	"slices"

	"xw/pkg/proc"
	"xw/pkg/wire"
)

const (
	codeBefore = 64 // bytes before an ip, enough to tell the instruction that ends there
	codeFrom   = 16 // and from it on
	codePage   = 4096
	// maxIPs bounds the ips that are remembered. Beyond it all are forgotten and told again.
	maxIPs = 1 << 16
)

// sights are the ips of hits that no BPF program brought the code of. In memory that a compiler has written it is read from
// the process as soon as one is seen first. That of a file is not: it can be read later, and what is mapped there now need
// not be what was at the hit.
type sights struct {
	seen map[uint64]struct{}
	news []uint64 // seen and not yet told
	off  bool     // the process may not be read
}

// see takes the ip of a hit.
func (s *sights) see(ip uint64) {
	if _, known := s.seen[ip]; known || s.off {
		return
	}
	if s.seen == nil || len(s.seen) >= maxIPs {
		s.seen = map[uint64]struct{}{}
	}
	s.seen[ip] = struct{}{}
	s.news = append(s.news, ip)
}

// forget has all be told again.
func (s *sights) forget() { s.seen = nil }

// writeCode writes the code around ips that are new, before the round that releases their hits.
func (r *run) writeCode() {
	s := &r.sights
	if len(s.news) == 0 {
		return
	}
	r.out.endChunk()
	maps, err := r.proc.Maps()
	for _, ip := range s.news {
		if err != nil || inFile(maps, ip) {
			continue
		}
		start, code, err := r.codeAt(ip)
		switch {
		case errors.Is(err, fs.ErrPermission):
			s.off = true
		case len(code) > 0 && !r.execed && r.proc.Verify() == nil: // what an exec put there made no hit
			r.out.write(&wire.Code{IP: ip, Start: start, Bin: code})
		}
	}
	s.news = s.news[:0]
}

func inFile(maps []proc.Mapping, addr uint64) bool {
	return slices.ContainsFunc(maps, func(m proc.Mapping) bool { return m.File() && m.Contains(addr) })
}

// codeAt reads the code around ip: the page before it may not be there, nor the one behind it.
func (r *run) codeAt(ip uint64) (start uint64, code []byte, err error) {
	for _, start := range []uint64{ip - min(ip, codeBefore), ip &^ (codePage - 1)} {
		code := make([]byte, ip+codeFrom-start)
		n, readErr := r.proc.ReadAt(code, int64(start))
		if start+uint64(n) >= ip && n > 0 {
			return start, code[:n], nil
		}
		err = readErr
	}
	return 0, nil, err
}
