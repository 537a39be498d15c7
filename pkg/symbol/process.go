package symbol

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// maxProcFile bounds what is read of a file of /proc, kallsyms aside.
const maxProcFile = 1 << 20

func (r *Resolver) readProc(elem ...string) (string, error) {
	f, err := os.Open(filepath.Join(append([]string{r.proc}, elem...)...))
	if err != nil {
		return "", err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxProcFile))
	return string(b), err
}

// bootID returns this machine's boot id, "" where there is none.
func (r *Resolver) bootID() string {
	s, _ := r.readProc("sys", "kernel", "random", "boot_id")
	return strings.TrimSpace(s)
}

// userHZ is the unit of times in /proc (sysconf(_SC_CLK_TCK)), the same on all architectures that matter.
const userHZ = 100

// isAlive reports whether the process of the capture still runs here: this is its machine, and the process that has the
// pid now was born before the capture began.
func (r *Resolver) isAlive(pid uint32) bool {
	alive, known := r.alive[pid]
	if !known {
		alive = r.local && r.bornBefore(pid, time.Unix(0, int64(r.session.RealtimeNS)))
		r.alive[pid] = alive
	}
	return alive
}

// bornBefore compares a living process's start with t, to the resolution of btime: a second.
func (r *Resolver) bornBefore(pid uint32, t time.Time) bool {
	stat, err := r.readProc(fmt.Sprint(pid), "stat")
	if err != nil {
		return false
	}
	boot, err := r.readProc("stat")
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(boot, "\nbtime ")
	text, _, _ := strings.Cut(rest, "\n")
	btime, err := strconv.ParseInt(text, 10, 64)
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	const startTime = 22 - 3 // field 22 of proc_pid_stat(5); the fields after the name begin with 3
	if err != nil || len(fields) <= startTime {
		return false
	}
	ticks, err := strconv.ParseInt(fields[startTime], 10, 64)
	return err == nil && time.Unix(btime+ticks/userHZ, 0).Before(t.Add(2*time.Second))
}

// born returns when a process was born, ok false if the stream did not tell.
func (r *Resolver) born(pid uint32) (time.Time, bool) {
	birth, ok := r.births[pid]
	if !ok {
		birth, ok = r.births[uint32(r.session.Target.PID)]
	}
	return time.Unix(0, int64(r.session.RealtimeNS-r.session.StartNS+birth)), ok
}
