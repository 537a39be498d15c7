package target

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"xw/pkg/wire"
)

func TestSplit(t *testing.T) {
	tests := []struct {
		addr, n uint64
		want    []wire.Slot
	}{
		{0x1000, 1, []wire.Slot{{Addr: 0x1000, Len: 1}}},
		{0x1000, 3, []wire.Slot{{Addr: 0x1000, Len: 2}, {Addr: 0x1002, Len: 1}}},
		{0x1001, 3, []wire.Slot{{Addr: 0x1001, Len: 1}, {Addr: 0x1002, Len: 2}}},
		{0x1004, 8, []wire.Slot{{Addr: 0x1004, Len: 4}, {Addr: 0x1008, Len: 4}}},
		{0x1000, 24, []wire.Slot{{Addr: 0x1000, Len: 8}, {Addr: 0x1008, Len: 8}, {Addr: 0x1010, Len: 8}}},
		{0x1001, 8, []wire.Slot{{Addr: 0x1001, Len: 1}, {Addr: 0x1002, Len: 2}, {Addr: 0x1004, Len: 4}, {Addr: 0x1008, Len: 1}}},
	}
	for _, tt := range tests {
		if got := split(tt.addr, tt.n); !reflect.DeepEqual(got, tt.want) {
			t.Errorf("split(%#x, %d) = %+v, want %+v", tt.addr, tt.n, got, tt.want)
		}
	}
	for addr := uint64(0x1000); addr < 0x1010; addr++ {
		for n := uint64(1); n < 70; n++ {
			if got, want := slotsFor(addr, n), uint64(len(split(addr, n))); got != want {
				t.Errorf("slotsFor(%#x, %d) = %d, want %d", addr, n, got, want)
			}
		}
	}
	if got := slotsFor(0, 1<<64-1); got != 1<<61-1+3 {
		t.Errorf("slotsFor(0, 2^64-1) = %d", got)
	}
}

func TestDemand(t *testing.T) {
	if err := checkDemand([]demand{{"a", 3, "24 bytes"}, {"b", 1, "4 bytes"}}); err != nil {
		t.Errorf("4 slots: %v", err)
	}
	err := checkDemand([]demand{{"a", 3, "24 bytes at 0x1000"}, {"hp", 2, "2 levels"}})
	var e *SlotsError
	if !errors.As(err, &e) || e.Needed != 5 || !strings.Contains(err.Error(), "5 needed, x86 has 4 per thread: a 3 (24 bytes at 0x1000), hp 2 (2 levels)") {
		t.Errorf("5 slots: %v", err)
	}
	err = checkDemand([]demand{{"a", 1 << 63, ""}, {"b", 1 << 63, ""}})
	if !errors.As(err, &e) || e.Needed != 1<<64-1 {
		t.Errorf("2^64 slots: %v", err)
	}
}
