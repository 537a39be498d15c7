package decode

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"xw/pkg/golden"
	"xw/pkg/wire"
)

// runText decodes a stream, binary or text, to text.
func runText(in []byte) ([]byte, error) {
	var out bytes.Buffer
	err := Run(wire.NewReader(bytes.NewReader(in)), wire.NewTextWriter(&out))
	return out.Bytes(), err
}

// convert copies a stream record by record and returns the reader's error.
func convert(t *testing.T, in []byte, to func(io.Writer) wire.Sink) []byte {
	t.Helper()
	var out bytes.Buffer
	r, w := wire.NewReader(bytes.NewReader(in)), to(&out)
	for r.Next() {
		if err := w.WriteRaw(r.Raw()); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.Err(); err != nil && !errors.Is(err, wire.ErrTruncated) {
		t.Fatal(err)
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func toBinary(w io.Writer) wire.Sink { return wire.NewWriter(w) }
func toText(w io.Writer) wire.Sink   { return wire.NewTextWriter(w) }

// expectation is what a file's first line says, `# error: TEXT` or nothing.
func expectation(in []byte) string {
	first, _, _ := strings.Cut(string(in), "\n")
	want, _ := strings.CutPrefix(first, "# error: ")
	if want == first {
		return ""
	}
	return want
}

// TestGolden decodes the raw streams of testdata. An error is expected where the file says so.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("../../testdata/raw/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no raw streams: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			in, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got, err := runText(in)
			checkError(t, err, expectation(in))
			if len(got) == 0 {
				return
			}
			golden.Check(t, got, filepath.Join("../../testdata/events", filepath.Base(file)))
			if again := convert(t, convert(t, got, toBinary), toText); !bytes.Equal(again, got) {
				t.Errorf("the text does not stand for the stream:\n%s\n%s", got, again)
			}
			checkBinary(t, in, got)
		})
	}
}

// checkBinary decodes the binary form of the same stream. A file with lines that are no records has none.
func checkBinary(t *testing.T, in, want []byte) {
	t.Helper()
	r := wire.NewReader(bytes.NewReader(in))
	for r.Next() {
	}
	if err := r.Err(); err != nil && !errors.Is(err, wire.ErrTruncated) {
		return
	}
	var out bytes.Buffer
	err := Run(wire.NewReader(bytes.NewReader(convert(t, in, toBinary))), wire.NewWriter(&out))
	checkError(t, err, expectation(in))
	if got := convert(t, out.Bytes(), toText); !bytes.Equal(got, want) {
		t.Errorf("the binary form gives:\n%s", got)
	}
}

func checkError(t *testing.T, err error, want string) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Errorf("error %v", err)
	case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
		t.Errorf("error %v, want one with %q", err, want)
	}
}
