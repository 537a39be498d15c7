//go:build amd64

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"xw/pkg/hwtest"
)

// nobody is a user without privileges.
const nobody = 65534

func asNobody(cmd *exec.Cmd) *exec.Cmd {
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	return cmd
}

// TestUnprivilegedThreads has a user without privileges watch a process of its own: 300 threads there are, and as many
// born later.
func TestUnprivilegedThreads(t *testing.T) {
	hwtest.Require(t)
	hwtest.RequireRoot(t)
	if b, err := os.ReadFile("/proc/sys/kernel/perf_event_paranoid"); err != nil || strings.TrimSpace(string(b)) > "2" {
		t.Skipf("perf_event_paranoid is %s, and users may watch nothing above 2", b)
	}
	program := hwtest.BuildC(t, actorSource)
	dir := filepath.Dir(program)
	for _, d := range []string{dir, filepath.Dir(dir)} {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	a := &actor{hwtest.StartCmd(t, asNobody(exec.Command(program))), t}
	a.do("live", 300)
	s := attachBy(t, asNobody(exec.Command("xw-open", "--pid", strconv.Itoa(a.PID), "--watch", "counter", "--watch", "upper=counter+4:4")))
	if s.ready["scope"] != "inherit" || s.ready["values"] != "off" || s.ready["kernel"] != "off" {
		t.Errorf("ready %v", s.ready)
	}
	a.do("fire")
	a.do("oneshot", 300)
	a.do("store", 500) // what the small ring that users may lock has room for
	seen := s.stop()
	for watch := range 2 {
		seen.wantHits(watch, 300+300+500)
	}
	seen.wantComplete()
}
