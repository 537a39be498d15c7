package wire

import (
	"bytes"
	"strings"
	"testing"
)

const textHeader = `xw version=1 stream="raw" session={}` + "\n"

// readText returns the records after the header.
func readText(t *testing.T, lines string) ([]Record, error) {
	t.Helper()
	records, err := decodeAll(t, []byte(textHeader+lines+"\nend info={}\n"))
	if len(records) > 0 {
		records = records[1:]
	}
	return records, err
}

func TestTextByHand(t *testing.T) {
	lines := strings.Join([]string{
		"# a comment, then a blank line",
		"",
		`chunk cpu=0 bin=u32:9,u16:2,u16:0x28,u64:0x400510,s:"a b,\x00",zero:2,dead,u8:007`,
		"  chunk\tbin=\"\"  cpu=0x10   # no comment here",
	}, "\n")
	if _, err := readText(t, lines); err == nil {
		t.Error("a comment after a record was accepted")
	}
	lines = strings.TrimSuffix(lines, "   # no comment here") + "\n" + strings.Join([]string{
		`sample time=1 cpu=2 pid=3 tid=4 watch=0 generation=1 addr=0x10 ip=20 origin=0`,
		`sample tid=4 cpu=2 pid=3 time=1 watch=0 generation=1 addr=16 ip=0x14 origin=0 value=0 regs="" callchain=[]`,
		`counts time=1 watch=0 counted=1 emitted=1 lost=0 after_stop=0`,
		`note time=010 text="quoted \"} { = # \u00e4"`,
		`throttle time=1 cpu=0 on=true`,
	}, "\n")
	records, err := readText(t, lines)
	if err != nil {
		t.Fatal(err)
	}
	chunk := []byte("\x09\x00\x00\x00\x02\x00\x28\x00\x10\x05\x40\x00\x00\x00\x00\x00a b,\x00\x00\x00\xde\xad\x07")
	sample := Sample{Time: 1, CPU: 2, PID: 3, TID: 4, Generation: 1, Addr: 16, IP: 20}
	empty := sample
	empty.Value, empty.Regs, empty.Callchain = Some(0), []byte{}, []uint64{}
	compare(t, records, []Record{&Chunk{0, chunk}, &Chunk{CPU: 16}, &sample, &empty,
		&Counts{Time: 1, Counted: 1, Emitted: 1}, &Note{10, "quoted \"} { = # ä"}, &Throttle{Time: 1, On: true}, &End{}})
}

func TestTextSession(t *testing.T) {
	r := NewReader(strings.NewReader(`xw version=1 stream="events" session={"scope": "cpu",
`))
	if r.Next() {
		t.Error("half a map was accepted")
	}
	r = NewReader(strings.NewReader(`xw stream="events" session={"watches": [{"addr": "0x601040", "parent": 3, "offset": -8, ` +
		`"slots": [{"addr": 6295616, "len": 4}]}], "notes": ["a { b"]} version=1`))
	if !r.Next() {
		t.Fatal(r.Err())
	}
	want := Header{1, Events, Session{Notes: []string{"a { b"}, Watches: []Watch{
		{Addr: Some(0x601040), Parent: Some(3), Offset: -8, Slots: []Slot{{0x601040, 4}}}}}}
	compare(t, []Record{r.Record()}, []Record{&want})
}

