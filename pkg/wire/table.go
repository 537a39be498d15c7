package wire

// Type is how a field stands on the wire.
type Type int

// Types of fields.
const (
	Uint   Type = iota // unsigned integer
	Bool               // boolean
	String             // UTF-8 string
	Bin                // byte string
	Uints              // array of unsigned integers
	Doc                // map
)

// String names the type as FORMAT.md does.
func (t Type) String() string {
	return [...]string{"uint", "bool", "str", "bin", "uints", "map"}[t]
}

// Field describes one field of a record kind.
type Field struct {
	Name  string
	Type  Type
	Nil   bool // may be nil; at the end of the array it may also be missing
	Hex   bool // an address, value or mask: hex in the text twin and in JSON
	Added bool // appended after the kind's first version: 0 where an older writer leaves it out
	Max   int  // bytes at most, for a Bin with a limit below that of its record
}

// Spec describes one record kind: the single table that reader, writer, text twin and FORMAT.md follow.
type Spec struct {
	Kind    string
	Streams []string // streams it appears in
	New     func() Record
	Fields  []Field
}

// required is how many fields a record of this kind has at least.
func (s *Spec) required() int {
	n := len(s.Fields)
	for n > 0 && (s.Fields[n-1].Nil || s.Fields[n-1].Added) {
		n--
	}
	return n
}

// SampleFields returns the names of a sample's fields after the kind, for the header of an events stream.
func SampleFields() []string {
	var names []string
	for _, s := range Table() {
		if s.Kind == "sample" {
			for _, f := range s.Fields {
				names = append(names, f.Name)
			}
		}
	}
	return names
}

func u(name string) Field      { return Field{Name: name, Type: Uint} }
func uNil(name string) Field   { return Field{Name: name, Type: Uint, Nil: true} }
func hexF(name string) Field   { return Field{Name: name, Type: Uint, Hex: true} }
func hexNil(name string) Field { return Field{Name: name, Type: Uint, Hex: true, Nil: true} }
func str(name string) Field    { return Field{Name: name, Type: String} }
func bin(name string) Field    { return Field{Name: name, Type: Bin} }
func binN(name string) Field   { return Field{Name: name, Type: Bin, Nil: true} }
func boolF(name string) Field  { return Field{Name: name, Type: Bool} }
func doc(name string) Field    { return Field{Name: name, Type: Doc} }
func added(name string) Field  { return Field{Name: name, Type: Uint, Added: true} }

// Table lists every record kind in the order of FORMAT.md.
func Table() []Spec {
	raw, events, control := []string{Raw}, []string{Events}, []string{Control}
	both, all := []string{Raw, Events}, []string{Raw, Events, Control}
	return []Spec{
		{headerKind, all, func() Record { return new(Header) }, []Field{u("version"), str("stream"), doc("session")}},
		{"source", raw, func() Record { return new(Source) }, []Field{str("role"), uNil("watch"), uNil("slot"),
			hexF("sample_type"), hexF("regs_user"), hexF("regs_intr"), bin("ids")}},
		{"map", raw, func() Record { return new(Map) }, []Field{u("pid"), hexF("start"), hexF("end"), hexF("offset"),
			str("path"), binN("build_id"), u("prot")}},
		{"chunk", raw, func() Record { return new(Chunk) }, []Field{u("cpu"),
			{Name: "bin", Type: Bin, Max: MaxChunk}}},
		{"round", raw, func() Record { return new(Round) }, []Field{u("t")}},
		{"thread", both, func() Record { return new(Thread) }, []Field{u("pid"), u("tid"), u("birth"), str("comm")}},
		{"bound", both, func() Record { return new(Bound) }, []Field{u("time"), u("watch"), u("generation"), hexNil("addr"),
			u("errno"), hexNil("value"), u("start")}},
		{"control", both, func() Record { return new(ControlRecord) }, []Field{u("time"), str("reason"), bin("bin")}},
		{"counts", both, func() Record { return new(Counts) }, []Field{u("time"), u("watch"), u("counted"), u("emitted"),
			u("lost"), u("after_stop"), added("foreign"), added("missed")}},
		{"pause", both, func() Record { return new(Pause) }, []Field{u("watch"), u("from"), u("to")}},
		{"check", both, func() Record { return new(Check) }, []Field{u("time"), u("watch"), hexF("addr"), uNil("hits"),
			hexNil("value")}},
		{"gap", both, func() Record { return new(Gap) }, []Field{u("time"), str("reason"), uNil("watch"), uNil("tid"),
			uNil("count"), uNil("from"), uNil("to"), str("detail")}},
		{"note", both, func() Record { return new(Note) }, []Field{u("time"), str("text")}},
		{"sample", events, func() Record { return new(Sample) }, []Field{u("time"), u("cpu"), u("pid"), u("tid"),
			u("watch"), u("generation"), hexF("addr"), hexF("ip"), u("origin"), hexNil("value"), binN("regs"),
			{Name: "callchain", Type: Uints, Nil: true, Hex: true}, hexNil("user_ip"), uNil("syscall"), hexNil("child")}},
		{"lost", events, func() Record { return new(Lost) }, []Field{u("time"), u("cpu"), u("n")}},
		{"throttle", events, func() Record { return new(Throttle) }, []Field{u("time"), u("cpu"), uNil("watch"), boolF("on")}},
		{"malformed", events, func() Record { return new(Malformed) }, []Field{u("offset"), u("needed"), u("available"),
			str("reason"), bin("bin")}},
		{"other", events, func() Record { return new(Other) }, []Field{u("type"), u("size")}},
		{"fork", events, func() Record { return new(Fork) }, []Field{u("time"), u("pid"), u("ppid"), u("tid"), u("ptid")}},
		{"exit", events, func() Record { return new(Exit) }, []Field{u("time"), u("pid"), u("tid")}},
		{"exec", events, func() Record { return new(Exec) }, []Field{u("time"), u("pid"), u("tid"), str("comm")}},
		{"comm", events, func() Record { return new(Comm) }, []Field{u("time"), u("pid"), u("tid"), str("comm")}},
		{"mmap", events, func() Record { return new(Mmap) }, []Field{u("time"), u("pid"), u("tid"), hexF("start"), hexF("len"),
			hexF("offset"), u("prot"), u("flags"), str("path"), binN("build_id")}},
		{"code", both, func() Record { return new(Code) }, []Field{hexF("ip"), hexF("start"), bin("bin")}},
		{"rebind", events, func() Record { return new(Rebind) }, []Field{u("time"), u("watch"), u("generation"),
			hexNil("old"), hexNil("new"), u("cause_time")}},
		{"late", events, func() Record { return new(Late) }, []Field{u("cpu"), u("n")}},
		{"bind", control, func() Record { return new(Bind) }, []Field{u("watch"), u("generation"), hexF("addr"), u("cause_time")}},
		{"unbind", control, func() Record { return new(Unbind) }, []Field{u("watch"), u("generation"), u("cause_time")}},
		{"read", control, func() Record { return new(Read) }, []Field{u("watch"), u("generation")}},
		{"end", all, func() Record { return new(End) }, []Field{doc("info")}},
	}
}
