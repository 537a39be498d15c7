package proc

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
)

// stat is the part of /proc/PID/stat that is used here.
type stat struct {
	comm  string
	state byte
	flags uint64 // PF_* of include/linux/sched.h
	start uint64 // clock ticks of CLOCK_BOOTTIME
}

const pfKthread = 0x00200000

// gone reports whether the task runs no more: its memory has been given up.
func (s stat) gone() bool { return s.state == 'Z' || s.state == 'X' || s.state == 'x' }

// parseStat reads a stat line of proc_pid_stat(5). The name stands in parentheses and may itself hold any byte, so its end
// is the last closing one.
func parseStat(b []byte) (stat, error) {
	open, end := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')')
	if open < 0 || end < open {
		return stat{}, fmt.Errorf("no command name in %q", b)
	}
	fields := strings.Fields(string(b[end+1:]))
	const state, flags, start = 0, 6, 19 // fields 3, 9 and 22 of the whole line
	if len(fields) <= start || len(fields[state]) != 1 {
		return stat{}, fmt.Errorf("too few fields in %q", b)
	}
	s := stat{comm: string(b[open+1 : end]), state: fields[state][0]}
	var err error
	if s.flags, err = strconv.ParseUint(fields[flags], 10, 64); err != nil {
		return stat{}, fmt.Errorf("flags: %w", err)
	}
	if s.start, err = strconv.ParseUint(fields[start], 10, 64); err != nil {
		return stat{}, fmt.Errorf("start time: %w", err)
	}
	return s, nil
}

// status is /proc/PID/status as its keys and values.
type status map[string]string

func parseStatus(b []byte) status {
	s := status{}
	for line := range strings.Lines(string(b)) {
		if key, value, ok := strings.Cut(strings.TrimSuffix(line, "\n"), ":"); ok {
			s[key] = strings.TrimSpace(value)
		}
	}
	return s
}

// num is the i-th number of a key's value, the last for i < 0.
func (s status) num(key string, i int) (int, error) {
	fields := strings.Fields(s[key])
	if i < 0 {
		i = len(fields) - 1
	}
	if i < 0 || i >= len(fields) {
		return 0, fmt.Errorf("no %s in status", key)
	}
	n, err := strconv.Atoi(fields[i])
	if err != nil {
		return 0, fmt.Errorf("%s in status: %w", key, err)
	}
	return n, nil
}

// parseMaps reads all of /proc/PID/maps.
func parseMaps(b []byte) ([]Mapping, error) {
	var maps []Mapping
	for line := range strings.Lines(string(b)) {
		m, err := parseMapping(strings.TrimSuffix(line, "\n"))
		if err != nil {
			return nil, err
		}
		maps = append(maps, m)
	}
	return maps, nil
}

// parseMapping reads one line as show_map_vma writes it: five columns, then the name after blanks.
func parseMapping(line string) (Mapping, error) {
	var m Mapping
	var cols [5]string
	rest := line
	for i := range cols {
		cols[i], rest, _ = strings.Cut(rest, " ")
	}
	bad := func(what string, err error) (Mapping, error) {
		return Mapping{}, fmt.Errorf("maps line %q: %s: %w", line, what, err)
	}
	start, end, _ := strings.Cut(cols[0], "-")
	var err error
	if m.Start, err = strconv.ParseUint(start, 16, 64); err != nil {
		return bad("start", err)
	}
	if m.End, err = strconv.ParseUint(end, 16, 64); err != nil {
		return bad("end", err)
	}
	if m.Offset, err = strconv.ParseUint(cols[2], 16, 64); err != nil {
		return bad("offset", err)
	}
	if m.Dev, err = parseDev(cols[3]); err != nil {
		return bad("device", err)
	}
	if m.Inode, err = strconv.ParseUint(cols[4], 10, 64); err != nil {
		return bad("inode", err)
	}
	for i, c := range []byte("rwx") {
		if i < len(cols[1]) && cols[1][i] == c {
			m.Prot |= 1 << i
		}
	}
	m.Shared = strings.HasSuffix(cols[1], "s")
	m.Path = strings.TrimLeft(rest, " ")
	if m.Inode != 0 {
		// The kernel escapes the newline alone (seq_path with "\n"): another backslash is part of the name.
		m.Path = strings.ReplaceAll(m.Path, `\012`, "\n")
		m.Path, m.Deleted = trimDeleted(m.Path)
	}
	return m, nil
}

// parseDev reads MAJOR:MINOR in hex into the form of st_dev.
func parseDev(s string) (uint64, error) {
	major, minor, _ := strings.Cut(s, ":")
	maj, err := strconv.ParseUint(major, 16, 32)
	if err != nil {
		return 0, err
	}
	mnr, err := strconv.ParseUint(minor, 16, 32)
	if err != nil {
		return 0, err
	}
	return mkdev(maj, mnr), nil
}

// mkdev packs a device number as makedev(3) of glibc does.
func mkdev(major, minor uint64) uint64 {
	return major&0xfffff000<<32 | major&0xfff<<8 | minor&0xffffff00<<12 | minor&0xff
}

// parseArgv splits /proc/PID/cmdline. A program that wrote its own title there may leave no NUL at all.
func parseArgv(b []byte) []string {
	b = bytes.TrimRight(b, "\x00")
	if len(b) == 0 {
		return nil
	}
	return strings.Split(string(b), "\x00")
}

// parseAuxv reads pairs of words of the process's own size up to AT_NULL.
func parseAuxv(b []byte, word int) map[uint64]uint64 {
	auxv := map[uint64]uint64{}
	next := func() uint64 {
		var w [8]byte
		copy(w[:], b[:word])
		b = b[word:]
		return binary.LittleEndian.Uint64(w[:])
	}
	for len(b) >= 2*word {
		key, value := next(), next()
		if key == 0 {
			break
		}
		auxv[key] = value
	}
	return auxv
}

// trimDeleted takes off the mark that d_path appends to the name of an unlinked file. A file may bear such a name in
// earnest: whoever can look must decide.
func trimDeleted(path string) (string, bool) { return strings.CutSuffix(path, " (deleted)") }