func TestTextErrors(t *testing.T) {
	for line, want := range map[string]string{
		"round":                                   "round in line 2: field t: missing",
		"round t=":                                "field t: no value",
		"round t=1 t=2":                           "field t: given twice",
		"round t=1 u=2":                           `unknown field "u"`,
		"round 1":                                 `expected name=value, found "1"`,
		"round t=-1":                              `"-1": not an unsigned 64-bit number`,
		"round t=1_000":                           "not an unsigned 64-bit number",
		"round t=0x":                              "not an unsigned 64-bit number",
		"round t=nil":                             "not an unsigned 64-bit number",
		"round t=18446744073709551616":            "not an unsigned 64-bit number",
		"late cpu=4294967296 n=1":                 "field cpu: 4294967296 does not fit in 32 bits",
		"novelty a=1":                             `unknown kind "novelty" without raw=`,
		"note time=1 text=bare":                   `field text: "bare": not a double-quoted string`,
		"note time=1 text='x'":                    "not a double-quoted string",
		"note time=1 text=`x`":                    "not a double-quoted string",
		`note time=1 text="x`:                     "not a double-quoted string",
		"throttle time=1 cpu=1 on=yes":            `field on: "yes": neither true nor false`,
		"chunk cpu=0 bin=abc":                     "not pairs of hex digits",
		"chunk cpu=0 bin=,":                       "not pairs of hex digits",
		"chunk cpu=0 bin=nil":                     "not pairs of hex digits",
		"chunk cpu=0 bin=u8:256":                  "field bin: 256 does not fit in 1 bytes",
		"chunk cpu=0 bin=i8:1":                    `"i8": expected u8, u16, u32, u64, s or zero`,
		"chunk cpu=0 bin=zero:99999999":           "99999999 zero bytes",
		"chunk cpu=0 bin=zero:65537":              "field bin: 65537 bytes, at most 65536",
		"chunk cpu=0 bin=zero:800000,zero:800000": "longer than 1048576 bytes",
		`end info={"stop_reson":"x"}`:             `unknown field "stop_reson"`,
		`end info={} info={}`:                     "given twice",
		`end info={}{}`:                           "more than one JSON value",
		`end info=5`:                              "field info:",
		"unknown raw=9":                           "field raw:",
		"unknown raw=92a17a":                      "field raw: not the bytes of one record",
		"unknown raw=91a17a00":                    "field raw: not the bytes of one record",
		"unknown raw=c1":                          "field raw: expected an array",
		`xw version=1 stream="raw" session={"watches":[{"adr":"0x1"}]}`:                               `unknown field "adr"`,
		"sample time=1 cpu=2 pid=3 tid=4 watch=0 generation=1 addr=0x10 ip=20 origin=0 callchain=1":   "expected [NUMBER,...]",
		"sample time=1 cpu=2 pid=3 tid=4 watch=0 generation=1 addr=0x10 ip=20 origin=0 callchain=[x]": `"x": not an unsigned`,
	} {
		records, err := readText(t, line)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\n got %v\nwant %q", line, err, want)
		}
		if len(records) != 0 {
			t.Errorf("%s: read as %v", line, records)
		}
	}
}

func TestTextLineLimit(t *testing.T) {
	if _, err := readText(t, "# "+strings.Repeat("x", MaxLine)); err == nil || !strings.Contains(err.Error(), "in line 2: longer than") {
		t.Errorf("got %v", err)
	}
	if _, err := readText(t, "# "+strings.Repeat("x", MaxLine/2)); err != nil {
		t.Errorf("half of the limit: %v", err)
	}
}

func TestTextOffsets(t *testing.T) {
	lines := []string{"# c\n", textHeader, "\n", "round t=1\n", "round t=x\n"}
	r := NewReader(strings.NewReader(strings.Join(lines, "")))
	for r.Next() {
	}
	want := int64(len(strings.Join(lines[:4], "")))
	if r.Offset() != want || !strings.Contains(r.Err().Error(), "in line 5: field t") {
		t.Errorf("offset %d, want %d; %v", r.Offset(), want, r.Err())
	}
}

func TestWriteRawRefusesWhatIsNoRecord(t *testing.T) {
	for _, raw := range [][]byte{nil, {0x91}, {0x91, 0xa1, 'z', 0}, {7}, {0x91, 7}, pack(t, "round", "x")} {
		if err := NewTextWriter(new(bytes.Buffer)).WriteRaw(raw); err == nil {
			t.Errorf("%x was written", raw)
		}
	}
}
