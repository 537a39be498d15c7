package perfabi

import (
	"errors"
	"reflect"
	"strings"
	"testing"
)

func TestParseHit(t *testing.T) {
	comm := "worker\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
	far := strings.Repeat("far from it.", 4)
	code := "0123456789abcdefghijklmnopqrstuv"
	const flags = HitValueValid | HitKernel | HitChildValid | HitCodeFar
	payload := record(t, 0, 0, uint32(3), uint32(flags), uint64(0x601040), uint64(42), uint64(0x400510), uint64(1),
		comm, code, uint64(0x77), far, "appended")[HeaderSize:]
	whole := Hit{Slot: 3, Flags: flags, Addr: 0x601040, Value: 42, UserIP: 0x400510, Syscall: 1,
		Comm: []byte(comm), Code: []byte(code), Child: 0x77, Far: []byte(far)}
	second := whole
	second.Flags, second.Far = flags&^HitCodeFar, nil
	first := second
	first.Flags, first.Child = HitValueValid|HitKernel, 0
	for n, want := range map[int]Hit{hitFirst: first, HitFarOff - 1: first, HitFarOff: second, HitSize - 1: second,
		HitSize: whole, len(payload): whole} {
		if got, err := ParseHit(payload[:n]); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%d bytes: got %+v, %v", n, got, err)
		}
	}
	for n := range hitFirst {
		var e *Error
		if _, err := ParseHit(payload[:n]); !errors.As(err, &e) || e.Needed != hitFirst || e.Available != uint64(n) {
			t.Errorf("%d bytes: got %v", n, err)
		}
	}
}
