package stage

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
)

// stageOn returns a stage with that standard output.
func stageOn(t *testing.T, out io.Writer) (*Stage, context.Context) {
	ctx, cancel := context.WithCancelCause(context.Background())
	s := newStage(ctx, cancel, bytes.NewReader(nil), out, io.Discard, NewMessages("xw-test", io.Discard))
	t.Cleanup(s.close)
	return s, ctx
}

// TestWriteNow fills a pipe: writes are whole or not done at all, and never wait.
func TestWriteNow(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	s, ctx := stageOn(t, w)
	now := s.WriteNow()
	if now == nil {
		t.Fatal("no writing at once to a pipe")
	}
	block := bytes.Repeat([]byte("0123456789abcde\n"), 200) // 3200 bytes: the pipe's size is no multiple
	written := 0
	for {
		done, err := now(block)
		if err != nil {
			t.Fatal(err)
		}
		if !done {
			break
		}
		if written++; written > 1000 {
			t.Fatal("the pipe takes everything")
		}
	}
	if done, err := now(bytes.Repeat(block, 10)); done || err != nil {
		t.Errorf("a long write: %v, %v", done, err)
	}
	got := make([]byte, (written+1)*len(block))
	n, err := r.Read(got)
	if err != nil || !bytes.Equal(got[:n], bytes.Repeat(block, written)) {
		t.Errorf("%d bytes of %d writes, %v", n, written, err)
	}
	if done, err := now(block); !done || err != nil {
		t.Errorf("with room again: %v, %v", done, err)
	}
	r.Close()
	if done, err := now(block); done || !errors.Is(err, ErrDownstreamClosed) || !errors.Is(context.Cause(ctx), ErrDownstreamClosed) {
		t.Errorf("without a reader: %v, %v, context %v", done, err, context.Cause(ctx))
	}
}

// TestWriteNowIsForPipes: nothing else takes a small write whole or not at all.
func TestWriteNowIsForPipes(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for _, out := range []io.Writer{file, &bytes.Buffer{}} {
		if s, _ := stageOn(t, out); s.WriteNow() != nil {
			t.Errorf("writing at once to %T", out)
		}
	}
}
