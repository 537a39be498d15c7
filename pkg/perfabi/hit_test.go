package perfabi

import (
	"errors"
	"reflect"
	"testing"
)

func TestParseHit(t *testing.T) {
	comm := "worker\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
	code := "0123456789abcdefghijklmnopqrstuv"
	payload := record(t, 0, 0, uint32(3), uint32(HitValueValid|HitKernel), uint64(0x601040), uint64(42), uint64(0x400510), uint64(1),
		comm, code, "appended")[HeaderSize:]
	want := Hit{Slot: 3, Flags: HitValueValid | HitKernel, Addr: 0x601040, Value: 42, UserIP: 0x400510, Syscall: 1,
		Comm: []byte(comm), Code: []byte(code)}
	for _, n := range []int{HitSize, HitSize + 1, len(payload)} {
		if got, err := ParseHit(payload[:n]); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%d bytes: got %+v, %v", n, got, err)
		}
	}
	for n := range HitSize {
		var e *Error
		if _, err := ParseHit(payload[:n]); !errors.As(err, &e) || e.Needed != HitSize || e.Available != uint64(n) {
			t.Errorf("%d bytes: got %v", n, err)
		}
	}
}
