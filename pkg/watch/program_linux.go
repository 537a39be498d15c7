//go:build amd64

package watch

import (
	"fmt"

	"github.com/cilium/ebpf"
)

// States of the gate that every program looks at before it counts a hit as the session's.
const (
	gateLive    = 0
	gateStopped = 1
	gateArming  = 2
)

// tally is what one program has counted on one CPU; the order is the program's.
type tally struct {
	Hits    uint64 // runs for the target while the gate was live
	Emitted uint64 // of those, records that the ring took
	Failed  uint64 // of those, records that the ring had no room for
	Foreign uint64 // runs for a task with another memory
	Stopped uint64 // runs for the target after the gate was closed
	Early   uint64 // runs for the target before it was opened
}

// aims are the addresses at which reading is a hit: two of each slot, since one that is being moved may be at either; 0 for none.
type aims [aimsLen]uint64

const aimsLen = 2 * MaxSlots

// counters are what all programs have counted on one CPU.
type counters struct {
	Slots  [MaxSlots]tally
	Untold uint64 // failed since the last PERF_RECORD_LOST
}

// Offsets of the fields of tally and counters.
const (
	tallyHits    = 0
	tallyEmitted = 8
	tallyFailed  = 16
	tallyForeign = 24
	tallyStopped = 32
	tallyEarly   = 40
	tallySize    = 48

	countersUntold = MaxSlots * tallySize
	countersSize   = countersUntold + 8
)

// programs are the BPF programs of one session, one per slot, and the maps they share.
type programs struct {
	config  programConfig
	slots   []*ebpf.Program
	tallies *ebpf.Map // per-CPU array of one counters
	gate    *ebpf.Map // array of one u32
	aims    *ebpf.Map // array of one aims
	scratch *ebpf.Map // per-CPU array of one record with a call chain
	rings   *ebpf.Map // CPU to its ring
	hits    []*hitRing
}

// programConfig is what the programs of a session have in common.
type programConfig struct {
	memory    memory     // the target's; compared in the program and never emitted
	bits      int        // of the target's program: 64 or 32
	namespace namespace  // of the ids in samples
	offsets   offsets    // in the kernel's structures
	readsHit  bool       // some slot is an rw watchpoint
	regs      bool       // the general registers are taken
	chain     int        // the most addresses of a call chain that are taken; 0 for none
	directMap *directMap // nil where it was not found or nobody needs it
	cpus      []int
	ringSize  int // of each CPU's ring, bytes
}

// newPrograms creates the rings and the maps that the programs of a session share.
func newPrograms(c programConfig) (_ *programs, err error) {
	p := &programs{config: c}
	defer func() {
		if err != nil {
			p.close()
		}
	}()
	if p.hits, p.config.ringSize, err = openHitRings(c.cpus, c.ringSize); err != nil {
		return nil, err
	}
	cpus := uint32(c.cpus[len(c.cpus)-1] + 1)
	pattern := hitRingSpec(pageSize) // of the rings but for their size; one is made to create the map, and takes its memory
	maps := []struct {
		dst  **ebpf.Map
		spec ebpf.MapSpec
	}{
		{&p.tallies, ebpf.MapSpec{Name: "xw_tallies", Type: ebpf.PerCPUArray, KeySize: 4, ValueSize: countersSize, MaxEntries: 1}},
		{&p.gate, ebpf.MapSpec{Name: "xw_gate", Type: ebpf.Array, KeySize: 4, ValueSize: 4, MaxEntries: 1}},
		{&p.aims, ebpf.MapSpec{Name: "xw_aims", Type: ebpf.Array, KeySize: 4, ValueSize: 8 * aimsLen, MaxEntries: 1}},
		{&p.scratch, ebpf.MapSpec{Name: "xw_scratch", Type: ebpf.PerCPUArray, KeySize: 4, ValueSize: uint32(c.chainedSize()), MaxEntries: 1}},
		{&p.rings, ebpf.MapSpec{Name: "xw_rings", Type: ebpf.ArrayOfMaps, KeySize: 4, ValueSize: 4, MaxEntries: cpus,
			InnerMap: pattern}},
	}
	for _, m := range maps {
		if *m.dst, err = ebpf.NewMap(&m.spec); err != nil {
			return nil, fmt.Errorf("create BPF map %s: %w", m.spec.Name, err)
		}
	}
	for _, r := range p.hits {
		if err := p.rings.Put(uint32(r.number), uint32(r.buffer.FD())); err != nil {
			return nil, fmt.Errorf("give the ring of cpu %d to the BPF programs: %w", r.number, err)
		}
	}
	return p, p.setGate(gateArming)
}

// load assembles and loads the program of the next slot.
func (p *programs) load(s Slot) error {
	i := len(p.slots)
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "xw_hit", Type: ebpf.PerfEvent, License: "GPL", Instructions: p.assemble(i, s),
	})
	if err != nil {
		return fmt.Errorf("load BPF program of slot %d: %w", i, err)
	}
	p.slots = append(p.slots, prog)
	if !s.reads() {
		return nil
	}
	return p.aim(i, s.Addr, s.Addr)
}

// setGate opens or closes the session for all programs at once.
func (p *programs) setGate(state uint32) error {
	if err := p.gate.Put(uint32(0), state); err != nil {
		return fmt.Errorf("set the gate of the BPF programs: %w", err)
	}
	return nil
}

// aim tells the programs where a slot is, or between which two addresses it is being moved.
func (p *programs) aim(slot int, from, to uint64) error {
	var a aims
	if err := p.aims.Lookup(uint32(0), &a); err != nil {
		return fmt.Errorf("read where the BPF programs know slots to be: %w", err)
	}
	a[2*slot], a[2*slot+1] = from, to
	if err := p.aims.Put(uint32(0), a); err != nil {
		return fmt.Errorf("tell the BPF programs where slot %d is: %w", slot, err)
	}
	return nil
}

// tally sums what the program of one slot has counted on all CPUs.
func (p *programs) tally(slot int) (tally, error) {
	var perCPU []counters
	var sum tally
	if err := p.tallies.Lookup(uint32(0), &perCPU); err != nil {
		return sum, fmt.Errorf("read the counters of slot %d: %w", slot, err)
	}
	for _, c := range perCPU {
		t := c.Slots[slot]
		sum.Hits += t.Hits
		sum.Emitted += t.Emitted
		sum.Failed += t.Failed
		sum.Foreign += t.Foreign
		sum.Stopped += t.Stopped
		sum.Early += t.Early
	}
	return sum, nil
}

// close releases programs, maps and rings.
func (p *programs) close() {
	for _, prog := range p.slots {
		prog.Close()
	}
	for _, r := range p.hits {
		r.close()
	}
	for _, m := range []*ebpf.Map{p.tallies, p.gate, p.aims, p.scratch, p.rings} {
		if m != nil {
			m.Close()
		}
	}
}
