package main

import (
	"bufio"
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

//go:embed target/target.c
var targetSource []byte

// patience is how long a tool may take to begin or to end. gdb needs many seconds for 2000 threads.
const patience = 2 * time.Minute

// buildTarget compiles the program that is watched.
func buildTarget(ctx context.Context, dir string) (string, error) {
	source, program := filepath.Join(dir, "target.c"), filepath.Join(dir, "target")
	if err := os.WriteFile(source, targetSource, 0o644); err != nil {
		return "", err
	}
	out, err := exec.CommandContext(ctx, "cc", "-g", "-O1", "-pthread", "-o", program, source).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("compile the target: %w\n%s", err, out)
	}
	return program, nil
}

// target is a running program that is watched.
type target struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Reader
	addr string // of its variable
}

func startTarget(ctx context.Context, program string) (*target, error) {
	cmd := exec.CommandContext(ctx, program)
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	t := &target{cmd: cmd, in: in, out: bufio.NewReader(out)}
	line, err := t.out.ReadString('\n')
	if err != nil {
		t.end()
		return nil, fmt.Errorf("start the target: %w", err)
	}
	t.addr = strings.TrimSpace(line)
	return t, nil
}

// do has the target do something, and returns its answer.
func (t *target) do(what string, n int) (int64, error) {
	if _, err := fmt.Fprintf(t.in, "%s %d\n", what, n); err != nil {
		return 0, err
	}
	line, err := t.out.ReadString('\n')
	if err != nil {
		return 0, fmt.Errorf("%s: the target ended: %w", what, err)
	}
	return strconv.ParseInt(strings.TrimSpace(line), 10, 64)
}

func (t *target) end() {
	t.in.Close()
	t.cmd.Process.Kill()
	t.cmd.Wait()
}

// child is a running tool.
type child struct {
	cmd   *exec.Cmd
	text  *lines // what it says: its standard error, and its standard output if that is not kept elsewhere
	ended chan struct{}
	err   error // how it ended; once ended is closed
}

// startChild starts a tool with as many descriptors as the system grants.
func startChild(ctx context.Context, stdout io.Writer, extra []*os.File, args ...string) (*child, error) {
	c := &child{text: newLines(), ended: make(chan struct{})}
	args = append([]string{"-c", `ulimit -n "$(ulimit -Hn)" && exec "$@"`, "sh"}, args...)
	c.cmd = exec.CommandContext(ctx, "sh", args...)
	c.cmd.Stderr = c.text
	c.cmd.Stdout = stdout
	if stdout == nil {
		c.cmd.Stdout = c.text
	}
	c.cmd.ExtraFiles = extra
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		c.err = c.cmd.Wait()
		close(c.ended)
	}()
	return c, nil
}

// says waits for a line that contains text.
func (c *child) says(text string) error {
	late := time.After(patience)
	for {
		found, changed := c.text.find(text)
		if found {
			return nil
		}
		select {
		case <-changed:
		case <-late:
			return fmt.Errorf("%s: never said %q:\n%s", c.cmd.Args[4], text, c.text)
		case <-c.ended:
			if found, _ := c.text.find(text); found {
				return nil
			}
			return fmt.Errorf("%s: ended (%v) without %q:\n%s", c.cmd.Args[4], c.err, text, c.text)
		}
	}
}

// end sends a signal and waits. How the tool ends is its own affair: most say that a signal ended them.
func (c *child) end(sig os.Signal) error {
	c.cmd.Process.Signal(sig)
	select {
	case <-c.ended:
	case <-time.After(patience):
		c.cmd.Process.Kill()
		<-c.ended
		return fmt.Errorf("%s: did not end", c.cmd.Args[4])
	}
	var exit *exec.ExitError
	if c.err != nil && !errors.As(c.err, &exit) {
		return c.err
	}
	return nil
}

// lines collects what a child says.
type lines struct {
	mu      sync.Mutex
	text    []byte
	changed chan struct{} // closed when there is more
}

func newLines() *lines { return &lines{changed: make(chan struct{})} }

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, p...)
	close(l.changed)
	l.changed = make(chan struct{})
	return len(p), nil
}

// find reports whether something has been said, and returns what closes when there is more.
func (l *lines) find(what string) (bool, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return bytes.Contains(l.text, []byte(what)), l.changed
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.text)
}
