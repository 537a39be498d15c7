package debuginfo

import "debug/dwarf"

// Forms of attribute values, DWARF 5 section 7.5.6, and the GNU extensions for split and shared debug files.
const (
	formAddr          = 0x01
	formBlock2        = 0x03
	formBlock4        = 0x04
	formData2         = 0x05
	formData4         = 0x06
	formData8         = 0x07
	formString        = 0x08
	formBlock         = 0x09
	formBlock1        = 0x0a
	formData1         = 0x0b
	formFlag          = 0x0c
	formSdata         = 0x0d
	formStrp          = 0x0e
	formUdata         = 0x0f
	formRefAddr       = 0x10
	formRef1          = 0x11
	formRef2          = 0x12
	formRef4          = 0x13
	formRef8          = 0x14
	formRefUdata      = 0x15
	formIndirect      = 0x16
	formSecOffset     = 0x17
	formExprloc       = 0x18
	formFlagPresent   = 0x19
	formStrx          = 0x1a
	formAddrx         = 0x1b
	formRefSup4       = 0x1c
	formStrpSup       = 0x1d
	formData16        = 0x1e
	formLineStrp      = 0x1f
	formRefSig8       = 0x20
	formImplicitConst = 0x21
	formLoclistx      = 0x22
	formRnglistx      = 0x23
	formRefSup8       = 0x24
	formStrx1         = 0x25
	formStrx2         = 0x26
	formStrx3         = 0x27
	formStrx4         = 0x28
	formAddrx1        = 0x29
	formAddrx2        = 0x2a
	formAddrx3        = 0x2b
	formAddrx4        = 0x2c
	formGNUAddrIndex  = 0x1f01
	formGNUStrIndex   = 0x1f02
	formGNURefAlt     = 0x1f20
	formGNUStrpAlt    = 0x1f21
)

// format is what the size of a form depends on.
type format struct {
	version  uint16
	addrSize uint8
	is64     bool // 64-bit DWARF
}

// offsetSize is the size of an offset into another section.
func (f format) offsetSize() int {
	if f.is64 {
		return 8
	}
	return 4
}

// Sizes of forms that are not a fixed number of bytes.
const (
	sizeLEB = -1 - iota
	sizeSLEB
	sizeString
	sizeBlock1
	sizeBlock2
	sizeBlock4
	sizeBlockLEB
	sizeIndirect
	sizeUnknown
)

// formSize returns the size of a form in bytes, or one of the constants above.
func (f format) formSize(form uint64) int {
	switch form {
	case formFlagPresent, formImplicitConst:
		return 0
	case formData1, formFlag, formRef1, formStrx1, formAddrx1:
		return 1
	case formData2, formRef2, formStrx2, formAddrx2:
		return 2
	case formStrx3, formAddrx3:
		return 3
	case formData4, formRef4, formStrx4, formAddrx4, formRefSup4:
		return 4
	case formData8, formRef8, formRefSig8, formRefSup8:
		return 8
	case formData16:
		return 16
	case formAddr:
		return int(f.addrSize)
	case formStrp, formSecOffset, formLineStrp, formStrpSup, formGNURefAlt, formGNUStrpAlt:
		return f.offsetSize()
	case formRefAddr:
		if f.version <= 2 {
			return int(f.addrSize)
		}
		return f.offsetSize()
	case formUdata, formRefUdata, formStrx, formAddrx, formLoclistx, formRnglistx, formGNUAddrIndex, formGNUStrIndex:
		return sizeLEB
	case formSdata:
		return sizeSLEB
	case formString:
		return sizeString
	case formBlock1:
		return sizeBlock1
	case formBlock2:
		return sizeBlock2
	case formBlock4:
		return sizeBlock4
	case formBlock, formExprloc:
		return sizeBlockLEB
	case formIndirect:
		return sizeIndirect
	}
	return sizeUnknown
}

