package report

import (
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// TestFormatPage: FORMAT.md describes every key of the report, in the order in which it is written, and no other.
func TestFormatPage(t *testing.T) {
	page, err := os.ReadFile("../../FORMAT.md")
	if err != nil {
		t.Fatal(err)
	}
	for heading, object := range map[string]any{
		"report": Report{}, "report gap": Gap{}, "report target": Target{}, "report session": Session{},
		"report watch": Watch{}, "report thread": ThreadCount{}, "report site": Site{}, "report chain": Chain{},
		"report binding": Binding{},
	} {
		_, section, found := strings.Cut(string(page), "\n### "+heading+"\n")
		if !found {
			t.Errorf("no section %q", heading)
			continue
		}
		section, _, _ = strings.Cut(section, "\n### ")
		var got []string
		for line := range strings.Lines(section) {
			if cells := strings.Split(line, "|"); len(cells) > 2 && strings.HasPrefix(cells[1], " `") {
				got = append(got, strings.Trim(cells[1], " `"))
			}
		}
		if want := jsonKeys(reflect.TypeOf(object)); !slices.Equal(got, want) {
			t.Errorf("section %q has\n%q, the report\n%q", heading, got, want)
		}
	}
}

// jsonKeys are the keys of a struct as JSON, those of embedded structs in their place.
func jsonKeys(t reflect.Type) []string {
	var keys []string
	for f := range t.Fields() {
		switch tag := f.Tag.Get("json"); {
		case f.Anonymous:
			keys = append(keys, jsonKeys(f.Type)...)
		case tag != "" && tag != "-":
			keys = append(keys, tag)
		}
	}
	return keys
}
