package perfabi

import (
	"errors"
	"reflect"
	"strings"
	"testing"
)

func TestParseHit(t *testing.T) {
	comm := "worker\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
	code := strings.Repeat("0123456789", HitCodeSize/10)
	const flags = HitValueValid | HitRegsValid | HitChildValid | HitKernel
	regs := strings.Repeat("registers 16 of ", GeneralBytes/16)
	payload := record(t, 0, 0, uint32(3), uint32(flags), uint64(0x601040), uint64(42), uint64(0x400510), uint64(1),
		comm, uint64(0x77), uint32(5), uint32(70), code, regs, "appended")[HeaderSize:]
	whole := Hit{Slot: 3, Flags: flags, Addr: 0x601040, Value: 42, UserIP: 0x400510, Syscall: 1,
		Comm: []byte(comm), Child: 0x77, CodeAt: 5, Code: []byte(code[5:75]), Regs: Words(regs)}
	bare := whole
	bare.Regs = nil
	for n, want := range map[int]Hit{HitSizeBare: bare, HitSize - 1: bare, HitSize: whole, len(payload): whole} {
		got := Hit{Regs: Words("old")}
		if err := got.Parse(payload[:n]); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%d bytes: got %+v, %v", n, got, err)
		}
	}
	for n := range HitSizeBare {
		var e *Error
		if err := new(Hit).Parse(payload[:n]); !errors.As(err, &e) || e.Needed != HitSizeBare || e.Available != uint64(n) {
			t.Errorf("%d bytes: got %v", n, err)
		}
	}
	payload[HitFlagsOff] &^= HitRegsValid
	var got Hit
	if err := got.Parse(payload); err != nil || got.Regs != nil {
		t.Errorf("without registers: got %+v, %v", got, err)
	}
}

// TestParseHitWithTooMuchCode has lengths of the code that lead out of its place.
func TestParseHitWithTooMuchCode(t *testing.T) {
	for _, test := range []struct{ at, n uint32 }{{0, HitCodeSize + 1}, {HitCodeSize, 1}, {1, HitCodeSize}, {^uint32(0), ^uint32(0)}} {
		payload := record(t, 0, 0, make([]byte, HitCodeAtOff), test.at, test.n, make([]byte, HitCodeSize))[HeaderSize:]
		var e *Error
		if err := new(Hit).Parse(payload); !errors.As(err, &e) || e.Field != "hit code" {
			t.Errorf("%+v: got %v", test, err)
		}
	}
}
