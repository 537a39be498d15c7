package target

import (
	"fmt"
	"strings"
)

// place is PLACE taken apart as far as that can be done without the process. Whether text before a sign is a name or
// part of one is only known there: lib-2+0x10 is an offset in lib-2.
type place struct {
	address  bool
	addr     uint64    // of an address, offsets included
	module   string    // before '!'; "" if there is none
	readings []reading // of a symbol or module, the likelier first
}

// reading is one way to understand the text after MODULE '!'.
type reading struct {
	base   string
	offset uint64 // sum of the offsets, modulo 2^64
	symbol bool   // base may be a symbol
	file   bool   // base may be a module, the offset then is an ELF address
}

func parsePlace(s string) (place, error) {
	module, name := cutModule(s)
	switch {
	case s == "":
		return place{}, fmt.Errorf("nothing to watch")
	case module == "" && name != s:
		return place{}, fmt.Errorf("no module before the exclamation mark")
	case name == "":
		return place{}, fmt.Errorf("no symbol after the exclamation mark")
	}
	terms := cutTerms(name)
	base := terms[len(terms)-1].base
	if err := checkBase(base); err != nil {
		return place{}, err
	}
	if module == "" && isDigits(base) {
		return addressPlace(base, terms)
	}
	p := place{module: module}
	if len(terms) > 1 {
		p.readings = append(p.readings, reading{base: terms[1].base, offset: terms[1].sum, symbol: true, file: module == "" && terms[1].plus})
	}
	if len(terms) > 2 && module == "" && terms[2].plus {
		p.readings = append(p.readings, reading{base: terms[2].base, offset: terms[2].sum, file: true})
	}
	p.readings = append(p.readings, reading{base: name, symbol: true})
	return p, nil
}

// checkBase refuses text that stopped short of a number or a name.
func checkBase(base string) error {
	last := base[len(base)-1]
	if _, err := parseNumber(base[1:]); err == nil && (base[0] == '+' || base[0] == '-') {
		return fmt.Errorf("nothing before the offset %q", base)
	}
	switch {
	case last == ':':
		return fmt.Errorf("nothing after the last colon of %q", base)
	case (last == '+' || last == '-') && !strings.HasSuffix(base, "++") && !strings.Contains(base, "operator"):
		return fmt.Errorf("no number after %q", base)
	}
	return nil
}

func addressPlace(base string, terms []term) (place, error) {
	if _, hex := cutHexPrefix(base); !hex {
		return place{}, fmt.Errorf("%q is neither an address nor a symbol: an address starts with 0x", base)
	}
	addr, err := parseNumber(base)
	if err != nil {
		return place{}, fmt.Errorf("address %w", err)
	}
	if len(terms) > 2 {
		return place{}, fmt.Errorf("%d offsets after the address: one may come", len(terms)-1)
	}
	return place{address: true, addr: addr + terms[len(terms)-1].sum}, nil
}

// cutModule cuts at the last '!' that does not belong to C++'s operator! or operator!=.
func cutModule(s string) (module, rest string) {
	for i := len(s) - 1; i >= 0; i-- {
		if s[i] == '!' && !strings.HasSuffix(s[:i], "operator") {
			return s[:i], s[i+1:]
		}
	}
	return "", s
}

// term is a place with some offsets taken from its end.
type term struct {
	base string
	sum  uint64 // of the offsets taken, modulo 2^64
	plus bool   // the one taken last, next to base, had a plus
}

// cutTerms takes trailing offsets off, one more for each element; the first element has none taken.
func cutTerms(s string) []term {
	terms := []term{{base: s}}
	for {
		last := terms[len(terms)-1]
		i := strings.LastIndexAny(last.base, "+-")
		if i <= 0 {
			return terms
		}
		n, err := parseNumber(last.base[i+1:])
		if err != nil {
			return terms
		}
		plus := last.base[i] == '+'
		if !plus {
			n = -n
		}
		terms = append(terms, term{base: last.base[:i], sum: last.sum + n, plus: plus})
	}
}
