package control

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"xw/pkg/wire"
)

func encode(t testing.TB, records ...wire.Record) []byte {
	t.Helper()
	var b bytes.Buffer
	w := wire.NewWriter(&b)
	for _, r := range records {
		if err := w.Write(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func controlHeader() *wire.Header { return &wire.Header{Version: wire.Version, Stream: wire.Control} }

// commandsOf are the commands of messages and, of what is none, the reasons.
func commandsOf(messages []Message) (commands []wire.Record, reasons []string) {
	for _, m := range messages {
		if m.Command != nil {
			commands = append(commands, m.Command)
		} else {
			reasons = append(reasons, m.Reason)
		}
	}
	return commands, reasons
}

func TestParse(t *testing.T) {
	bind, unbind, read := &wire.Bind{Watch: 1, Generation: 2, Addr: 3, CauseTime: 4}, &wire.Unbind{Watch: 1, Generation: 3, CauseTime: 5}, &wire.Read{Watch: 1, Generation: 3}
	another := &wire.Bind{Watch: 2, Generation: 9, Addr: 8, CauseTime: 7}
	long := append(bytes.Clone(encode(t, bind)), 0)
	long[0]++ // one more field, of a later version
	huge := append([]byte{0x95, 0xa4, 'b', 'i', 'n', 'd', 1, 2, 3, 0xc6, 0, 0, 0x20, 0}, make([]byte, 0x2000)...)
	for _, test := range []struct {
		name    string
		in      []byte
		want    []wire.Record
		reasons []string // what they begin with
	}{
		{"nothing", nil, nil, nil},
		{"all commands", encode(t, controlHeader(), bind, unbind, read, another), []wire.Record{bind, unbind, read, another}, nil},
		{"a second writer begins", encode(t, controlHeader(), bind, controlHeader(), another), []wire.Record{bind, another}, nil},
		{"a command with a field more", long, []wire.Record{bind}, nil},
		{"garbage between", bytes.Join([][]byte{encode(t, bind), []byte("rm -rf /\n"), encode(t, another)}, nil), []wire.Record{bind, another},
			[]string{"malformed command: "}},
		{"a huge length", bytes.Join([][]byte{{0xdd, 0xff, 0xff, 0xff, 0xff}, encode(t, read), {0xc6, 0xff, 0xff, 0xff, 0xff}}, nil), []wire.Record{read},
			[]string{"malformed command: ", "malformed command: "}},
		{"half a command", encode(t, bind)[:5], nil, []string{"malformed command: "}},
		{"more than a pipe takes whole", huge, nil, []string{"malformed command: "}},
		{"a record that is no command", encode(t, &wire.Round{T: 1}), nil, []string{`malformed command: "round" is no command`}},
		{"another stream's header", encode(t, &wire.Header{Version: 1, Stream: wire.Events}), nil, []string{"malformed command: header of a stream of events"}},
		{"a field of another type", []byte{0x93, 0xa4, 'r', 'e', 'a', 'd', 0xa1, 'x', 1}, nil, []string{"malformed command: "}},
	} {
		var p wire.Parser
		messages, rest := parse(&p, test.in, false)
		commands, reasons := commandsOf(messages)
		if !reflect.DeepEqual(commands, test.want) || len(reasons) != len(test.reasons) || len(rest) > 0 {
			t.Errorf("%s: commands %v, reasons %q, %d bytes left", test.name, commands, reasons, len(rest))
			continue
		}
		for i, reason := range reasons {
			if !strings.HasPrefix(reason, test.reasons[i]) {
				t.Errorf("%s: reason %q, want %q", test.name, reason, test.reasons[i])
			}
		}
		for _, m := range messages {
			if len(m.Bin) == 0 || len(m.Bin) > maxQuote {
				t.Errorf("%s: %d bytes of it", test.name, len(m.Bin))
			}
		}
	}
}

// TestParseInPieces cuts commands at every byte.
func TestParseInPieces(t *testing.T) {
	var want []wire.Record
	stream := encode(t, controlHeader())
	for i := range uint64(5) {
		r := &wire.Bind{Watch: uint32(i), Generation: i << 20, Addr: i << 40, CauseTime: 7}
		want = append(want, r)
		stream = append(stream, encode(t, r)...)
	}
	for cut := range stream {
		var p wire.Parser
		first, rest := parse(&p, stream[:cut], true)
		second, left := parse(&p, append(bytes.Clone(rest), stream[cut:]...), false)
		commands, reasons := commandsOf(append(first, second...))
		if !reflect.DeepEqual(commands, want) || len(reasons) > 0 || len(left) > 0 {
			t.Fatalf("cut at %d: %v, %q", cut, commands, reasons)
		}
	}
}

// BenchmarkGarbage is what a full FIFO of bytes that look like commands costs at most.
func BenchmarkGarbage(b *testing.B) {
	for _, fill := range [][]byte{{0x91}, {0x9f, 0xa4, 'b', 'i', 'n', 'd'}, []byte("text "), {0x95, 0xa4, 'b', 'i', 'n', 'd', 0xc5, 0x0f, 0xf0}} {
		b.Run(fmt.Sprintf("%x", fill), func(b *testing.B) {
			var p wire.Parser
			full := bytes.Repeat(fill, 64<<10/len(fill))
			b.SetBytes(int64(len(full)))
			for b.Loop() {
				parse(&p, full, false)
			}
		})
	}
}

// FuzzParse: any bytes give messages, and a command behind them is found.
func FuzzParse(f *testing.F) {
	f.Add([]byte("garbage"))
	f.Add(encode(f, controlHeader(), &wire.Bind{Watch: 1, Generation: 2, Addr: 3, CauseTime: 4}))
	f.Fuzz(func(t *testing.T, b []byte) {
		var p wire.Parser
		messages, rest := parse(&p, b, true)
		if len(rest) >= maxCommand {
			t.Errorf("%d bytes left over", len(rest))
		}
		total := 0
		for _, m := range messages {
			if (m.Command == nil) != (m.Reason != "") || len(m.Bin) == 0 {
				t.Errorf("message %+v", m)
			}
			total += len(m.Bin)
		}
		if total > len(b) {
			t.Errorf("messages of %d bytes, %d were there", total, len(b))
		}
	})
}
