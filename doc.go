// Package xw answers "who writes this variable?" for a running Linux program, by hardware watchpoints and without
// stopping it. It is four commands that stand in a pipe, in cmd; README.md shows their use and FORMAT.md what goes
// through the pipe. This package has no code: its tests are those of the whole.
package xw
