package wire

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"strconv"
)

// JSONL turns records into JSON objects, one a line: {"kind":"sample","time":...}. Names and order are the table's.
// Addresses, values and masks are hex strings ("0x601040"), counts and times numbers, bytes strings of hex digits, and
// what is absent is null. The regs of a sample are an object, name to hex string, or null.
type JSONL struct {
	dst    []byte
	regs   []string
	isRegs bool // the record has regs: a sample
	kinds  map[string]*kindInfo
	fields []Field
	field  int
}

// NewJSONL returns a JSONL for a stream whose header names regs.
func NewJSONL(regs []string) *JSONL {
	return &JSONL{regs: regs, kinds: kindTable()}
}

// Append appends r to dst as one JSON object, without a newline. Of an Unknown it is the kind alone. It allocates
// nothing but room in dst, except for strings with special characters and for the maps of the header and of the end.
func (j *JSONL) Append(dst []byte, r Record) []byte {
	j.dst = appendJSONString(append(dst, `{"kind":`...), r.Kind())
	if info := j.kinds[r.Kind()]; info != nil {
		j.fields, j.field = info.Fields, 0
		_, j.isRegs = r.(*Sample)
		r.visit(j)
	}
	dst = append(j.dst, '}')
	j.dst = nil
	return dst
}

// name appends the name of the next field.
func (j *JSONL) name() Field {
	f := j.fields[j.field]
	j.field++
	j.dst = append(append(append(j.dst, `,"`...), f.Name...), `":`...)
	return f
}

func (j *JSONL) null() { j.dst = append(j.dst, "null"...) }

func (j *JSONL) uint(f Field, v uint64) {
	if f.Hex {
		j.hex(v)
	} else {
		j.dst = strconv.AppendUint(j.dst, v, 10)
	}
}

func (j *JSONL) hex(v uint64) {
	j.dst = append(strconv.AppendUint(append(j.dst, `"0x`...), v, 16), '"')
}

func (j *JSONL) u64(p *uint64)   { j.uint(j.name(), *p) }
func (j *JSONL) u32(p *uint32)   { j.uint(j.name(), uint64(*p)) }
func (j *JSONL) boolean(p *bool) { j.name(); j.dst = strconv.AppendBool(j.dst, *p) }
func (j *JSONL) str(p *string)   { j.name(); j.dst = appendJSONString(j.dst, *p) }

func (j *JSONL) opt(p *Opt) {
	f := j.name()
	if p.OK {
		j.uint(f, p.V)
	} else {
		j.null()
	}
}

func (j *JSONL) bin(p *[]byte) {
	f := j.name()
	switch {
	case *p == nil && f.Nil:
		j.null()
	case j.isRegs && f.Name == "regs":
		j.registers(*p)
	default:
		j.dst = append(hex.AppendEncode(append(j.dst, '"'), *p), '"')
	}
}

// registers appends the words of b by name; words without a name are left out.
func (j *JSONL) registers(b []byte) {
	j.dst = append(j.dst, '{')
	for i := 0; i < len(j.regs) && 8*i+8 <= len(b); i++ {
		if i > 0 {
			j.dst = append(j.dst, ',')
		}
		j.dst = append(appendJSONString(j.dst, j.regs[i]), ':')
		j.hex(binary.LittleEndian.Uint64(b[8*i:]))
	}
	j.dst = append(j.dst, '}')
}

func (j *JSONL) u64s(p *[]uint64) {
	f := j.name()
	if *p == nil {
		j.null()
		return
	}
	j.dst = append(j.dst, '[')
	for i, v := range *p {
		if i > 0 {
			j.dst = append(j.dst, ',')
		}
		j.uint(f, v)
	}
	j.dst = append(j.dst, ']')
}

func (j *JSONL) doc(p any) {
	j.name()
	dst, err := appendDoc(j.dst, p)
	if err != nil {
		j.null()
		return
	}
	j.dst = dst
}

// appendJSONString appends s quoted. Plain ASCII, the common case, is copied; the rest is the standard library's.
func appendJSONString(dst []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			b, err := json.Marshal(s)
			if err != nil {
				return append(dst, "null"...)
			}
			return append(dst, b...)
		}
	}
	return append(append(append(dst, '"'), s...), '"')
}
