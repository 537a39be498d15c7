package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
)

// describeMachine names what the figures were measured on and with.
func describeMachine(ctx context.Context) []string {
	return []string{
		fmt.Sprintf("CPU: %s, %d of them, memory %s", valueIn("/proc/cpuinfo", "model name"), runtime.NumCPU(), valueIn("/proc/meminfo", "MemTotal")),
		"kernel: " + firstLine(ctx, "uname", "-sr"),
		"tools: " + strings.Join([]string{firstLine(ctx, "perf", "--version"), firstLine(ctx, "bpftrace", "--version"),
			firstLine(ctx, "gdb", "--version"), runtime.Version()}, "; "),
	}
}

// valueIn is the value of a key in a file of lines "key : value".
func valueIn(file, key string) string {
	f, err := os.Open(file)
	if err != nil {
		return "unknown"
	}
	defer f.Close()
	for scan := bufio.NewScanner(f); scan.Scan(); {
		if name, value, ok := strings.Cut(scan.Text(), ":"); ok && strings.TrimSpace(name) == key {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}

// firstLine is the first line that a program prints.
func firstLine(ctx context.Context, name string, args ...string) string {
	out, err := exec.CommandContext(ctx, name, args...).Output()
	if err != nil {
		return name + " is not installed"
	}
	line, _, _ := strings.Cut(string(out), "\n")
	return line
}
