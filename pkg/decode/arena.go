package decode

// blockSize is what the arena allocates at a time: four chunks of the largest size.
const blockSize = 256 << 10

// spareBlocks is how many unused blocks are kept for the next round; the rest of a burst goes back to the runtime.
const spareBlocks = 16

// arena keeps the bytes of pending records. A block is used again when all that lies in it has been dropped.
type arena struct {
	blocks []block
	spare  []uint32 // unused blocks that have memory
	empty  []uint32 // unused blocks without
	cur    uint32   // the block that is being filled
	held   int      // bytes of the blocks in use
}

type block struct {
	buf  []byte
	live int // pieces that have not been dropped
}

// place is where bytes lie in an arena.
type place struct {
	block uint32
	off   uint32
}

// put copies b, whose memory comes back after as many calls of drop as there are pieces.
func (a *arena) put(b []byte, pieces int) place {
	if len(a.blocks) == 0 || cap(a.blocks[a.cur].buf)-len(a.blocks[a.cur].buf) < len(b) {
		a.next(len(b))
	}
	blk := &a.blocks[a.cur]
	p := place{a.cur, uint32(len(blk.buf))}
	blk.buf = append(blk.buf, b...)
	blk.live += pieces
	return p
}

// next goes on to a block with room for n bytes.
func (a *arena) next(n int) {
	if len(a.blocks) > 0 && a.blocks[a.cur].live == 0 {
		a.recycle(a.cur)
	}
	switch {
	case n <= blockSize && len(a.spare) > 0:
		a.cur, a.spare = pop(a.spare)
	case len(a.empty) > 0:
		a.cur, a.empty = pop(a.empty)
	default:
		a.cur = uint32(len(a.blocks))
		a.blocks = append(a.blocks, block{})
	}
	blk := &a.blocks[a.cur]
	if blk.buf == nil {
		blk.buf = make([]byte, 0, max(n, blockSize))
	}
	a.held += cap(blk.buf)
}

func pop(list []uint32) (uint32, []uint32) {
	last := len(list) - 1
	return list[last], list[:last]
}

// bytes are n bytes at p, valid until what lies there is dropped.
func (a *arena) bytes(p place, n uint32) []byte {
	return a.blocks[p.block].buf[p.off : p.off+n : p.off+n]
}

// drop gives up one piece of what lies at p.
func (a *arena) drop(p place) {
	blk := &a.blocks[p.block]
	blk.live--
	switch {
	case blk.live > 0:
	case p.block == a.cur:
		blk.buf = blk.buf[:0]
	default:
		a.recycle(p.block)
	}
}

// recycle takes a block out of use.
func (a *arena) recycle(i uint32) {
	blk := &a.blocks[i]
	a.held -= cap(blk.buf)
	if len(a.spare) < spareBlocks && cap(blk.buf) == blockSize {
		blk.buf = blk.buf[:0]
		a.spare = append(a.spare, i)
		return
	}
	blk.buf = nil
	a.empty = append(a.empty, i)
}
