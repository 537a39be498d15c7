package symbol

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// moduleKey tells mapped files apart. Without a build id a deleted file is another than the one of that name.
type moduleKey struct {
	path    string
	id      string
	deleted bool
}

// module is a mapped file, or why there is none.
type module struct {
	file   *File // nil if the file is not to be had
	closer io.Closer
	note   string
}

func (m *module) close() {
	if m.file != nil {
		m.file.Close()
	}
	if m.closer != nil {
		m.closer.Close()
	}
}

// candidate is a place where the mapped file may be.
type candidate struct {
	root     string // how the file's mount namespace is reached
	open     string // what to open
	original bool   // is the mapped file itself, not merely one of that name
	asserted bool   // the user says that it is the right one
}

// module returns the file of a mapping, opened once.
func (r *Resolver) module(m *mapping) *module {
	key := moduleKey{m.path, string(m.id), m.deleted}
	mod := r.modules[key]
	if mod == nil {
		mod = r.openModule(m)
		r.modules[key] = mod
	}
	return mod
}

func (r *Resolver) openModule(m *mapping) *module {
	var reasons []string
	for _, c := range r.candidates(m) {
		mod, err := r.openCandidate(m, c)
		if err == nil {
			return mod
		}
		if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) {
			reasons = append(reasons, err.Error())
		}
	}
	switch {
	case len(reasons) > 0:
		return &module{note: reasons[0]}
	case !r.local && r.symfs == "" && m.id == nil:
		return &module{note: "captured on another machine or before a reboot, and without a build id: --symfs DIR says where its files are"}
	case r.symfs != "":
		return &module{note: "file not found below the --symfs directory"}
	}
	return &module{note: "file not found"}
}

// candidates lists where a mapped file may be, best first.
func (r *Resolver) candidates(m *mapping) []candidate {
	if r.symfs != "" {
		return []candidate{
			{root: r.symfs, open: filepath.Join(r.symfs, m.path), asserted: true},
			{root: r.symfs, open: filepath.Join(r.symfs, filepath.Base(m.path)), asserted: true},
		}
	}
	var out []candidate
	if r.isAlive(m.pid) {
		dir := filepath.Join(r.proc, fmt.Sprint(m.pid))
		root := filepath.Join(dir, "root")
		if linksTo(filepath.Join(dir, "exe"), m.path) {
			out = append(out, candidate{root: root, open: filepath.Join(dir, "exe"), original: true})
		}
		link := filepath.Join(dir, "map_files", fmt.Sprintf("%x-%x", m.start, m.end))
		if linksTo(link, m.path) {
			out = append(out, candidate{root: root, open: link, original: true})
		}
		out = append(out, candidate{root: root, open: filepath.Join(root, m.path)})
	}
	if r.local || m.id != nil {
		out = append(out, candidate{open: m.path})
	}
	return out
}

// linksTo reports whether a link of /proc names a path, be it of a deleted file.
func linksTo(link, path string) bool {
	target, err := os.Readlink(link)
	return err == nil && strings.TrimSuffix(target, " (deleted)") == path
}

// openCandidate opens a candidate and checks that it is the file of the mapping.
func (r *Resolver) openCandidate(m *mapping, c candidate) (*module, error) {
	file, size, err := openRegular(c.open)
	if err != nil {
		return nil, err
	}
	f, err := Open(file, size)
	note := ""
	if err == nil {
		note, err = r.check(m, c, f, file)
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	f.LoadDebug(c.root, m.path)
	return &module{file: f, closer: file, note: note}, nil
}

// check decides whether an opened file is the mapped one: by build id, else because it is the mapped file itself, else
// because it stood there unchanged when the process was born. The note says what the user has to vouch for.
func (r *Resolver) check(m *mapping, c candidate, f *File, file *os.File) (note string, err error) {
	got := f.BuildID()
	switch {
	case m.id != nil && bytes.Equal(got, m.id), m.id == nil && c.original:
		return "", nil
	case m.id != nil:
		return "", fmt.Errorf("%s has another build id (%s) than the file that was mapped (%x)", m.path, idText(got), m.id)
	case c.asserted:
		return "no build id was recorded: the file below the --symfs directory is taken as it is", nil
	case m.deleted:
		return "", fmt.Errorf("%s was deleted, and no build id was recorded that another file of that name could be checked by", m.path)
	}
	info, err := file.Stat()
	if err != nil {
		return "", err
	}
	if born, ok := r.born(m.pid); !ok || !unchangedSince(info, born) {
		return "", fmt.Errorf("%s may have been replaced since it was mapped, and no build id was recorded", m.path)
	}
	return "", nil
}

func idText(id []byte) string {
	if id == nil {
		return "none"
	}
	return fmt.Sprintf("%x", id)
}
