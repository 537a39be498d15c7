package decode

import (
	"bytes"
	"strings"
	"testing"

	"xw/pkg/wire"
)

// TestLostInTheRingOfAThread takes the CPU from the record, where it has one: rings of threads have numbers of their own.
func TestLostInTheRingOfAThread(t *testing.T) {
	const stream = `xw version=1 stream="raw" session={"watches":[{"id":0,"slots":[{"addr":"0x1000","len":8}]}]}
source role="sideband" watch=nil slot=nil sample_type=0x10086 regs_user=0x0 regs_intr=0x0 ids=u64:301
chunk cpu=9 bin=u32:2,u16:0,u16:56,u64:301,u64:5,u32:7,u32:8,u64:100,u32:1,u32:0,u64:301
end info={"stop_reason":"duration"}
`
	var out bytes.Buffer
	if err := Run(wire.NewReader(strings.NewReader(stream)), wire.NewTextWriter(&out)); err != nil {
		t.Fatal(err)
	}
	if want := "lost time=100 cpu=1 n=5\n"; !strings.Contains(out.String(), want) {
		t.Errorf("got\n%s\nwant %s", out.String(), want)
	}
}
