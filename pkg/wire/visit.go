package wire

// Kind implements Record.
func (*Header) Kind() string { return headerKind }

func (r *Header) visit(v visitor) {
	v.u64(&r.Version)
	v.str(&r.Stream)
	v.doc(&r.Session)
}

// Kind implements Record.
func (*Chunk) Kind() string { return "chunk" }

func (r *Chunk) visit(v visitor) {
	v.u32(&r.CPU)
	v.bin(&r.Bin)
}

// Kind implements Record.
func (*Source) Kind() string { return "source" }

func (r *Source) visit(v visitor) {
	v.str(&r.Role)
	v.opt(&r.Watch)
	v.opt(&r.Slot)
	v.u64(&r.SampleType)
	v.u64(&r.RegsUser)
	v.u64(&r.RegsIntr)
	v.bin(&r.IDs)
}

// Kind implements Record.
func (*Round) Kind() string { return "round" }

func (r *Round) visit(v visitor) {
	v.u64(&r.T)
}

// Kind implements Record.
func (*Map) Kind() string { return "map" }

func (r *Map) visit(v visitor) {
	v.u32(&r.PID)
	v.u64(&r.Start)
	v.u64(&r.End)
	v.u64(&r.Offset)
	v.str(&r.Path)
	v.bin(&r.BuildID)
	v.u32(&r.Prot)
}

// Kind implements Record.
func (*Thread) Kind() string { return "thread" }

func (r *Thread) visit(v visitor) {
	v.u32(&r.PID)
	v.u32(&r.TID)
	v.u64(&r.Birth)
	v.str(&r.Comm)
}

// Kind implements Record.
func (*Bound) Kind() string { return "bound" }

func (r *Bound) visit(v visitor) {
	v.u64(&r.Time)
	v.u32(&r.Watch)
	v.u64(&r.Generation)
	v.opt(&r.Addr)
	v.u32(&r.Errno)
	v.opt(&r.Value)
	v.u64(&r.Start)
}

// Kind implements Record.
func (*ControlRecord) Kind() string { return "control" }

func (r *ControlRecord) visit(v visitor) {
	v.u64(&r.Time)
	v.str(&r.Reason)
	v.bin(&r.Bin)
}

// Kind implements Record.
func (*Counts) Kind() string { return "counts" }

func (r *Counts) visit(v visitor) {
	v.u64(&r.Time)
	v.u32(&r.Watch)
	v.u64(&r.Counted)
	v.u64(&r.Emitted)
	v.u64(&r.Lost)
	v.u64(&r.AfterStop)
	v.u64(&r.Foreign)
	v.u64(&r.Missed)
}

// Kind implements Record.
func (*Pause) Kind() string { return "pause" }

func (r *Pause) visit(v visitor) {
	v.u32(&r.Watch)
	v.u64(&r.From)
	v.u64(&r.To)
}

// Kind implements Record.
func (*Check) Kind() string { return "check" }

func (r *Check) visit(v visitor) {
	v.u64(&r.Time)
	v.u32(&r.Watch)
	v.u64(&r.Addr)
	v.opt(&r.Hits)
	v.opt(&r.Value)
}

// Kind implements Record.
func (*Gap) Kind() string { return "gap" }

func (r *Gap) visit(v visitor) {
	v.u64(&r.Time)
	v.str(&r.Reason)
	v.opt(&r.Watch)
	v.opt(&r.TID)
	v.opt(&r.Count)
	v.opt(&r.From)
	v.opt(&r.To)
	v.str(&r.Detail)
}

// Kind implements Record.
func (*Note) Kind() string { return "note" }

func (r *Note) visit(v visitor) {
	v.u64(&r.Time)
	v.str(&r.Text)
}

// Kind implements Record.
func (*End) Kind() string { return "end" }

func (r *End) visit(v visitor) {
	v.doc(&r.Info)
}

// Kind implements Record.
func (*Sample) Kind() string { return "sample" }

func (r *Sample) visit(v visitor) {
	v.u64(&r.Time)
	v.u32(&r.CPU)
	v.u32(&r.PID)
	v.u32(&r.TID)
	v.u32(&r.Watch)
	v.u64(&r.Generation)
	v.u64(&r.Addr)
	v.u64(&r.IP)
	v.u32(&r.Origin)
	v.opt(&r.Value)
	v.bin(&r.Regs)
	v.u64s(&r.Callchain)
	v.opt(&r.UserIP)
	v.opt(&r.Syscall)
	v.opt(&r.Child)
}

