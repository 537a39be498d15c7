package symbol

import (
	"os"
	"syscall"
	"time"
)

// unchangedSince reports whether a file has been what and where it is since before t: changing, renaming and linking a
// file all set its status change time (inode(7)), which nobody can set back.
func unchangedSince(info os.FileInfo, t time.Time) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && time.Unix(st.Ctim.Unix()).Before(t)
}

// owner returns the user id of a file's owner, -1 if unknown.
func owner(info os.FileInfo) int {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(st.Uid)
	}
	return -1
}
