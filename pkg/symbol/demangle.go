package symbol

import (
	"strings"

	"github.com/ianlancetaylor/demangle"
)

// maxDemangled bounds a demangled name to 2^14 bytes: substitutions let a short mangled name grow without limit.
var maxDemangled = demangle.MaxLength(14)

// Demangle returns the readable form of a C++ or Rust name with its parameters and without a legacy Rust hash, and
// name itself when it is neither.
func Demangle(name string) string {
	return demangled(name, maxDemangled)
}

// demangled never panics: a name comes from a file that anybody may have written.
func demangled(name string, options ...demangle.Option) (out string) {
	if !mangled(name) {
		return goUnescape(name)
	}
	defer func() {
		if recover() != nil {
			out = name
		}
	}()
	return demangle.Filter(name, options...)
}

func mangled(name string) bool {
	return strings.HasPrefix(name, "_Z") || strings.HasPrefix(name, "_R") || strings.HasPrefix(name, "___Z") ||
		strings.HasPrefix(name, "_GLOBAL_")
}

// goUnescape undoes the linker's escape of dots in the last element of a Go import path.
func goUnescape(name string) string {
	if strings.Contains(name, "/") {
		return strings.ReplaceAll(name, "%2e", ".")
	}
	return name
}
