package main

import (
	"bytes"
	"io"
	"os"
	"strings"
	"testing"

	"xw/pkg/wire"
)

func TestUsage(t *testing.T) {
	for _, test := range []struct {
		args   []string
		code   int
		stderr string
	}{
		{nil, 2, "--control=FIFO"},
		{[]string{"--control", "no/such/dir/../ctl", "--connect-timeout", "0s"}, 1, "nobody reads it"},
		{[]string{"--control", os.DevNull}, 1, "not a FIFO"},
		{[]string{"--control", "ctl", "--mem", "no such file"}, 1, "read memory: open no such file"},
		{[]string{"--control", "ctl", "--mem", "main_test.go"}, 1, "read memory: line 1"},
		{[]string{"--control", "ctl", "--connect-timeout", "5"}, 2, "expected a duration such as 5s"},
	} {
		var stdout, stderr bytes.Buffer
		code := run(test.args, strings.NewReader(""), &stdout, &stderr)
		if code != test.code || !strings.Contains(stderr.String(), test.stderr) || stdout.Len() != 0 {
			t.Errorf("%q: exit %d, %q, want %d, %q", test.args, code, &stderr, test.code, test.stderr)
		}
	}
}

// TestReaderGoesMidway closes the FIFO while the stream goes on: nothing is lost of the stream, and the exit tells.
func TestReaderGoesMidway(t *testing.T) {
	stream, err := os.ReadFile("testdata/lost-answer.events")
	if err != nil {
		t.Fatal(err)
	}
	half := bytes.Index(stream, []byte("sample time=4000000000"))
	r := newReader(t)
	inR, inW := io.Pipe()
	go func() {
		inW.Write(stream[:half])
		// A block is read only when the one before has been worked off.
		for range 2 {
			inW.Write([]byte("#\n"))
		}
		r.close()
		inW.Write(stream[half:])
		inW.Close()
	}()
	var stdout, stderr bytes.Buffer
	code := run([]string{"--control", r.path}, inR, &stdout, &stderr)
	if code != 1 || !strings.Contains(stderr.String(), "hp was not followed to the end") || !strings.Contains(stderr.String(), "broken pipe") {
		t.Errorf("exit %d, %q", code, &stderr)
	}
	in, kinds := wire.NewReader(&stdout), map[string]int{}
	for in.Next() {
		kinds[in.Record().Kind()]++
	}
	if in.Err() != nil || kinds["sample"] != 8 || kinds["bound"] != 3 || kinds["gap"] != 1 || kinds["end"] != 1 {
		t.Errorf("passed on %v, %v", kinds, in.Err())
	}
}