// Kind implements Record.
func (*Lost) Kind() string { return "lost" }

func (r *Lost) visit(v visitor) {
	v.u64(&r.Time)
	v.u32(&r.CPU)
	v.u64(&r.N)
}

// Kind implements Record.
func (*Throttle) Kind() string { return "throttle" }

func (r *Throttle) visit(v visitor) {
	v.u64(&r.Time)
	v.u32(&r.CPU)
	v.opt(&r.Watch)
	v.boolean(&r.On)
}

// Kind implements Record.
func (*Malformed) Kind() string { return "malformed" }

func (r *Malformed) visit(v visitor) {
	v.u64(&r.Offset)
	v.u64(&r.Needed)
	v.u64(&r.Available)
	v.str(&r.Reason)
	v.bin(&r.Bin)
}

// Kind implements Record.
func (*Other) Kind() string { return "other" }

func (r *Other) visit(v visitor) {
	v.u32(&r.Type)
	v.u32(&r.Size)
}

// Kind implements Record.
func (*Fork) Kind() string { return "fork" }

func (r *Fork) visit(v visitor) {
	v.u64(&r.Time)
	v.u32(&r.PID)
	v.u32(&r.PPID)
	v.u32(&r.TID)
	v.u32(&r.PTID)
}

// Kind implements Record.
func (*Exit) Kind() string { return "exit" }

func (r *Exit) visit(v visitor) {
	v.u64(&r.Time)
	v.u32(&r.PID)
	v.u32(&r.TID)
}

// Kind implements Record.
func (*Exec) Kind() string { return "exec" }

func (r *Exec) visit(v visitor) {
	v.u64(&r.Time)
	v.u32(&r.PID)
	v.u32(&r.TID)
	v.str(&r.Comm)
}

// Kind implements Record.
func (*Comm) Kind() string { return "comm" }

func (r *Comm) visit(v visitor) {
	v.u64(&r.Time)
	v.u32(&r.PID)
	v.u32(&r.TID)
	v.str(&r.Comm)
}

// Kind implements Record.
func (*Mmap) Kind() string { return "mmap" }

func (r *Mmap) visit(v visitor) {
	v.u64(&r.Time)
	v.u32(&r.PID)
	v.u32(&r.TID)
	v.u64(&r.Start)
	v.u64(&r.Len)
	v.u64(&r.Offset)
	v.u32(&r.Prot)
	v.u32(&r.Flags)
	v.str(&r.Path)
	v.bin(&r.BuildID)
}

// Kind implements Record.
func (*Code) Kind() string { return "code" }

func (r *Code) visit(v visitor) {
	v.u64(&r.IP)
	v.u64(&r.Start)
	v.bin(&r.Bin)
}

// Kind implements Record.
func (*Rebind) Kind() string { return "rebind" }

func (r *Rebind) visit(v visitor) {
	v.u64(&r.Time)
	v.u32(&r.Watch)
	v.u64(&r.Generation)
	v.opt(&r.Old)
	v.opt(&r.New)
	v.u64(&r.CauseTime)
}

// Kind implements Record.
func (*Late) Kind() string { return "late" }

func (r *Late) visit(v visitor) {
	v.u32(&r.CPU)
	v.u64(&r.N)
}

// Kind implements Record.
func (*Bind) Kind() string { return "bind" }

func (r *Bind) visit(v visitor) {
	v.u32(&r.Watch)
	v.u64(&r.Generation)
	v.u64(&r.Addr)
	v.u64(&r.CauseTime)
}

// Kind implements Record.
func (*Unbind) Kind() string { return "unbind" }

func (r *Unbind) visit(v visitor) {
	v.u32(&r.Watch)
	v.u64(&r.Generation)
	v.u64(&r.CauseTime)
}

// Kind implements Record.
func (*Read) Kind() string { return "read" }

func (r *Read) visit(v visitor) {
	v.u32(&r.Watch)
	v.u64(&r.Generation)
}

// Kind implements Record.
func (r *Unknown) Kind() string { return r.Name }

func (r *Unknown) visit(visitor) {}
