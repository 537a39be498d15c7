package xw_test

import (
	"bytes"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// mayImport is the layering: for each package the packages of xw that it may import. A package's internal ones follow
// its rules, and it may import them. Test helpers are for tests alone.
var mayImport = map[string][]string{
	".":             {},
	"bench":         {"pkg/wire", "pkg/perfabi", "pkg/decode", "pkg/report", "pkg/rebind"},
	"cmd/xw-open":   {"pkg/stage", "pkg/session", "pkg/watch", "pkg/target", "pkg/proc", "pkg/launch", "pkg/wire"},
	"cmd/xw-decode": {"pkg/stage", "pkg/decode", "pkg/wire"},
	"cmd/xw-rebind": {"pkg/stage", "pkg/rebind", "pkg/wire"},
	"cmd/xw-report": {"pkg/stage", "pkg/report", "pkg/wire", "pkg/symbol"},
	"pkg/wire":      {},
	"pkg/perfabi":   {},
	"pkg/ring":      {"pkg/perfabi"},
	"pkg/proc":      {},
	"pkg/symbol":    {"pkg/wire"},
	"pkg/target":    {"pkg/proc", "pkg/symbol", "pkg/wire"},
	"pkg/watch":     {"pkg/perfabi", "pkg/ring", "pkg/proc"},
	"pkg/launch":    {"pkg/proc"},
	"pkg/control":   {"pkg/wire"},
	"pkg/session": {"pkg/target", "pkg/watch", "pkg/proc", "pkg/launch", "pkg/control", "pkg/symbol", "pkg/wire",
		"pkg/perfabi"},
	"pkg/decode":      {"pkg/wire", "pkg/perfabi"},
	"pkg/rebind":      {"pkg/wire"},
	"pkg/insn":        {"pkg/wire"},
	"pkg/report":      {"pkg/wire", "pkg/symbol", "pkg/insn"},
	"pkg/stage":       {"pkg/wire"},
	"pkg/hwtest":      {},
	"pkg/golden":      {},
	"pkg/e2e":         {},
	"examples/filter": {"pkg/wire"},
}

// mayImportModule says which packages may import a module that makes demands on its users; all others may not.
var mayImportModule = map[string][]string{
	"golang.org/x/sys/unix":           {"pkg/watch", "pkg/proc", "pkg/ring", "pkg/control", "pkg/hwtest", "pkg/launch", "pkg/stage"},
	"github.com/vmihailenco/msgpack/": {"pkg/wire"},
	"github.com/alecthomas/kong":      {"pkg/stage", "cmd/xw-open", "cmd/xw-decode", "cmd/xw-rebind", "cmd/xw-report"},
	"github.com/cilium/ebpf":          {"pkg/watch"},
	"unsafe":                          {"pkg/watch", "pkg/proc", "pkg/ring", "pkg/hwtest", "pkg/launch"},
}

// goPackage is what the tests of this file need of "go list -json".
type goPackage struct {
	ImportPath string
	Name       string
	Dir        string
	Doc        string
	GoFiles    []string
	Imports    []string
}

// rel is the package's path in the repository.
func (p goPackage) rel() string {
	return cutModule(p.ImportPath)
}

func cutModule(path string) string {
	if path == "xw" {
		return "."
	}
	return strings.TrimPrefix(path, "xw/")
}

func packages(t *testing.T) []goPackage {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Name,Dir,Doc,GoFiles,Imports", "./...")
	cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH=amd64")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var list []goPackage
	for dec := json.NewDecoder(bytes.NewReader(out)); dec.More(); {
		var p goPackage
		if err := dec.Decode(&p); err != nil {
			t.Fatal(err)
		}
		list = append(list, p)
	}
	if len(list) < 4 {
		t.Fatalf("go list shows %d packages", len(list))
	}
	return list
}

func TestHouseImports(t *testing.T) {
	for _, p := range packages(t) {
		owner, _, _ := strings.Cut(p.rel(), "/internal/")
		allowed, known := mayImport[owner]
		if !known {
			t.Errorf("%s: a new package; say in mayImport what it may import", p.rel())
			continue
		}
		for _, path := range p.Imports {
			own := path == "xw" || strings.HasPrefix(path, "xw/")
			imported, _, internal := strings.Cut(cutModule(path), "/internal/")
			if own && !slices.Contains(allowed, imported) && !(internal && imported == owner) {
				t.Errorf("%s imports %s", p.rel(), cutModule(path))
			}
			for module, users := range mayImportModule {
				if strings.HasPrefix(path, module) && !slices.Contains(users, owner) {
					t.Errorf("%s imports %s", p.rel(), path)
				}
			}
		}
	}
}

func TestHouseDocComments(t *testing.T) {
	for _, p := range packages(t) {
		if p.Doc == "" {
			t.Errorf("%s has no doc comment", p.rel())
		}
	}
}

// TestHouseProcessGlobals keeps standard input, output and the exit of the process in the hands of the commands and of
// pkg/stage: everything else gets readers and writers, and returns errors.
func TestHouseProcessGlobals(t *testing.T) {
	forbidden := map[string][]string{
		"os":  {"Stdin", "Stdout", "Exit"},
		"fmt": {"Print", "Printf", "Println", "Scan", "Scanf", "Scanln"},
		"log": {"Fatal", "Fatalf", "Fatalln", "Print", "Printf", "Println", "Panic", "Panicf", "Panicln"},
	}
	for _, p := range packages(t) {
		if p.Name == "main" || p.rel() == "pkg/stage" {
			continue
		}
		for _, file := range p.GoFiles {
			fset := token.NewFileSet()
			tree, err := parser.ParseFile(fset, filepath.Join(p.Dir, file), nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(tree, func(n ast.Node) bool {
				sel, ok := n.(*ast.SelectorExpr)
				if !ok {
					return true
				}
				if pkg, ok := sel.X.(*ast.Ident); ok && slices.Contains(forbidden[pkg.Name], sel.Sel.Name) {
					t.Errorf("%s uses %s.%s", fset.Position(n.Pos()), pkg.Name, sel.Sel.Name)
				}
				return true
			})
		}
	}
}

// TestHouseText looks for what must not be in any file: work left undone, and paths of the machine it was written on.
func TestHouseText(t *testing.T) {
	root, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	undone := regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|XX` + `X)\b`)
	paths := []string{root + "/"}
	if home, err := os.UserHomeDir(); err == nil && home != "/" {
		paths = append(paths, home+"/")
	}
	err = filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if name := entry.Name(); name == ".git" || path == "bin" {
				return filepath.SkipDir
			}
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil || bytes.IndexByte(text, 0) >= 0 {
			return err
		}
		for i, line := range strings.Split(string(text), "\n") {
			if undone.MatchString(line) {
				t.Errorf("%s:%d: left undone: %s", path, i+1, line)
			}
			for _, machine := range paths {
				if strings.Contains(line, machine) {
					t.Errorf("%s:%d: a path of this machine: %s", path, i+1, line)
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
