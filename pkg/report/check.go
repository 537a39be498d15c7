package report

import (
	"fmt"

	"xw/pkg/wire"
)

// slotState is what is known of one slot of a watch.
type slotState struct {
	hits    uint64
	value   wire.Opt // what stands there as far as hits and checks have shown
	since   uint64   // when that was shown
	run     run
	checks  int
	decided bool // at the latest check it was known whether something else had written the bytes
	recent  [4]recentHit
}

// recentHit is one of the last hits of a slot.
type recentHit struct {
	time  uint64
	cpu   uint32
	value wire.Opt
}

// overtaking is how far apart two hits are, in ns, that may stand in another order than they stored, or than their values
// were read: on one CPU the value is read, and by the time that the hit has its time another CPU has stored, read and got
// its own. Where two threads add to one word without a pause 22 % of the hits read the same as the one before, all but a
// hundredth of them less than 10 us after it; a CPU that is a guest's can be taken away in between.
const overtaking = 1e6

// run is a row of hits that all read the same value.
type run struct {
	from    uint64   // time of the first
	cpus    []uint64 // bits of the CPUs that they were on
	checked bool     // the value was found there while no hit came
}

// maxCPUs is the most that the kernel can be built for on x86 (NR_CPUS_RANGE_END in arch/x86/Kconfig).
const maxCPUs = 8192

func (r *run) begin(time uint64, checked bool) {
	r.from, r.checked = time, checked
	clear(r.cpus)
}

// add puts a CPU into the row and tells whether it was in it.
func (r *run) add(cpu uint32) bool {
	word, bit := int(cpu%maxCPUs/64), uint64(1)<<(cpu%64)
	for len(r.cpus) <= word {
		r.cpus = append(r.cpus, 0)
	}
	was := r.cpus[word]&bit != 0
	r.cpus[word] |= bit
	return was
}

// hit takes a hit of the slot and returns what stood there before, if that is known. If the hit before read the same value
// on another CPU, it may have read what this one had stored already. It did not if a hit on the CPU of this one had read
// the value before, or if it has stood there for long.
func (s *slotState) hit(r *wire.Sample) (old wire.Opt) {
	old = s.value
	if r.Value != old {
		s.run.begin(r.Time, false)
	}
	if was := s.run.add(r.CPU); !was && !s.run.checked && r.Value == old && r.Time < s.run.from+overtaking {
		old = wire.Opt{}
	}
	s.recent[s.hits%uint64(len(s.recent))] = recentHit{r.Time, r.CPU, r.Value}
	s.hits++
	s.value, s.since = r.Value, r.Time
	return old
}

// overtaken tells whether v may be the value that the last hits left, although it is not that of the last one.
func (s *slotState) overtaken(v wire.Opt) bool {
	if s.hits == 0 {
		return false
	}
	last := &s.recent[(s.hits-1)%uint64(len(s.recent))]
	for i := range s.recent {
		if r := &s.recent[i]; r.value == v && r.cpu != last.cpu && last.time-r.time < overtaking {
			return true
		}
	}
	return false
}

// check takes what a slot held while no hit came. If the samples until then are all that there were, the bytes must be
// those that the last of them left, or that the check before found.
func (m *Model) check(w *watch, r *wire.Check) {
	s := &w.slots[w.slotAt(r.Addr)]
	s.checks++
	s.decided = false
	if !r.Hits.OK || !r.Value.OK || s.hits != r.Hits.V {
		return
	}
	if s.value.OK && s.value != r.Value {
		if s.overtaken(r.Value) {
			return
		}
		w.changed = true
		m.gaps.add(Gap{Kind: gapChangedWithoutHit, Watch: num(w.id), FromNS: num(s.since), ToNS: num(r.Time),
			Detail: Text(fmt.Sprintf("%s stands there, and what was seen last is %s: %s can do this",
				Hex(r.Value), Hex(s.value), m.hitless()))})
	}
	// What was not known before, since the last hit came without its value or hits went missing, cannot be compared.
	s.decided = s.value.OK || s.checks == 1 && s.hits == 0
	s.run.begin(r.Time, true)
	s.value, s.since = r.Value, r.Time
}

// hitless names what changes memory without a hit.
func (m *Model) hitless() string {
	text := "another process (process_vm_writev, /proc/PID/mem, ptrace), another mapping of the page, or a device"
	if m.session.Kernel == "off" {
		text = "a system call of the target, " + text
	}
	return text
}

// changedWithoutHit tells whether the watched bytes were changed by something that made no hit, if that is known: all
// slots were looked at when watching began and before it ended.
func (w *watch) changedWithoutHit() *bool {
	changed := w.changed
	if !changed && w.unchecked {
		return nil
	}
	for i := range w.slots {
		if !changed && (w.slots[i].checks < 2 || !w.slots[i].decided) {
			return nil
		}
	}
	return &changed
}
