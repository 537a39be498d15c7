package perfabi

import (
	"encoding/binary"
	"math"
	"testing"
)

// record builds a record by hand: its parts are uint8, uint16, uint32 and uint64 values, strings and byte slices.
func record(t testing.TB, typ uint32, misc uint16, parts ...any) []byte {
	t.Helper()
	b := binary.LittleEndian.AppendUint32(nil, typ)
	b = binary.LittleEndian.AppendUint16(b, misc)
	b = binary.LittleEndian.AppendUint16(b, 0)
	for _, p := range parts {
		b = appendPart(t, b, p)
	}
	if len(b) > math.MaxUint16 {
		t.Fatalf("record of %d bytes", len(b))
	}
	binary.LittleEndian.PutUint16(b[6:], uint16(len(b)))
	return b
}

func appendPart(t testing.TB, b []byte, part any) []byte {
	t.Helper()
	switch v := part.(type) {
	case uint8:
		return append(b, v)
	case uint16:
		return binary.LittleEndian.AppendUint16(b, v)
	case uint32:
		return binary.LittleEndian.AppendUint32(b, v)
	case uint64:
		return binary.LittleEndian.AppendUint64(b, v)
	case string:
		return append(b, v...)
	case []byte:
		return append(b, v...)
	case Words:
		return append(b, v...)
	}
	t.Fatalf("part of type %T", part)
	return nil
}

// resize returns a copy of rec cut or zero-extended to n bytes, its header agreeing.
func resize(rec []byte, n int) []byte {
	b := make([]byte, n)
	copy(b, rec)
	binary.LittleEndian.PutUint16(b[6:], uint16(n))
	return b
}

func words(vs ...uint64) Words {
	var w Words
	for _, v := range vs {
		w = binary.LittleEndian.AppendUint64(w, v)
	}
	return w
}
