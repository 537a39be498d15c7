package insn

import (
	"bufio"
	"encoding/hex"
	"io"
	"regexp"
	"strconv"
	"strings"
)

// disassembled is one line of "objdump -d -w -M intel".
type disassembled struct {
	addr uint64
	code []byte
	text string
}

// readObjdump parses the lines of a disassembly, those left out that are no instruction.
func readObjdump(r io.Reader, yield func(disassembled)) error {
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		fields := strings.SplitN(lines.Text(), "\t", 3)
		if len(fields) < 3 || strings.Contains(fields[2], "(bad)") {
			continue
		}
		addr, err := strconv.ParseUint(strings.TrimSuffix(strings.TrimSpace(fields[0]), ":"), 16, 64)
		if err != nil {
			continue
		}
		code, err := hex.DecodeString(strings.ReplaceAll(fields[1], " ", ""))
		if err != nil {
			return err
		}
		yield(disassembled{addr, code, fields[2]})
	}
	return lines.Err()
}

var (
	comment  = regexp.MustCompile(`\s*(#|<).*`)
	relative = regexp.MustCompile(`\[[er]ip[+-]0x[0-9a-f]+\]`)
	bare     = regexp.MustCompile(`(:)(0x[0-9a-f]+)`)
	target   = regexp.MustCompile(`^((?:j\w+|call|loop\w*|xbegin) )([0-9a-f]+)$`)
	spaces   = regexp.MustCompile(`\s+`)
)

// normalText brings objdump's text into the form of instr.text: lower case, absolute addresses for RIP-relative
// operands, no scale of one.
func normalText(text string) string {
	resolved := ""
	if _, after, ok := strings.Cut(text, "# "); ok {
		resolved, _, _ = strings.Cut(after, " ")
	}
	text = strings.ToLower(comment.ReplaceAllString(text, ""))
	text = strings.TrimSpace(spaces.ReplaceAllString(text, " "))
	text = relative.ReplaceAllString(text, "[0x"+resolved+"]")
	text = bare.ReplaceAllString(text, "$1[$2]")
	text = target.ReplaceAllString(text, "${1}0x$2")
	text = strings.ReplaceAll(text, "ds:[0x", "[0x") // an absolute address
	text = strings.ReplaceAll(text, "*1]", "]")
	text = strings.ReplaceAll(text, "*1+", "+")
	text = strings.ReplaceAll(text, "*1-", "-")
	text = strings.ReplaceAll(text, "+0x0]", "]")
	return strings.ReplaceAll(text, ",", ", ")
}
