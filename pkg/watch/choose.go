package watch

import "fmt"

// scopeFacts is what scope auto depends on. The functions are asked only when the answer matters.
type scopeFacts struct {
	noBPF       string // why there are no BPF programs; "" if there are
	mayWatchCPU func() error
	chains      bool
	others      func() (others, unreadable int, err error) // processes that have the addresses mapped
}

// chooseScope takes cpu where it is permitted and costs nobody else anything, else inherit.
func chooseScope(f scopeFacts) (scope, reason string) {
	if f.noBPF != "" {
		return "inherit", "scope cpu needs BPF to tell whose hit it is: " + f.noBPF
	}
	if err := f.mayWatchCPU(); err != nil {
		return "inherit", fmt.Sprintf("scope cpu is not permitted: %v", err)
	}
	if f.chains {
		return "cpu", "chains: one ioctl per CPU moves a watch, without a race with new threads"
	}
	others, unreadable, err := f.others()
	switch {
	case err != nil:
		return "inherit", fmt.Sprintf("who else has the addresses mapped is unknown: %v", err)
	case others > 0:
		return "inherit", fmt.Sprintf("%s the watched addresses mapped and would pay for their own accesses in scope cpu", othersHave(others))
	case unreadable > 0:
		return "cpu", fmt.Sprintf("permitted, and no other process whose mappings can be read has the addresses mapped (%d cannot be read)", unreadable)
	}
	return "cpu", "permitted, and no other process has the addresses mapped"
}

// othersHave begins a sentence about so many other processes.
func othersHave(n int) string {
	if n == 1 {
		return "another process has"
	}
	return fmt.Sprintf("%d other processes have", n)
}
