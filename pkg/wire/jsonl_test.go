package wire

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

func TestJSONL(t *testing.T) {
	sample := &Sample{Time: 100, CPU: 1, PID: 7, TID: 8, Generation: 1, Addr: 0x601040, IP: 0x400510, Origin: 1,
		Value: Some(1<<64 - 1), Regs: []byte{1, 0, 0, 0, 0, 0, 0, 0x80, 2, 0, 0, 0, 0, 0, 0, 0}, Callchain: []uint64{1, 16}}
	none := &Sample{}
	j := NewJSONL([]string{"rax", "rbx", "rcx"})
	for _, test := range []struct {
		rec  Record
		want string
	}{
		{sample, `{"kind":"sample","time":100,"cpu":1,"pid":7,"tid":8,"watch":0,"generation":1,"addr":"0x601040",` +
			`"ip":"0x400510","origin":1,"value":"0xffffffffffffffff","regs":{"rax":"0x8000000000000001","rbx":"0x2"},` +
			`"callchain":["0x1","0x10"],"user_ip":null,"syscall":null,"child":null}`},
		{none, `{"kind":"sample","time":0,"cpu":0,"pid":0,"tid":0,"watch":0,"generation":0,"addr":"0x0","ip":"0x0",` +
			`"origin":0,"value":null,"regs":null,"callchain":null,"user_ip":null,"syscall":null,"child":null}`},
		{&Comm{1, 2, 3, "a\"\\\n\x7fä"}, `{"kind":"comm","time":1,"pid":2,"tid":3,"comm":"a\"\\\n` + "\x7f" + `ä"}`},
		{&Code{1, 2, []byte{0x90, 0xc3}}, `{"kind":"code","ip":"0x1","start":"0x2","bin":"90c3"}`},
		{&Code{}, `{"kind":"code","ip":"0x0","start":"0x0","bin":""}`},
		{&Mmap{}, `{"kind":"mmap","time":0,"pid":0,"tid":0,"start":"0x0","len":"0x0","offset":"0x0","prot":0,"flags":0,` +
			`"path":"","build_id":null}`},
		{&Throttle{1, 2, Some(0), true}, `{"kind":"throttle","time":1,"cpu":2,"watch":0,"on":true}`},
		{&Unknown{"new\nkind"}, `{"kind":"new\nkind"}`},
		{&End{EndInfo{StopReason: "a<b"}}, `{"kind":"end","info":{"child":"","elapsed_ns":0,"end_ns":0,"error":"",` +
			`"stop_reason":"a<b","threads_seen":0}}`},
	} {
		if got := string(j.Append([]byte("> "), test.rec)); got != "> "+test.want {
			t.Errorf("\n got %s\nwant > %s", got, test.want)
		}
	}
	header := string(j.Append(nil, &Header{1, Events, session()}))
	for _, want := range []string{`"addr":"0x601040"`, `"chain":null`, `"offset":-16`, `"parent":0`} {
		if !strings.Contains(header, want) {
			t.Errorf("%s lacks %s", header, want)
		}
	}
}

// TestJSONLFollowsTheTable requires of every kind valid JSON with the table's names in the table's order.
func TestJSONLFollowsTheTable(t *testing.T) {
	j := NewJSONL([]string{"rax"})
	for _, records := range [][]Record{everyKind(), bare()} {
		for i, s := range Table() {
			line := j.Append(nil, records[i])
			if got := keys(t, line); strings.Join(got, " ") != strings.Join(names(s), " ") {
				t.Errorf("%s: keys %v, want %v", s.Kind, got, names(s))
			}
		}
	}
}

func names(s Spec) []string {
	list := []string{"kind"}
	for _, f := range s.Fields {
		list = append(list, f.Name)
	}
	return list
}

// keys returns the keys of a JSON object in order.
func keys(t *testing.T, object []byte) []string {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(object))
	if _, err := dec.Token(); err != nil {
		t.Fatalf("%s: %v", object, err)
	}
	var list []string
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			t.Fatalf("%s: %v", object, err)
		}
		list = append(list, key.(string))
		var value any
		if err := dec.Decode(&value); err != nil {
			t.Fatalf("%s: %v", object, err)
		}
	}
	return list
}
