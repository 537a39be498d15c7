package wire

import "encoding/binary"

// class is the kind of a MessagePack value, told by its first byte.
type class uint8

const (
	classInvalid class = iota
	classNil
	classBool
	classUint  // also signed encodings of a number that is not negative
	classInt   // negative
	classFloat // 32 or 64 bits
	classStr
	classBin
	classArray
	classMap
	classExt
)

func (c class) String() string {
	return [...]string{"a byte that MessagePack does not use", "nil", "a boolean", "an unsigned integer",
		"a negative integer", "a float", "a string", "a byte string", "an array", "a map", "an extension"}[c]
}

// head is the start of a MessagePack value (https://github.com/msgpack/msgpack/blob/master/spec.md).
type head struct {
	class class
	size  int    // bytes of the head itself
	n     uint64 // the number, 1 for true, the elements of an array, the pairs of a map; else bytes that follow the head
}

// extent returns what follows the head: bytes that belong to the value, and values that are its elements or its keys
// and values.
func (h head) extent() (payload, items uint64) {
	switch h.class {
	case classStr, classBin, classFloat, classExt:
		return h.n, 0
	case classArray:
		return 0, h.n
	case classMap:
		return 0, 2 * h.n
	default:
		return 0, 0
	}
}

// parseHead reads the head at the start of b; ok is false when b is too short for it.
func parseHead(b []byte) (h head, ok bool) {
	if len(b) == 0 {
		return head{}, false
	}
	c := b[0]
	switch {
	case c <= 0x7f:
		return head{classUint, 1, uint64(c)}, true
	case c <= 0x8f:
		return head{classMap, 1, uint64(c & 0x0f)}, true
	case c <= 0x9f:
		return head{classArray, 1, uint64(c & 0x0f)}, true
	case c <= 0xbf:
		return head{classStr, 1, uint64(c & 0x1f)}, true
	case c >= 0xe0:
		return head{classInt, 1, 0}, true
	}
	return parseWide(b)
}

// parseWide reads a head whose first byte, 0xc0 to 0xdf, says how many bytes of operand follow it.
func parseWide(b []byte) (h head, ok bool) {
	switch c := b[0]; c {
	case 0xc0:
		return head{classNil, 1, 0}, true
	case 0xc2, 0xc3:
		return head{classBool, 1, uint64(c - 0xc2)}, true
	case 0xc4, 0xc5, 0xc6:
		return operand(b, classBin, 1<<(c-0xc4))
	case 0xc7, 0xc8, 0xc9:
		h, ok = operand(b, classExt, 1<<(c-0xc7))
		h.n++ // the extension's type
		return h, ok
	case 0xca, 0xcb:
		return head{classFloat, 1, 4 << (c - 0xca)}, true
	case 0xcc, 0xcd, 0xce, 0xcf:
		return operand(b, classUint, 1<<(c-0xcc))
	case 0xd0, 0xd1, 0xd2, 0xd3:
		return signed(b, 1<<(c-0xd0))
	case 0xd4, 0xd5, 0xd6, 0xd7, 0xd8:
		return head{classExt, 1, 1 + 1<<(c-0xd4)}, true
	case 0xd9, 0xda, 0xdb:
		return operand(b, classStr, 1<<(c-0xd9))
	case 0xdc, 0xdd:
		return operand(b, classArray, 2<<(c-0xdc))
	case 0xde, 0xdf:
		return operand(b, classMap, 2<<(c-0xde))
	default:
		return head{classInvalid, 1, 0}, true
	}
}

// operand reads the big-endian number of 1, 2, 4 or 8 bytes after the first byte of b.
func operand(b []byte, c class, width int) (head, bool) {
	if len(b) < 1+width {
		return head{}, false
	}
	h := head{class: c, size: 1 + width}
	switch width {
	case 1:
		h.n = uint64(b[1])
	case 2:
		h.n = uint64(binary.BigEndian.Uint16(b[1:]))
	case 4:
		h.n = uint64(binary.BigEndian.Uint32(b[1:]))
	default:
		h.n = binary.BigEndian.Uint64(b[1:])
	}
	return h, true
}

func signed(b []byte, width int) (head, bool) {
	h, ok := operand(b, classUint, width)
	if ok && b[1]&0x80 != 0 {
		h.class, h.n = classInt, 0
	}
	return h, ok
}
