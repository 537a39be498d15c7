//go:build amd64

package e2e

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"xw/pkg/hwtest"
)

// freePort is a port of 127.0.0.1 that nobody listens on at the moment.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// serve starts a server, which ends with the test, and waits until it accepts connections.
func serve(t *testing.T, port string, name string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(name, args...)
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Signal(os.Interrupt)
		cmd.Wait()
		if t.Failed() {
			t.Logf("%s said:\n%s", name, &said)
		}
	})
	for until := time.Now().Add(hangs); time.Now().Before(until); time.Sleep(10 * time.Millisecond) {
		if c, err := net.Dial("tcp", "127.0.0.1:"+port); err == nil {
			c.Close()
			return cmd
		}
	}
	t.Fatalf("%s does not listen", name)
	return nil
}

// TestRedis watches the number of commands that a Redis server has processed, under a benchmark: what the server itself
// says that it is.
func TestRedis(t *testing.T) {
	eachMode(t, func(t *testing.T, m mode) {
		hwtest.RequireTool(t, "redis-server", "redis-benchmark")
		port := freePort(t)
		server := serve(t, port, "redis-server", "--bind", "127.0.0.1", "--port", port, "--save", "", "--dir", t.TempDir())
		pid := server.Process.Pid
		conn, err := net.Dial("tcp", "127.0.0.1:"+port)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		in := bufio.NewReader(conn)
		processed := func() (n uint64) { // does not count itself yet
			fmt.Fprint(conn, "INFO stats\r\n")
			for {
				line, err := in.ReadString('\n')
				if err != nil {
					t.Fatal(err)
				}
				fmt.Sscanf(line, "total_commands_processed:%d", &n)
				if strings.HasPrefix(line, "tracking_total_prefixes") { // near the end
					for in.Buffered() > 0 {
						in.Discard(in.Buffered())
					}
					return n
				}
			}
		}
		ping := func() uint64 {
			for range 131 {
				fmt.Fprint(conn, "PING\r\n")
				if _, err := in.ReadString('\n'); err != nil {
					t.Fatal(err)
				}
			}
			return processed() + 1
		}
		addr := find(t, pid, func(m mapping) bool { return m.path != "[heap]" && m.path != "[stack]" }, ping)
		s := attach(t, pid, append(m.args, roomy, "--watch", fmt.Sprintf("%#x:8", addr))...)
		c := count(t, pid, addr, 8, "w")
		before := processed()
		bench := exec.Command("redis-benchmark", "-h", "127.0.0.1", "-p", port, "-n", "10000", "-c", "20", "-t", "set,get", "-q")
		if out, err := bench.CombinedOutput(); err != nil {
			t.Fatalf("redis-benchmark: %v\n%s", err, out)
		}
		after := processed()
		asleep(t, pid) // INFO counts itself after its answer
		want := c.stop()
		seen := s.stop()
		seen.wantHits(0, want)
		seen.wantComplete()
		if want != after-before+1 || want < 20_000 {
			t.Errorf("the server has processed %d commands, perf counted %d", after-before+1, want)
		}
		if m.bpf() {
			seen.wantSequence(0, before+1)
		}
	})
}

// TestNginx watches the number of requests of an nginx worker, in memory that it shares with the master process.
func TestNginx(t *testing.T) {
	eachMode(t, func(t *testing.T, m mode) {
		hwtest.RequireTool(t, "nginx")
		port, dir := freePort(t), t.TempDir()
		config := strings.ReplaceAll(`daemon off; worker_processes 1; pid DIR/pid; error_log DIR/error.log;
events { worker_connections 100; }
http { access_log off; client_body_temp_path DIR/a; proxy_temp_path DIR/b; fastcgi_temp_path DIR/c; uwsgi_temp_path DIR/d; scgi_temp_path DIR/e;
server { listen 127.0.0.1:`+port+`; location / { return 200 "yes"; } } }
`, "DIR", dir)
		path := filepath.Join(dir, "nginx.conf")
		if err := os.WriteFile(path, []byte(config), 0o666); err != nil {
			t.Fatal(err)
		}
		master := serve(t, port, "nginx", "-c", path, "-p", dir)
		children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", master.Process.Pid, master.Process.Pid))
		if err != nil {
			t.Fatal(err)
		}
		worker, err := strconv.Atoi(strings.Fields(string(children))[0])
		if err != nil {
			t.Fatal(err)
		}
		get := func(client *http.Client) {
			answer, err := client.Get("http://127.0.0.1:" + port + "/")
			if err != nil {
				t.Fatal(err)
			}
			io.Copy(io.Discard, answer.Body)
			answer.Body.Close()
		}
		client := &http.Client{Transport: &http.Transport{}}
		get(client)
		at := attach(t, worker, "--watch", "ngx_stat_requests")
		pointer, err := strconv.ParseUint(first(t, at).Addr, 0, 64)
		if err != nil {
			t.Fatal(err)
		}
		at.stop()
		addr := peek(t, worker, pointer)
		s := attach(t, worker, append(m.args, "--watch", fmt.Sprintf("requests=%#x:8", addr))...)
		before := peek(t, worker, addr)
		for range 500 {
			get(client)
		}
		client.CloseIdleConnections()
		seen := s.stop()
		seen.wantHits(0, 500)
		seen.wantComplete()
		if m.bpf() {
			seen.wantSequence(0, before+1)
		}
		if !strings.Contains(strings.Join(seen.Notes, "\n"), "shared") {
			t.Errorf("no note says that the page is shared: %q", seen.Notes)
		}
	})
}

// peek reads a word of a process.
func peek(t *testing.T, pid int, addr uint64) uint64 {
	t.Helper()
	f, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var b [8]byte
	if _, err := f.ReadAt(b[:], int64(addr)); err != nil {
		t.Fatal(err)
	}
	return binary.LittleEndian.Uint64(b[:])
}
