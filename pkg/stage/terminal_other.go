//go:build !linux

package stage

import "os"

// isTerminal tells whether f, a reader or writer, is a terminal. A character device other than the null device is
// taken for one.
func isTerminal(f any) bool {
	file, ok := f.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err != nil || !os.SameFile(info, null)
}

// terminalSize is the number of columns and lines of f: unknown here.
func terminalSize(any) (width, height int) { return 0, 0 }

// whenReaderGone does nothing here: the next write will tell.
func whenReaderGone(*os.File, func()) (stop func(), err error) { return func() {}, nil }

// canWriteNow is not known here.
func canWriteNow(*os.File) bool { return false }

func writeNow(*os.File, []byte) (int, error) { return 0, nil }
