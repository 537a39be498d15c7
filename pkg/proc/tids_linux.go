package proc

// TIDs lists the thread ids that the task directory has now, in one pass and unsorted: see Tasks for a settled list.
func (p *Process) TIDs() ([]int, error) { return p.tids() }

// SharesMemory reports whether a task has the same memory as the process, by kcmp(2); false where that is not permitted.
func (p *Process) SharesMemory(tid int) bool { return p.sharesMemory(tid) }
