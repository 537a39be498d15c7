package perfabi

// Lost is a PERF_RECORD_LOST: records that found no room in a ring, told when the next one was stored.
type Lost struct {
	Event    uint64 // id of the event that lost them
	Lost     uint64
	SampleID SampleIDFields
}

// Decode reads rec as Sample.Decode does.
func (r *Lost) Decode(rec []byte, l *Layout) error {
	_, f := openBody(rec, l, &r.SampleID)
	r.Event = f.u64("id")
	r.Lost = f.u64("lost")
	return f.end()
}

// LostSamples is a PERF_RECORD_LOST_SAMPLES: samples that the event could not make.
type LostSamples struct {
	Lost     uint64
	SampleID SampleIDFields
}

// Decode reads rec as Sample.Decode does.
func (r *LostSamples) Decode(rec []byte, l *Layout) error {
	_, f := openBody(rec, l, &r.SampleID)
	r.Lost = f.u64("lost")
	return f.end()
}

// Comm is a PERF_RECORD_COMM: the new name of a thread.
type Comm struct {
	PID      uint32
	TID      uint32
	Exec     bool   // MiscCommExec: the name comes from an exec
	Comm     []byte // without the padding
	SampleID SampleIDFields
}

// Decode reads rec as Sample.Decode does.
func (r *Comm) Decode(rec []byte, l *Layout) error {
	h, f := openBody(rec, l, &r.SampleID)
	r.Exec = h.Misc&MiscCommExec != 0
	r.PID, r.TID = f.u32Pair(true, "tid")
	r.Comm = f.cString("comm")
	return f.end()
}

// Task is a PERF_RECORD_FORK or PERF_RECORD_EXIT.
type Task struct {
	PID      uint32
	PPID     uint32
	TID      uint32
	PTID     uint32
	Time     uint64 // ns of the event's clock
	SampleID SampleIDFields
}

// Decode reads rec as Sample.Decode does.
func (r *Task) Decode(rec []byte, l *Layout) error {
	_, f := openBody(rec, l, &r.SampleID)
	r.PID, r.PPID = f.u32Pair(true, "pid")
	r.TID, r.PTID = f.u32Pair(true, "tid")
	r.Time = f.u64("time")
	return f.end()
}

// Throttle is a PERF_RECORD_THROTTLE or PERF_RECORD_UNTHROTTLE: the kernel stopped or resumed sampling.
type Throttle struct {
	Time     uint64 // ns of the event's clock
	ID       uint64 // id of the event
	StreamID uint64
	SampleID SampleIDFields
}

// Decode reads rec as Sample.Decode does.
func (r *Throttle) Decode(rec []byte, l *Layout) error {
	_, f := openBody(rec, l, &r.SampleID)
	r.Time = f.u64("time")
	r.ID = f.u64("id")
	r.StreamID = f.u64("stream_id")
	return f.end()
}

// Mmap2 is a PERF_RECORD_MMAP2: a new mapping. It has either the file's build id or its device and inode.
type Mmap2 struct {
	PID             uint32
	TID             uint32
	Addr            uint64
	Len             uint64
	Offset          uint64 // bytes into the file
	Major           uint32 // device; zero with a build id
	Minor           uint32
	Inode           uint64
	InodeGeneration uint64
	BuildID         []byte // MiscMmapBuildID, 1 to 20 bytes; else nil
	Prot            uint32 // PROT_READ 1, PROT_WRITE 2, PROT_EXEC 4
	Flags           uint32 // MAP_ bits
	Filename        []byte // without the padding
	SampleID        SampleIDFields
}

// Decode reads rec as Sample.Decode does.
func (r *Mmap2) Decode(rec []byte, l *Layout) error {
	h, f := openBody(rec, l, &r.SampleID)
	r.PID, r.TID = f.u32Pair(true, "tid")
	r.Addr = f.u64("addr")
	r.Len = f.u64("len")
	r.Offset = f.u64("pgoff")
	r.decodeFile(&f, h.Misc&MiscMmapBuildID != 0)
	r.Prot, r.Flags = f.u32Pair(true, "prot")
	r.Filename = f.cString("filename")
	return f.end()
}

// decodeFile reads the union of device, inode and build id, which is 24 bytes either way.
func (r *Mmap2) decodeFile(f *fields, buildID bool) {
	r.Major, r.Minor, r.Inode, r.InodeGeneration, r.BuildID = 0, 0, 0, 0, nil
	if !buildID {
		r.Major, r.Minor = f.u32Pair(true, "maj")
		r.Inode = f.u64("ino")
		r.InodeGeneration = f.u64("ino_generation")
		return
	}
	b := f.take(24, "build_id")
	if b == nil {
		return
	}
	if b[0] == 0 || b[0] > 20 {
		f.fail("build_id", "has an impossible size")
		return
	}
	r.BuildID = b[4 : 4+b[0]]
}
