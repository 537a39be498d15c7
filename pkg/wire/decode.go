package wire

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/vmihailenco/msgpack/v5"
)

// headerKind is the kind of the header, and the first word of a text stream.
const headerKind = "xw"

// kindInfo is a kind with what a decoder or an encoder uses again for each record of it.
type kindInfo struct {
	Spec
	required int
	record   Record
	start    []byte // how an encoder begins it; nil before the first
}

func kindTable() map[string]*kindInfo {
	kinds := make(map[string]*kindInfo)
	for _, s := range Table() {
		kinds[s.Kind] = &kindInfo{Spec: s, required: s.required(), record: s.New()}
	}
	return kinds
}

// decoder turns the bytes of a record, which a scanner has passed, into its fields. It is the visitor of the record
// that it fills. Byte strings of a record are parts of the bytes given; the record and its other slices are used again
// for the next record of the kind.
type decoder struct {
	kinds   map[string]*kindInfo
	last    *kindInfo // of the record before: mostly that of the next one too
	unknown Unknown
	chain   []uint64 // memory of a record's u64s

	raw    []byte
	pos    int
	fields []Field
	field  int // index of the next field
	count  int // fields present
	err    error
}

func newDecoder() *decoder {
	return &decoder{kinds: kindTable(), chain: make([]uint64, 0, 128)}
}

// decode returns the record in raw. The kind is told with an error too, where it can be read.
func (d *decoder) decode(raw []byte) (Record, error) {
	kind, count, pos, err := parseStart(raw)
	if err != nil {
		return nil, err
	}
	info := d.last
	if info == nil || info.Kind != string(kind) {
		info = d.kinds[string(kind)]
	}
	if info == nil {
		if d.unknown.Name != string(kind) {
			d.unknown.Name = string(kind)
		}
		return &d.unknown, nil
	}
	if count < info.required {
		return nil, fmt.Errorf("%d fields, at least %d expected", count, info.required)
	}
	d.last, d.raw, d.pos, d.fields, d.field, d.count, d.err = info, raw, pos, info.Fields, 0, count, nil
	rec := info.record
	if info.Kind == headerKind {
		rec = info.New() // readers keep it
	}
	rec.visit(d)
	return rec, d.err
}

// parseStart reads the array's head and the kind: how many fields follow, and where.
func parseStart(raw []byte) (kind []byte, count, pos int, err error) {
	array, ok := parseHead(raw)
	if !ok || array.class != classArray || array.n == 0 {
		return nil, 0, 0, errors.New("no array that begins with a kind")
	}
	h, ok := parseHead(raw[array.size:])
	start := array.size + h.size
	if !ok || h.class != classStr || uint64(len(raw)-start) < h.n {
		return nil, 0, 0, fmt.Errorf("expected a string as the kind, found %v", h.class)
	}
	pos = start + int(h.n)
	return raw[start:pos], int(array.n) - 1, pos, nil
}

// take reads the head of the next field; ok is false when the field is absent or bad.
func (d *decoder) take(want class) (h head, ok bool) {
	f := d.field
	d.field++
	if d.err != nil || f >= d.count {
		return head{}, false
	}
	if d.raw[d.pos] == 0xc0 && d.fields[f].Nil { // nil, which a busy stream has often
		d.pos++
		return head{}, false
	}
	h, _ = parseHead(d.raw[d.pos:])
	d.pos += h.size
	if h.class == want {
		return h, true
	}
	d.fail("expected %v, found %v", want, h.class)
	return head{}, false
}

// fail notes what is wrong with the field that was taken last. Only the first failure counts.
func (d *decoder) fail(format string, args ...any) {
	if d.err == nil {
		d.err = fmt.Errorf("field %s: %w", d.fields[d.field-1].Name, fmt.Errorf(format, args...))
	}
}

// number takes an unsigned integer. The forms that writers use are read here, since most fields of a busy stream are numbers;
// take reads the same, and all others.
func (d *decoder) number() (n uint64, ok bool) {
	if d.err == nil && d.field < d.count {
		size := 1
		switch b := d.raw[d.pos:]; {
		case b[0] <= 0x7f:
			n = uint64(b[0])
		case b[0] == 0xcc:
			n, size = uint64(b[1]), 2
		case b[0] == 0xcd:
			n, size = uint64(binary.BigEndian.Uint16(b[1:])), 3
		case b[0] == 0xce:
			n, size = uint64(binary.BigEndian.Uint32(b[1:])), 5
		case b[0] == 0xcf:
			n, size = binary.BigEndian.Uint64(b[1:]), 9
		default:
			size = 0
		}
		if size > 0 {
			d.pos += size
			d.field++
			return n, true
		}
	}
	h, ok := d.take(classUint)
	return h.n, ok
}

func (d *decoder) u64(p *uint64) { *p, _ = d.number() }

func (d *decoder) u32(p *uint32) {
	n, _ := d.number()
	*p = uint32(n)
	if n > 1<<32-1 {
		d.fail("%d does not fit in 32 bits", n)
	}
}

func (d *decoder) opt(p *Opt) { p.V, p.OK = d.number() }

func (d *decoder) boolean(p *bool) {
	h, _ := d.take(classBool)
	*p = h.n == 1
}

func (d *decoder) str(p *string) {
	h, ok := d.take(classStr)
	b := d.bytes(h, ok)
	if *p != string(b) {
		*p = string(b)
	}
}

func (d *decoder) bin(p *[]byte) {
	h, ok := d.take(classBin)
	*p = d.bytes(h, ok)
	f := d.fields[d.field-1]
	switch {
	case f.Max > 0 && len(*p) > f.Max:
		d.fail("%d bytes, at most %d are allowed", len(*p), f.Max)
	case len(*p) == 0 && !f.Nil:
		*p = nil
	}
}

// bytes returns the payload after h, with no room to append to.
func (d *decoder) bytes(h head, ok bool) []byte {
	if !ok {
		return nil
	}
	start := d.pos
	d.pos += int(h.n)
	return d.raw[start:d.pos:d.pos]
}

func (d *decoder) u64s(p *[]uint64) {
	h, ok := d.take(classArray)
	if !ok {
		*p = nil
		return
	}
	d.chain = d.chain[:0]
	for i := range h.n {
		e, _ := parseHead(d.raw[d.pos:])
		d.pos += e.size
		if e.class != classUint {
			d.fail("element %d: expected %v, found %v", i, classUint, e.class)
			break
		}
		d.chain = append(d.chain, e.n)
	}
	*p = d.chain
}

func (d *decoder) doc(p any) {
	start := d.pos
	if _, ok := d.take(classMap); !ok {
		return
	}
	d.pos = skipValue(d.raw, start)
	if err := msgpack.Unmarshal(d.raw[start:d.pos], reset(p)); err != nil {
		d.fail("%w", err)
	}
	tidy(p)
}

// skipValue returns the position after the value at pos, which a scanner has passed.
func skipValue(raw []byte, pos int) int {
	for left := uint64(1); left > 0; left-- {
		h, _ := parseHead(raw[pos:])
		payload, items := h.extent()
		pos += h.size + int(payload)
		left += items
	}
	return pos
}
