package perfabi

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
)

// cited is a constant of this package with the C name that its comment begins with.
type cited struct {
	name, c string
	value   uint64
}

// citedConstants reads this package's own source.
func citedConstants(t *testing.T) []cited {
	t.Helper()
	fset := token.NewFileSet()
	var files []*ast.File
	for _, name := range []string{"abi.go", "regs.go"} {
		f, err := parser.ParseFile(fset, name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	conf := types.Config{Importer: importer.Default(), Error: func(error) {}} // imports do not matter to constants
	info := &types.Info{Defs: map[*ast.Ident]types.Object{}}
	pkg, _ := conf.Check("perfabi", fset, files, info)
	if pkg == nil {
		t.Fatal("the source does not parse")
	}
	var list []cited
	word := regexp.MustCompile(`^\w+`)
	for _, f := range files {
		ast.Inspect(f, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || spec.Comment == nil {
				return true
			}
			c, ok := info.Defs[spec.Names[0]].(*types.Const)
			if !ok {
				return true
			}
			v, exact := constant.Uint64Val(constant.ToInt(c.Val()))
			if !exact {
				t.Fatalf("%s is no unsigned integer", c.Name())
			}
			list = append(list, cited{c.Name(), word.FindString(strings.TrimSpace(spec.Comment.Text())), v})
			return true
		})
	}
	return list
}

// TestConstantsAgainstTheKernelHeaders compiles the C names that the comments cite and compares their values.
func TestConstantsAgainstTheKernelHeaders(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("the registers are those of x86-64")
	}
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("no C compiler")
	}
	var b strings.Builder
	b.WriteString("#include <stdio.h>\n#include <string.h>\n#include <linux/perf_event.h>\n#include <linux/hw_breakpoint.h>\n" +
		"#include <asm/perf_regs.h>\nint main(void) {\nstruct perf_event_attr a; unsigned long long v;\n")
	list := citedConstants(t)
	seen := 0
	for _, c := range list {
		switch {
		case strings.HasPrefix(c.name, "Attr"):
			fmt.Fprintf(&b, "memset(&a, 0, sizeof a); a.%s = 1; memcpy(&v, (char *)&a + 40, 8); printf(\"%s %%llu\\n\", v);\n", c.c, c.name)
		case c.c == strings.ToUpper(c.c) && strings.Contains(c.c, "_"):
			fmt.Fprintf(&b, "v = %s; printf(\"%s %%llu\\n\", v);\n", c.c, c.name)
		default:
			continue
		}
		seen++
	}
	b.WriteString("return 0; }\n")
	if seen < 100 {
		t.Fatalf("only %d constants cite a C name", seen)
	}
	got := compileAndRun(t, cc, b.String())
	for _, c := range list {
		if v, ok := got[c.name]; ok && v != fmt.Sprint(c.value) {
			t.Errorf("%s is %d, %s is %s", c.name, c.value, c.c, v)
		}
	}
	if len(got) != seen {
		t.Errorf("%d values, want %d", len(got), seen)
	}
}

func compileAndRun(t *testing.T, cc, source string) map[string]string {
	t.Helper()
	dir := t.TempDir()
	src, exe := filepath.Join(dir, "c.c"), filepath.Join(dir, "c")
	if err := os.WriteFile(src, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(cc, "-o", exe, src).CombinedOutput(); err != nil {
		t.Skipf("kernel headers missing or older: %s", out)
	}
	out, err := exec.Command(exe).Output()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for line := range strings.Lines(string(out)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		got[name] = value
	}
	return got
}
