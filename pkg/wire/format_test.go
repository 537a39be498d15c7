package wire

import (
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func formatPage(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile("../../FORMAT.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(page)
}

var row = regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| ([^|]+) \\| ([^|]+) \\|$")

// typeCell is how FORMAT.md writes the type of a field.
func typeCell(f Field) string {
	cell := f.Type.String()
	if f.Hex {
		cell += ", hex"
	}
	switch {
	case f.Nil && f.Hex:
		cell += ", or nil"
	case f.Nil:
		cell += " or nil"
	case f.Added:
		cell += ", added"
	}
	return cell
}

// TestFormatPageHasTheTable requires every kind with its streams and every field with its type, in order.
func TestFormatPageHasTheTable(t *testing.T) {
	_, records, _ := strings.Cut(formatPage(t), "\n## Records\n")
	records, _, _ = strings.Cut(records, "\n## ")
	sections := strings.Split(records, "\n### ")[1:]
	if len(sections) != len(Table()) {
		t.Errorf("%d kinds on the page, %d in the table", len(sections), len(Table()))
	}
	for i, s := range Table() {
		if i >= len(sections) {
			break
		}
		name, body, _ := strings.Cut(sections[i], "\n")
		if name != s.Kind {
			t.Fatalf("kind %d is %q, the table has %q", i, name, s.Kind)
		}
		if want := "\nStreams: " + strings.Join(s.Streams, ", ") + ".\n"; !strings.Contains(body, want) {
			t.Errorf("%s: no line %q", s.Kind, want)
		}
		body, _, _ = strings.Cut(body, "<!-- keys:")
		var got, want []string
		for _, m := range row.FindAllStringSubmatch(body, -1) {
			got = append(got, m[1]+": "+m[2])
		}
		for _, f := range s.Fields {
			want = append(want, f.Name+": "+typeCell(f))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s:\n got %q\nwant %q", s.Kind, got, want)
		}
	}
}

// TestFormatPageHasTheKeys requires the keys of every map, in order.
func TestFormatPageHasTheKeys(t *testing.T) {
	page := formatPage(t)
	for _, doc := range []any{Session{}, Target{}, Watch{}, Slot{}, EndInfo{}} {
		typ := reflect.TypeOf(doc)
		_, table, ok := strings.Cut(page, "<!-- keys: "+typ.Name()+" -->\n")
		if !ok {
			t.Errorf("no table of %s", typ.Name())
			continue
		}
		table, _, _ = strings.Cut(table, "\n\n")
		var got, want []string
		for _, m := range row.FindAllStringSubmatch(table+"\n", -1) {
			got = append(got, m[1]+": "+m[2])
		}
		for i := range typ.NumField() {
			f := typ.Field(i)
			want = append(want, f.Tag.Get("msgpack")+": "+keyCell(f))
			if f.Tag.Get("msgpack") != f.Tag.Get("json") {
				t.Errorf("%s: the tags of %s differ", typ.Name(), f.Name)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s:\n got %q\nwant %q", typ.Name(), got, want)
		}
	}
}

// keyCell is how FORMAT.md writes the type of a map's value.
func keyCell(f reflect.StructField) string {
	isAddr := f.Tag.Get("msgpack") == "addr"
	switch f.Type {
	case reflect.TypeFor[string]():
		return "str"
	case reflect.TypeFor[bool]():
		return "bool"
	case reflect.TypeFor[int64]():
		return "integer"
	case reflect.TypeFor[[]string]():
		return "list of str"
	case reflect.TypeFor[Opt]():
		return typeCell(Field{Type: Uint, Nil: true, Hex: isAddr})
	case reflect.TypeFor[uint64]():
		return typeCell(Field{Type: Uint, Hex: isAddr})
	}
	if f.Type.Kind() == reflect.Slice {
		return "list of map"
	}
	return "map"
}

func TestFormatPageHasTheLimits(t *testing.T) {
	page := formatPage(t)
	for _, want := range []string{fmt.Sprintf("(%d bytes)", MaxRecord), fmt.Sprintf("(%d bytes)", MaxChunk),
		fmt.Sprintf("in a map | %d |", MaxItems), fmt.Sprintf("counted | %d |", MaxDepth),
		fmt.Sprintf("at most %d MiB", MaxLine>>20), fmt.Sprintf("| uint | %d |", Version)} {
		if !strings.Contains(page, want) {
			t.Errorf("FORMAT.md lacks %q", want)
		}
	}
}

// TestFormatPageExamples reads the text stream on the page, and compares its first sample with the JSON line.
func TestFormatPageExamples(t *testing.T) {
	page := formatPage(t)
	example := regexp.MustCompile(`(?m)^    (# Two stores(?:.*\n    )+.*)`).FindStringSubmatch(page)
	if example == nil {
		t.Fatal("no text stream on the page")
	}
	records, err := decodeAll(t, []byte(strings.ReplaceAll(example[1], "\n    ", "\n")+"\n"))
	if err != nil || len(records) != 4 {
		t.Fatalf("%d records, %v", len(records), err)
	}
	sample := records[1].(*Sample)
	sample.Regs = append([]byte{1}, make([]byte, 15)...)
	line := string(NewJSONL([]string{"rax", "rbx"}).Append(nil, sample))
	if !strings.Contains(page, "\n    "+line+"\n") {
		t.Errorf("the page lacks %s", line)
	}
	raw := regexp.MustCompile("`(unknown raw=[0-9a-f]+)`").FindStringSubmatch(page)
	if raw == nil {
		t.Fatal("no raw= on the page")
	}
	if got, err := readText(t, raw[1]); err != nil || len(got) != 2 {
		t.Errorf("%s: %v, %v", raw[1], got, err)
	}
}

var link = regexp.MustCompile(`\]\(#([a-z0-9-]+)\)`)

func TestFormatPageLinks(t *testing.T) {
	page := formatPage(t)
	anchors := map[string]int{}
	for _, m := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(page, -1) {
		name := strings.ReplaceAll(strings.ToLower(m[1]), " ", "-")
		if n := anchors[name]; n > 0 {
			anchors[fmt.Sprintf("%s-%d", name, n)]++
		}
		anchors[name]++
	}
	for _, m := range link.FindAllStringSubmatch(page, -1) {
		if anchors[m[1]] == 0 {
			t.Errorf("no heading for #%s", m[1])
		}
	}
}
