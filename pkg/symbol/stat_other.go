//go:build !linux

package symbol

import (
	"os"
	"time"
)

// unchangedSince is only asked on the machine of the capture, which runs Linux.
func unchangedSince(os.FileInfo, time.Time) bool { return false }

// owner is only asked on the machine of the capture, which runs Linux.
func owner(os.FileInfo) int { return -1 }
