package symbol

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// debugDir is where distributions put separate debug files.
const debugDir = "/usr/lib/debug"

// LoadDebug looks for the separate debug file of f, as gdb does, and takes its symbols and DWARF in addition:
// ROOT/usr/lib/debug/.build-id/xx/yyyy.debug by build id, then the file that .gnu_debuglink names, in the directory of
// path, in its .debug directory, and under ROOT/usr/lib/debug. path is where f itself is, as its own mount namespace
// has it; root is how that namespace is reached: "" or "/proc/PID/root". A candidate with another build id, or without
// one and with another checksum, is not used. Split objects are then looked for from the same places. It returns the debug
// file's path, "" if there is none.
func (f *File) LoadDebug(root, path string) string {
	if f.debug != nil {
		return f.debugPath
	}
	f.root, f.path = root, path
	id := f.BuildID()
	link, crc := f.debugLink()
	for _, c := range debugCandidates(path, id, link) {
		if f.tryDebug(filepath.Join(root, c), id, crc) == nil {
			f.debugPath = c
			return c
		}
	}
	return ""
}

func debugCandidates(path string, id []byte, link string) []string {
	var out []string
	if len(id) > 1 {
		name := hex.EncodeToString(id)
		out = append(out, filepath.Join(debugDir, ".build-id", name[:2], name[2:]+".debug"))
	}
	if link != "" && path != "" {
		dir := filepath.Dir(path)
		out = append(out, filepath.Join(dir, link), filepath.Join(dir, ".debug", link), filepath.Join(debugDir, dir, link))
	}
	return out
}

// debugLink returns the name and checksum in .gnu_debuglink, "" if there is none.
func (f *File) debugLink() (name string, crc uint32) {
	s := f.image.byName(".gnu_debuglink")
	if s == nil {
		return "", 0
	}
	b, err := f.image.data(s, maxSmall)
	if err != nil {
		return "", 0
	}
	name, _, ok := strings.Cut(string(b), "\x00")
	crcAt := (len(name) + 4) &^ 3 // after the NUL, aligned to 4
	if !ok || name == "" || strings.Contains(name, "/") || crcAt+4 > len(b) {
		return "", 0
	}
	return name, binary.LittleEndian.Uint32(b[crcAt:])
}

// tryDebug takes the file if it belongs to f.
func (f *File) tryDebug(path string, id []byte, crc uint32) error {
	file, size, err := openRegular(path)
	if err != nil {
		return err
	}
	im, err := readImage(file, size)
	if err == nil {
		err = belongs(im, id, crc)
	}
	if err != nil {
		file.Close()
		return err
	}
	f.debug, f.closers = im, append(f.closers, file)
	f.symsRead, f.syms, f.symsErr, f.funcs, f.dwarf = false, nil, nil, nil, nil
	return nil
}

func belongs(im *image, id []byte, crc uint32) error {
	if got := im.buildID(); got != nil && id != nil {
		if !bytes.Equal(got, id) {
			return fmt.Errorf("build id %x, expected %x", got, id)
		}
		return nil
	}
	sum := crc32.NewIEEE()
	if _, err := io.Copy(sum, io.NewSectionReader(im.r, 0, im.size)); err != nil {
		return err
	}
	if sum.Sum32() != crc {
		return errors.New("checksum differs")
	}
	return nil
}

// openRegular opens a regular file for reading. Anything else at that path, a FIFO that would block for ever above
// all, is an error.
func openRegular(path string) (*os.File, int64, error) {
	info, err := os.Stat(path) // opening some devices has effects
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("open: %q: not a regular file", path)
	}
	if err != nil {
		return nil, 0, err
	}
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, 0, err
	}
	info, err = file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("open: %q: not a regular file", path)
	}
	if err != nil {
		file.Close()
		return nil, 0, err
	}
	return file, info.Size(), nil
}
