package stage

import (
	"errors"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"
)

// Number is an unsigned number on the command line: decimal, or hexadecimal with 0x. A leading zero changes nothing.
type Number uint64

// UnmarshalText parses s.
func (n *Number) UnmarshalText(s []byte) error {
	v, err := ParseNumber(string(s))
	*n = Number(v)
	return err
}

// ParseNumber parses a decimal number, or a hexadecimal one that starts with 0x.
func ParseNumber(s string) (uint64, error) {
	digits, base := s, 10
	if len(s) > 2 && (strings.HasPrefix(s, "0x") || strings.HasPrefix(s, "0X")) {
		digits, base = s[2:], 16
	}
	v, err := strconv.ParseUint(digits, base, 64)
	switch {
	case err == nil:
		return v, nil
	case errors.Is(err, strconv.ErrRange):
		return 0, fmt.Errorf("number %q does not fit into 64 bits", s)
	}
	return 0, fmt.Errorf("expected a number, decimal or hex with 0x, but got %q", s)
}

// Duration is a duration on the command line.
type Duration time.Duration

// UnmarshalText parses s as time.ParseDuration does.
func (d *Duration) UnmarshalText(s []byte) error {
	v, err := time.ParseDuration(string(s))
	if err != nil {
		return fmt.Errorf("expected a duration such as 5s, 300ms or 1h30m, but got %q", s)
	}
	*d = Duration(v)
	return nil
}

// Optional is the value of a flag that may stand alone or be followed by a value: --list, --list PATTERN or
// --list=PATTERN.
type Optional struct {
	Set   bool // the flag was given
	Value string
}

// Decode takes the value that follows the flag, if one does.
func (o *Optional) Decode(ctx *kong.DecodeContext) error {
	o.Set, o.Value = true, ""
	if !ctx.Scan.Peek().IsValue() {
		return nil
	}
	return ctx.Scan.PopValueInto("value", &o.Value)
}

// parse fills the struct that c.Flags points to. It returns done if only help was asked for, which then has been
// printed on stdout. Errors count as usage errors.
//
// Traps: a slice flag splits its value at commas unless tagged sep:"none"; a field whose type is an integer takes 010
// for octal, so that flags use Number; an argument tagged passthrough swallows the "--" and any unknown flag.
func parse(c Command, args []string, stdout io.Writer) (done bool, err error) {
	parser, err := kong.New(c.Flags,
		kong.Name(c.Name),
		kong.Description(c.Summary),
		// Help is all that the parser prints: everything else goes through Messages.
		kong.Writers(stdout, io.Discard),
		kong.Exit(func(int) { done = true }),
		kong.ConfigureHelp(kong.HelpOptions{NoExpandSubcommands: true, WrapUpperBound: 100}),
	)
	if err != nil {
		return false, fmt.Errorf("flags of %s: %w", c.Name, err)
	}
	if _, err = parser.Parse(args); done {
		return true, nil
	}
	if err == nil {
		return false, nil
	}
	if file, ok := strings.CutPrefix(err.Error(), "unexpected argument "); ok && c.Rule == Filter {
		return false, WithHint(&usageError{err}, "%s < %s", c.Name, file)
	}
	return false, WithHint(&usageError{err}, "%s --help", c.Name)
}

// reset gives the flags struct its zero value, so that a Command can be run more than once in one process.
func reset(flags any) {
	v := reflect.ValueOf(flags).Elem()
	v.Set(reflect.Zero(v.Type()))
}
