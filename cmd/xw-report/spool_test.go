package main

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"testing"
	"testing/iotest"
)

func TestSpool(t *testing.T) {
	want := make([]byte, 40*spoolBlock+123)
	for i := range want {
		want[i] = byte(rand.Uint32())
	}
	broken := errors.New("broken")
	for name, r := range map[string]io.Reader{
		"blocks": bytes.NewReader(want),
		"halves": iotest.HalfReader(bytes.NewReader(want)),
		"error":  io.MultiReader(bytes.NewReader(want), iotest.ErrReader(broken)),
	} {
		got, err := io.ReadAll(newSpool(r))
		if !bytes.Equal(got, want) || (name == "error") != errors.Is(err, broken) {
			t.Errorf("%s: %d of %d bytes, %v", name, len(got), len(want), err)
		}
	}
}

// TestSpoolReadsAhead: a writer is not held up while nobody reads.
func TestSpoolReadsAhead(t *testing.T) {
	r, w := io.Pipe()
	s := newSpool(r)
	block := make([]byte, spoolBlock)
	for range spoolBlocks {
		if _, err := w.Write(block); err != nil {
			t.Fatal(err)
		}
	}
	w.Close()
	if n, err := io.Copy(io.Discard, s); n != spoolBlocks*spoolBlock || err != nil {
		t.Errorf("%d bytes, %v", n, err)
	}
}
