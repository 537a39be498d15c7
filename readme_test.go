package xw_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"xw/pkg/hwtest"
)

// An example is a block of shell commands in README.md and what is to be done with it, which a comment on the line
// before it says:
//
//	<!-- test: make -->         runs in the top directory
//	<!-- test: run -->          runs in a directory of its own
//	<!-- test: hw -->           the same; $PID is the sample program of examples/
//	<!-- test: no, REASON -->   is not run
//
// All but the last must succeed. A text block that follows, marked <!-- output -->, shows what the example printed when
// it was written: its words must be words of what it prints now, whatever the numbers are.
type example struct {
	line   int
	how    string
	code   string
	output string // "" if none is shown
}

var (
	testMark   = regexp.MustCompile(`^<!-- test: (make|run|hw|no, .+) -->$`)
	outputMark = "<!-- output -->"
)

func TestReadme(t *testing.T) {
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	examples, err := parseExamples(string(text))
	if err != nil {
		t.Fatal(err)
	}
	if len(examples) == 0 {
		t.Fatal("README.md has no examples")
	}
	commands := buildCommands(t)
	for _, e := range examples {
		t.Run(fmt.Sprintf("line %d", e.line), func(t *testing.T) { runExample(t, e, commands) })
	}
}

func runExample(t *testing.T, e example, commands string) {
	if strings.HasPrefix(e.how, "no, ") {
		return
	}
	root, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", "-eu", "-c", e.code)
	cmd.Env = append(os.Environ(), "PATH="+withPath(commands))
	cmd.Dir = root
	if e.how != "make" {
		cmd.Dir = t.TempDir()
		if err := os.Symlink(filepath.Join(root, "examples"), filepath.Join(cmd.Dir, "examples")); err != nil {
			t.Fatal(err)
		}
	}
	if e.how != "run" {
		hwtest.Require(t)
	}
	if e.how == "hw" {
		sample := hwtest.Start(t, buildSample(t))
		cmd.Env = append(cmd.Env, fmt.Sprintf("PID=%d", sample.PID))
	}
	out, err := cmd.Output()
	if err != nil {
		var stderr []byte
		if exit, ok := err.(*exec.ExitError); ok {
			stderr = exit.Stderr
		}
		t.Fatalf("%s\n%v\n%s%s", e.code, err, out, stderr)
	}
	if missing := missingWords(e.output, string(out)); len(missing) > 0 {
		t.Errorf("README.md shows words that are not in the output now: %q\n%s", missing, out)
	}
}

// missingWords returns the words of shown that printed has not. Numbers, with their unit, are no words.
func missingWords(shown, printed string) []string {
	number := regexp.MustCompile(`0x[0-9a-f]+|[0-9][0-9.,]*([nuµm]?s\b)?`)
	word := regexp.MustCompile(`[A-Za-z_]{2,}`)
	words := func(text string) []string { return word.FindAllString(number.ReplaceAllString(text, " "), -1) }
	now := words(printed)
	var missing []string
	for _, w := range words(shown) {
		if !slices.Contains(now, w) && !slices.Contains(missing, w) {
			missing = append(missing, w)
		}
	}
	return missing
}

// parseExamples finds the blocks of a Markdown text that are fenced as sh, and the output shown after them.
func parseExamples(text string) ([]example, error) {
	var found []example
	lines := strings.Split(text, "\n")
	for i := 0; i < len(lines); i++ {
		info, fenced := strings.CutPrefix(lines[i], "```")
		if !fenced {
			continue
		}
		end := i + 1 + slices.Index(lines[i+1:], "```")
		if end == i {
			return nil, fmt.Errorf("line %d: block without an end", i+1)
		}
		block := strings.Join(lines[i+1:end], "\n")
		mark := ""
		if i > 0 {
			mark = lines[i-1]
		}
		switch m := testMark.FindStringSubmatch(mark); {
		case info == "sh" && m == nil:
			return nil, fmt.Errorf("line %d: example without a mark that says how it is tested", i+1)
		case info == "sh":
			found = append(found, example{line: i + 1, how: m[1], code: block})
		case mark == outputMark && len(found) == 0:
			return nil, fmt.Errorf("line %d: output without an example", i+1)
		case mark == outputMark:
			found[len(found)-1].output = block
		}
		i = end
	}
	return found, nil
}

func TestParseExamples(t *testing.T) {
	text := "# Title\n<!-- test: make -->\n```sh\nmake demo\n```\n\nIt prints\n\n" + outputMark + "\n```text\n42 hits\n```\n" +
		"```\nno example\n```\n<!-- test: no, it installs packages -->\n```sh\nmake deps\nmake\n```\n"
	got, err := parseExamples(text)
	want := []example{
		{line: 3, how: "make", code: "make demo", output: "42 hits"},
		{line: 17, how: "no, it installs packages", code: "make deps\nmake"},
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %+v, %v", got, err)
	}
	for _, bad := range []string{
		"```sh\nls\n```\n",
		"<!-- test: hw -->\n\n```sh\nls\n```\n",
		"<!-- test: hw -->\n```sh\nls\n",
		outputMark + "\n```\nx\n```\n",
	} {
		if got, err := parseExamples(bad); err == nil {
			t.Errorf("%q parsed to %+v", bad, got)
		}
	}
	if got := missingWords("6 hits by take_order+0xab in 1.5ms", "take_order 7 misses, by 0xcd in 2s"); !slices.Equal(got, []string{"hits"}) {
		t.Errorf("missing words %q", got)
	}
}
