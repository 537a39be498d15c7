package watch

import (
	"errors"
	"testing"
)

func TestChooseScope(t *testing.T) {
	denied := errors.New("permission denied")
	for _, test := range []struct {
		name           string
		noBPF          string
		cpu            error
		chains         bool
		others, hidden int
		othersErr      error
		scope, reason  string
	}{
		{name: "all permitted", scope: "cpu", reason: "permitted, and no other process has the addresses mapped"},
		{name: "others unreadable", hidden: 3, scope: "cpu", reason: "permitted, and no other process whose mappings can be read has the addresses mapped (3 cannot be read)"},
		{name: "mapped by another", others: 1, scope: "inherit", reason: "another process has the watched addresses mapped and would pay for their own accesses in scope cpu"},
		{name: "mapped elsewhere", others: 2, scope: "inherit", reason: "2 other processes have the watched addresses mapped and would pay for their own accesses in scope cpu"},
		{name: "mapped elsewhere, chains", others: 2, chains: true, scope: "cpu", reason: "chains: one ioctl per CPU moves a watch, without a race with new threads"},
		{name: "no BPF", noBPF: "asked for", scope: "inherit", reason: "scope cpu needs BPF to tell whose hit it is: asked for"},
		{name: "no BPF, chains", noBPF: "asked for", chains: true, scope: "inherit", reason: "scope cpu needs BPF to tell whose hit it is: asked for"},
		{name: "cpu denied", cpu: denied, scope: "inherit", reason: "scope cpu is not permitted: permission denied"},
		{name: "cpu denied, chains", cpu: denied, chains: true, scope: "inherit", reason: "scope cpu is not permitted: permission denied"},
		{name: "others unknown", othersErr: denied, scope: "inherit", reason: "who else has the addresses mapped is unknown: permission denied"},
	} {
		t.Run(test.name, func(t *testing.T) {
			scope, reason := chooseScope(scopeFacts{
				noBPF: test.noBPF, mayWatchCPU: func() error { return test.cpu }, chains: test.chains,
				others: func() (int, int, error) { return test.others, test.hidden, test.othersErr },
			})
			if scope != test.scope || reason != test.reason {
				t.Errorf("got %s: %s\nwant %s: %s", scope, reason, test.scope, test.reason)
			}
		})
	}
}
