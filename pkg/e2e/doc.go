// Package e2e tests the four commands together, as binaries, on live programs whose every access is known: what the report
// says is held against what the program did and against what the kernel counted for somebody else.
package e2e
