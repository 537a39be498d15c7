package report

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// How names and paths are shortened until they fit into a line of a terminal. Elsewhere they stay whole.

const ellipsis = "…"

// shortName shortens the name of a function to at most room columns, as little as need be.
func shortName(name string, room int) string {
	for _, shorten := range []func(string) string{withoutDefaults, withoutParameters, withoutArguments} {
		if utf8.RuneCountInString(name) <= room {
			return name
		}
		name = shorten(name)
	}
	return cutMiddle(name, room)
}

// withoutDefaults writes the strings and containers of C++ as people do.
func withoutDefaults(name string) string {
	const char = "std::char_traits<char>, std::allocator<char>"
	name = strings.NewReplacer("std::__cxx11::", "std::", "std::__1::", "std::", "std::__debug::", "std::").Replace(name)
	name = strings.NewReplacer(
		"std::basic_string<char, "+char+" >", "std::string",
		"std::basic_string<char, "+char+">", "std::string",
		"std::basic_string_view<char, std::char_traits<char> >", "std::string_view",
		"std::basic_string_view<char, std::char_traits<char>>", "std::string_view",
		"(anonymous namespace)::", "",
	).Replace(name)
	for _, argument := range []string{", std::allocator<", ", std::less<", ", std::hash<", ", std::equal_to<", ", std::default_delete<"} {
		for at := strings.Index(name, argument); at >= 0; at = strings.Index(name, argument) {
			end := at + closing(name[at:], len(argument)-1)
			if end < at {
				break
			}
			name = name[:at] + name[end:]
		}
	}
	return strings.ReplaceAll(name, " >", ">")
}

// closing returns the index behind the bracket that closes the one at open, -1 if there is none.
func closing(s string, open int) int {
	depth := 0
	for i := open; i < len(s); i++ {
		switch s[i] {
		case '<', '(', '[', '{':
			depth++
		case '>':
			if i > 0 && s[i-1] == '-' { // an arrow
				continue
			}
			depth--
		case ')', ']', '}':
			depth--
		}
		if depth == 0 {
			return i + 1
		}
	}
	return -1
}

// withoutParameters takes the list of parameters off, and what stands behind it.
func withoutParameters(name string) string {
	for i := 0; i < len(name); i++ {
		if i += operatorAt(name, i); i == len(name) {
			break
		}
		if !strings.ContainsRune("<([{", rune(name[i])) {
			continue
		}
		end := closing(name, i)
		switch {
		case end < 0:
			return name
		case name[i] == '(' && i > 0 && name[i-1] != '.' && !strings.HasPrefix(name[end:], "::") && !strings.HasPrefix(name[end:], "."):
			return name[:i] + offsetOf(name[end:])
		}
		i = end - 1
	}
	return name
}

// offsetOf is the +0x1c at the end of a name.
func offsetOf(name string) string {
	if at := strings.LastIndex(name, "+0x"); at >= 0 && !strings.ContainsAny(name[at:], " )") {
		return name[at:]
	}
	return ""
}

// operatorAt returns the length of the symbol at i that is the name of a C++ operator, 0 if none is.
func operatorAt(name string, i int) int {
	if !strings.HasSuffix(name[:i], "operator") {
		return 0
	}
	for _, pair := range []string{"()", "[]"} {
		if strings.HasPrefix(name[i:], pair) {
			return len(pair)
		}
	}
	return len(name[i:]) - len(strings.TrimLeft(name[i:], "<>-=+*/%&|^~!,"))
}

// withoutArguments collapses the arguments of templates and generic types.
func withoutArguments(name string) string {
	var b strings.Builder
	for i := 0; i < len(name); i++ {
		if n := operatorAt(name, i); n > 0 {
			b.WriteString(name[i : i+n])
			i += n - 1
			continue
		}
		if c := name[i]; (c == '<' || c == '[') && i > 0 && isName(name[i-1]) {
			if end := closing(name, i); end > 0 {
				b.WriteByte(c)
				b.WriteString(ellipsis)
				i = end - 1
			}
		}
		b.WriteByte(name[i])
	}
	return b.String()
}

func isName(c byte) bool {
	return c == '_' || c == ':' || unicode.IsLetter(rune(c)) || unicode.IsDigit(rune(c))
}

// cutMiddle keeps the beginning and the end of a text: more of the end, which tells more.
func cutMiddle(s string, room int) string {
	runes := []rune(s)
	switch {
	case len(runes) <= room:
		return s
	case room < 2:
		return cut(s, room)
	}
	head := (room - 1) / 3
	return string(runes[:head]) + ellipsis + string(runes[len(runes)-(room-1-head):])
}

// shortPath takes directories off the beginning of a path until it has at most room columns.
func shortPath(path string, room int) string {
	short := path
	for utf8.RuneCountInString(short) > room {
		_, rest, ok := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(short, ellipsis), "/"), "/")
		if !ok {
			return short
		}
		short = ellipsis + "/" + rest
	}
	return short
}