// value is an attribute's value before references, indexes and strings are followed. The zero value is an absent one.
type value struct {
	form uint64
	n    uint64 // the number, address, index or offset; of a string or block the offset where it begins
}

func (v value) ok() bool { return v.form != 0 }

// readValue reads the value of one attribute.
func (f format) readValue(c *cursor, form uint64, implicit int64) value {
	if form == formImplicitConst {
		return value{form, uint64(implicit)}
	}
	switch size := f.formSize(form); size {
	case sizeLEB:
		return value{form, c.uleb()}
	case sizeSLEB:
		return value{form, uint64(c.sleb())}
	case sizeString:
		v := value{form, uint64(c.offset())}
		c.skipString()
		return v
	case sizeBlock1, sizeBlock2, sizeBlock4, sizeBlockLEB:
		return f.readBlock(c, form, size)
	case sizeIndirect:
		if form = c.uleb(); form == formIndirect || form == formImplicitConst {
			c.fail("indirect form of an indirect form")
			return value{}
		}
		return f.readValue(c, form, 0)
	case sizeUnknown:
		c.fail("unknown form")
		return value{}
	case 16:
		v := value{form, uint64(c.offset())}
		c.skip(16)
		return v
	default:
		return value{form, c.uint(size)}
	}
}

func (f format) readBlock(c *cursor, form uint64, size int) value {
	var n uint64
	switch size {
	case sizeBlock1:
		n = c.uint(1)
	case sizeBlock2:
		n = c.uint(2)
	case sizeBlock4:
		n = c.uint(4)
	default:
		n = c.uleb()
	}
	v := value{form, uint64(c.offset())}
	c.skip(n)
	return v
}

// attribute is one (name, form) pair of an abbreviation.
type attribute struct {
	name     dwarf.Attr
	form     uint64
	implicit int64
}

// abbrev says how the entries of one code are laid out.
type abbrev struct {
	tag      dwarf.Tag
	children bool
	fixed    int // bytes of all values together, or -1
	attrs    []attribute
}

// abbrevs is one abbreviation table. Compilers number the codes from 1 without a hole.
type abbrevs struct {
	dense []abbrev // code-1
	other map[uint64]abbrev
	size  int // entries and attributes read for it
}

func (t *abbrevs) get(code uint64) *abbrev {
	if code-1 < uint64(len(t.dense)) {
		return &t.dense[code-1]
	}
	if a, ok := t.other[code]; ok {
		return &a
	}
	return nil
}

// maxAttributes bounds one table; compilers stay below some thousand.
const maxAttributes = 1 << 18

// readAbbrevs reads the table at the cursor, to its end or until it has the code want, if that is not 0.
func readAbbrevs(c *cursor, f format, want uint64) *abbrevs {
	t := &abbrevs{}
	for c.err == nil {
		code := c.uleb()
		if code == 0 {
			break
		}
		a := abbrev{tag: dwarf.Tag(c.uleb()), children: c.u8() != 0}
		a.readAttributes(c, f)
		if t.size += 1 + len(a.attrs); t.size > maxAttributes {
			c.fail("abbreviation table too large")
		}
		switch {
		case want != 0 && code != want:
			continue
		case want == 0 && code == uint64(len(t.dense))+1:
			t.dense = append(t.dense, a)
			continue
		case t.other == nil:
			t.other = map[uint64]abbrev{}
		}
		t.other[code] = a
		if code == want {
			break
		}
	}
	return t
}

func (a *abbrev) readAttributes(c *cursor, f format) {
	for c.err == nil && len(a.attrs) <= maxAttributes {
		at := attribute{name: dwarf.Attr(c.uleb()), form: c.uleb()}
		if at.form == formImplicitConst {
			at.implicit = c.sleb()
		}
		if at.name == 0 && at.form == 0 {
			return
		}
		if n := f.formSize(at.form); n < 0 {
			a.fixed = -1
		} else if a.fixed >= 0 {
			a.fixed += n
		}
		a.attrs = append(a.attrs, at)
	}
}
