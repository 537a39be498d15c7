package insn

import "xw/pkg/wire"

// before is what the watched eight bytes hold before a case, unless it says otherwise.
const before = 0x1122334455667788

// Sentinels of registers, see sentinel.
const (
	rax = 0x1716151413121110
	rcx = 0x1817161514131211
	rdx = 0x1918171615141312
	rbx = 0x1a19181716151413
	rsi = 0x1d1c1b1a19181716
)

// toSpot is the setup of a case that has none.
const toSpot = "mov edi, offset spot"

var some = wire.Some

// liveCase is an instruction that is executed once while the eight bytes called spot, or some of them, are watched.
type liveCase struct {
	insn   string
	setup  string // code before, where the registers hold sentinels; toSpot if empty
	after  string // code after
	needs  string // flag of /proc/cpuinfo
	access string // of the watch; rw if empty
	offset int    // of the watch from spot
	length uint64 // of the watch; 8 if 0
	before uint64 // content of spot; before if 0
	// toLanding makes the address of the label LANDING in the code after the content of spot.
	toLanding bool

	status Status // Exact if empty
	op     string
	stored wire.Opt
	loaded wire.Opt
	hits   int // 1 if 0
	// storedAddress is what is stored where that is an address: "after", the instruction's end, or "spot+8".
	storedAddress string
	// adrift says that the operand's address cannot be computed from the registers.
	adrift bool
}

// stores are instructions that write and do not read.
var stores = []liveCase{
	{insn: "mov [rdi], rax", op: Write, stored: some(rax)},
	{insn: "mov [rdi], rax", access: "w", op: Write, stored: some(rax)},
	{insn: "mov [rdi], ecx", op: Write, stored: some(rcx & 0xffffffff)},
	{insn: "mov [rdi+2], dx", op: Write, stored: some(0x1312)},
	{insn: "mov [rdi+7], ah", op: Write, stored: some(0x11)},
	{insn: "mov [rdi], sil", op: Write, stored: some(0x16)},
	{insn: "mov [rdi+4], r13d", op: Write, stored: some(0x201f1e1d)},
	{insn: "mov qword ptr [rdi], -2", op: Write, stored: some(^uint64(1))},
	{insn: "mov dword ptr spot[rip], 0x12345678", op: Write, stored: some(0x12345678)},
	{insn: "mov word ptr [rdi], 0x8001", op: Write, stored: some(0x8001)},
	{insn: "mov byte ptr [rdi+rcx*8-8], 0x80", setup: toSpot + "; mov ecx, 1", op: Write, stored: some(0x80)},
	{insn: "mov qword ptr [rcx*4+spot], 5", setup: "xor ecx, ecx", op: Write, stored: some(5)},
	{insn: "movabs [spot], rax", op: Write, stored: some(rax)},
	{insn: "movabs [spot], al", op: Write, stored: some(0x10)},
	{insn: "mov [edi], eax", op: Write, stored: some(rax & 0xffffffff)},
	{insn: "mov word ptr [rdi], fs", op: Write},
	{insn: "mov gs:[8], rax", setup: "mov rdi, offset spot-8; wrgsbase rdi", needs: "fsgsbase", op: Write, stored: some(rax),
		adrift: true},
	{insn: "movnti [rdi], rax", op: Write, stored: some(rax)},
	{insn: "movbe [rdi], rax", needs: "movbe", op: Write, stored: some(0x1011121314151617)},
	{insn: "movbe [rdi+2], cx", needs: "movbe", op: Write, stored: some(0x1112)},
	{insn: "movdiri [rdi], rax", needs: "movdiri", op: Write, stored: some(rax)},
	{insn: "movdir64b rdi, [area]", needs: "movdir64b", op: Write},
	{insn: "sete [rdi]", op: Write},
	{insn: "setg [rdi+7]", access: "w", op: Write},
	{insn: "mov [rdi-4], rax", op: Write, stored: some(rax)},
	{insn: "mov [rdi+7], rax", op: Write, stored: some(rax)},
}

// stacks are instructions that use the stack.
var stacks = []liveCase{
	{insn: "push rax", setup: "mov rsp, offset spot+8", op: Write, stored: some(rax)},
	{insn: "push r12", setup: "mov rsp, offset spot+8", access: "w", op: Write, stored: some(0x232221201f1e1d1c)},
	{insn: "push rsp", setup: "mov rsp, offset spot+8", op: Write, storedAddress: "spot+8"},
	{insn: "push -3", setup: "mov rsp, offset spot+8", op: Write, stored: some(^uint64(2))},
	{insn: "push 0x12345678", setup: "mov rsp, offset spot+8", op: Write, stored: some(0x12345678)},
	{insn: "push ax", setup: "mov rsp, offset spot+8", op: Write, stored: some(0x1110)},
	{insn: "push qword ptr [rdi]", setup: toSpot + "; mov rsp, offset area+512", op: Read},
	{insn: "push qword ptr [rsp+8]", setup: "mov rsp, offset spot-8", op: Read},
	{insn: "push qword ptr [rdi]", setup: "mov rdi, offset area; mov rsp, offset spot+8", op: Write},
	{insn: "pushfq", setup: "mov rsp, offset spot+8", op: Write},
	{insn: "pop rax", setup: "mov rsp, offset spot", op: Read, loaded: some(before)},
	{insn: "pop rsp", setup: "mov rsp, offset spot", op: Read, loaded: some(before), adrift: true},
	{insn: "pop qword ptr [rdi]", setup: toSpot + "; mov rsp, offset area+512", op: Write},
	{insn: "pop qword ptr [rsp]", setup: "mov rsp, offset spot-8", op: Write},
	{insn: "popfq", setup: "mov rsp, offset spot", before: 0x202, op: Read},
	{insn: "enter 16, 0", setup: "mov rsp, offset spot+8", op: Write},
	{insn: "enter 32, 2", setup: "mov rbp, offset area+512; mov rsp, offset spot+16", op: Write},
	{insn: "leave", setup: "mov rbp, offset spot", op: Read, loaded: some(before)},
}

// updates are instructions that read and write back.
var updates = []liveCase{
	{insn: "add [rdi], rax", op: ReadWrite},
	{insn: "add dword ptr [rdi], 1", access: "w", op: ReadWrite},
	{insn: "adc [rdi], cx", op: ReadWrite},
	{insn: "sbb byte ptr [rdi+3], 7", op: ReadWrite},
	{insn: "sub qword ptr [rdi], 0x1234", op: ReadWrite},
	{insn: "xor [rdi], edx", op: ReadWrite},
	{insn: "and [rdi], rax", op: ReadWrite},
	{insn: "and qword ptr [rdi], 0", op: ReadWrite, stored: some(0)},
	{insn: "or dword ptr [rdi], -1", op: ReadWrite, stored: some(0xffffffff)},
	{insn: "or byte ptr [rdi], 0x81", op: ReadWrite},
	{insn: "inc qword ptr [rdi]", op: ReadWrite},
	{insn: "lock dec word ptr [rdi]", op: ReadWrite},
	{insn: "neg dword ptr [rdi]", op: ReadWrite},
	{insn: "not byte ptr [rdi]", op: ReadWrite},
	{insn: "shl qword ptr [rdi], 3", op: ReadWrite},
	{insn: "sar dword ptr [rdi], cl", op: ReadWrite},
	{insn: "ror byte ptr [rdi], 1", op: ReadWrite},
	{insn: "shld [rdi], rax, 5", op: ReadWrite},
	{insn: "xchg [rdi], rax", op: ReadWrite, loaded: some(before)},
	{insn: "xchg [rdi+1], cl", op: ReadWrite, loaded: some(0x77)},
	{insn: "lock xadd [rdi], eax", op: ReadWrite, loaded: some(0x55667788)},
	{insn: "lock cmpxchg [rdi], rbx", access: "w", op: ReadWrite, loaded: some(before)},
	{insn: "lock cmpxchg [rdi], ebx", setup: toSpot + "; mov eax, 0x55667788", op: ReadWrite, loaded: some(0x55667788)},
	{insn: "lock cmpxchg8b [rdi]", op: ReadWrite, loaded: some(before)},
	{insn: "lock cmpxchg16b [rdi]", op: ReadWrite},
	{insn: "lock bts dword ptr [rdi], 3", op: ReadWrite},
	{insn: "btr [rdi+16], rcx", setup: toSpot + "; mov rcx, -100", op: ReadWrite},
	{insn: "btr [rdi+16], ecx", setup: toSpot + "; mov ecx, -100", op: ReadWrite},
	{insn: "btc [rdi-16], ecx", setup: toSpot + "; mov ecx, 160", op: ReadWrite},
	{insn: "bts [rdi-2], cx", setup: toSpot + "; mov ecx, 0x1001f", op: ReadWrite},
}

// loads are instructions that only read.
var loads = []liveCase{
	{insn: "mov rax, [rdi]", op: Read, loaded: some(before)},
	{insn: "mov eax, [rdi+4]", op: Read, loaded: some(0x11223344)},
	{insn: "mov dh, [rdi+1]", op: Read, loaded: some(0x77)},
	{insn: "mov rax, [rax]", setup: "mov rax, offset spot", op: Read, loaded: some(before), adrift: true},
	{insn: "mov rcx, [rcx+rcx]", setup: "mov rcx, offset spot; shr rcx, 1", op: Read, loaded: some(before), adrift: true},
	{insn: "movabs rax, [spot]", op: Read, loaded: some(before)},
	{insn: "movzx eax, word ptr [rdi+2]", op: Read, loaded: some(0x5566)},
	{insn: "movsx rcx, byte ptr [rdi]", op: Read, loaded: some(0x88)},
	{insn: "movsxd rdx, dword ptr [rdi]", op: Read, loaded: some(0x55667788)},
	{insn: "movbe eax, [rdi]", needs: "movbe", op: Read, loaded: some(0x55667788)},
	{insn: "add rax, [rdi]", op: Read},
	{insn: "add rax, [rax]", setup: "mov rax, offset spot", op: Read, adrift: true},
	{insn: "cmp [rdi], rax", op: Read},
	{insn: "cmp rax, [rdi]", op: Read},
	{insn: "cmp byte ptr spot[rip+3], 0", op: Read},
	{insn: "cmp rdi, [rdi]", op: Read},
	{insn: "test [rdi], eax", op: Read},
	{insn: "test qword ptr [rdi], 0x400", op: Read},
	{insn: "bt [rdi-8], ecx", setup: toSpot + "; mov ecx, 64", op: Read},
	{insn: "cmove rax, [rdi]", op: Read},
	{insn: "cmovne rax, [rdi]", op: Read},
	{insn: "imul rax, [rdi], 7", op: Read},
	{insn: "mul qword ptr [rdi]", op: Read},
	{insn: "div qword ptr [rdi]", setup: toSpot + "; xor edx, edx", op: Read},
	{insn: "popcnt rax, [rdi]", op: Read},
	{insn: "crc32 eax, dword ptr [rdi]", op: Read},
	{insn: "adcx rax, [rdi]", needs: "adx", op: Read},
	{insn: "andn rax, rcx, [rdi]", needs: "bmi1", op: Read},
	{insn: "mulx rax, rcx, [rdi]", needs: "bmi2", op: Read},
	{insn: "pext eax, ecx, [rdi]", needs: "bmi2", op: Read},
	{insn: "xlatb", setup: "mov rbx, offset spot; mov eax, 3", op: Read, loaded: some(0x55), adrift: true},
	{insn: "clflush [rdi]", op: Read},
	{insn: "clwb [rdi]", needs: "clwb", op: Read},
}

// vectors are SSE, AVX and AVX-512 instructions.
var vectors = []liveCase{
	{insn: "movaps [rdi], xmm1", op: Write},
	{insn: "movups [rdi-9], xmm9", op: Write},
	{insn: "movdqu xmm0, [rdi]", op: Read},
	{insn: "movntdq [rdi], xmm2", op: Write},
	{insn: "movss [rdi], xmm0", op: Write},
	{insn: "movsd qword ptr [rdi], xmm0", op: Write},
	{insn: "movsd xmm0, qword ptr [rdi]", op: Read},
	{insn: "movhps [rdi], xmm3", op: Write},
	{insn: "movlpd xmm3, [rdi]", op: Read},
	{insn: "movq [rdi], xmm0", op: Write},
	{insn: "movd [rdi], mm0", after: "emms", op: Write},
	{insn: "movntq [rdi], mm0", after: "emms", op: Write},
	{insn: "pextrd [rdi], xmm0, 1", op: Write},
	{insn: "extractps [rdi], xmm0, 2", op: Write},
	{insn: "pinsrq xmm0, [rdi], 0", op: Read},
	{insn: "paddd xmm0, [rdi]", op: Read},
	{insn: "ucomisd xmm0, [rdi]", op: Read},
	{insn: "cvtsi2sd xmm0, qword ptr [rdi]", op: Read},
	{insn: "maskmovdqu xmm0, xmm1", setup: toSpot + "; pcmpeqd xmm1, xmm1", op: Write},
	{insn: "vmovdqu [rdi], ymm1", needs: "avx", op: Write},
	{insn: "vmovaps spot[rip], ymm1", needs: "avx", op: Write},
	{insn: "vmovdqa xmm1, spot[rip]", needs: "avx", op: Read},
	{insn: "vmovups gs:[8], xmm0", setup: "mov rdi, offset spot-8; wrgsbase rdi", needs: "fsgsbase", op: Write, adrift: true},
	{insn: "vmovups [edi], xmm8", needs: "avx", op: Write},
	{insn: "vmovntps [rdi], ymm0", needs: "avx", op: Write},
	{insn: "vextracti128 [rdi], ymm0, 1", needs: "avx2", op: Write},
	{insn: "vmaskmovps [rdi], xmm1, xmm0", setup: toSpot + "; vpcmpeqd xmm1, xmm1, xmm1", needs: "avx", op: Write},
	{insn: "vpmaskmovd xmm0, xmm1, [rdi]", setup: toSpot + "; vpcmpeqd xmm1, xmm1, xmm1", needs: "avx2", op: Read},
	{insn: "vpgatherdd xmm0, [rdi+xmm1*4], xmm2", setup: toSpot + "; vpxor xmm1, xmm1, xmm1; vpcmpeqd xmm2, xmm2, xmm2",
		needs: "avx2", op: Read, adrift: true},
	{insn: "vbroadcastss ymm0, [rdi]", needs: "avx", op: Read},
	{insn: "vfmadd231ps ymm0, ymm1, [rdi]", needs: "fma", op: Read},
	{insn: "vcvtps2ph [rdi], xmm0, 0", needs: "f16c", op: Write},
	{insn: "vmovdqu64 [rdi], zmm17", needs: "avx512f", op: Write},
	{insn: "vmovdqu32 [rdi+0x40]{k1}, zmm0", setup: "mov rdi, offset spot-0x40; kxnorw k1, k1, k1", needs: "avx512f", op: Write},
	{insn: "vmovdqu32 zmm0{k1}{z}, [rdi]", setup: toSpot + "; kxnorw k1, k1, k1", needs: "avx512f", op: Read},
	{insn: "vpcompressd [rdi]{k1}, zmm0", setup: toSpot + "; kxnorw k1, k1, k1", needs: "avx512f", op: Write},
	{insn: "vpmovqd [rdi], zmm0", needs: "avx512f", op: Write},
	{insn: "vaddps zmm0, zmm1, dword ptr [rdi]{1to16}", needs: "avx512f", op: Read},
	{insn: "vpscatterdd [rdi+zmm1*4]{k1}, zmm0", setup: toSpot + "; vpxord zmm1, zmm1, zmm1; kxnorw k1, k1, k1",
		needs: "avx512f", op: Write, adrift: true},
	{insn: "kmovq [rdi], k2", needs: "avx512bw", op: Write},
	{insn: "kmovw k2, [rdi]", needs: "avx512f", op: Read},
}

// units are x87 instructions and those that save and restore whole units.
var units = []liveCase{
	{insn: "fst dword ptr [rdi]", setup: toSpot + "; fninit; fld1", op: Write},
	{insn: "fstp qword ptr [rdi]", setup: toSpot + "; fninit; fld1", op: Write},
	{insn: "fstp tbyte ptr [rdi-2]", setup: toSpot + "; fninit; fld1", op: Write},
	{insn: "fistp qword ptr [rdi]", setup: toSpot + "; fninit; fld1", op: Write},
	{insn: "fisttp dword ptr [rdi]", setup: toSpot + "; fninit; fld1", op: Write},
	{insn: "fbstp [rdi]", setup: toSpot + "; fninit; fld1", op: Write},
	{insn: "fld qword ptr [rdi]", setup: toSpot + "; fninit", after: "fninit", op: Read},
	{insn: "fild word ptr [rdi]", setup: toSpot + "; fninit", after: "fninit", op: Read},
	{insn: "fadd dword ptr [rdi]", setup: toSpot + "; fninit; fld1", after: "fninit", op: Read},
	{insn: "fnstcw [rdi]", op: Write},
	{insn: "fldcw [rdi]", before: 0x37f, op: Read},
	{insn: "fnstenv [rdi]", after: "fninit", op: Write},
	{insn: "fnsave [rdi-100]", op: Write},
	{insn: "stmxcsr [rdi]", op: Write},
	{insn: "ldmxcsr [rdi]", before: 0x1f80, op: Read},
	{insn: "vstmxcsr [rdi]", needs: "avx", op: Write},
	{insn: "fxsave64 [rdi]", setup: "mov rdi, offset spot-64", op: Write},
	{insn: "xsave64 [rdi]", setup: "mov rdi, offset spot-512; mov eax, 7; xor edx, edx", needs: "xsave", op: Write},
	{insn: "xsavec [rdi]", setup: "mov rdi, offset spot-512; mov eax, 7; xor edx, edx", needs: "xsavec", op: Write},
}

// stringCases are the string instructions.
var stringCases = []liveCase{
	{insn: "stosq", op: Write, stored: some(rax)},
	{insn: "stosb", setup: "mov rdi, offset spot+3", op: Write, stored: some(0x10), adrift: true},
	{insn: "stosd", setup: "std; mov rdi, offset spot", length: 4, op: Write, stored: some(rax & 0xffffffff)},
	{insn: "lodsq", setup: "mov rsi, offset spot", op: Read, loaded: some(before)},
	{insn: "lodsw", setup: "mov rsi, offset spot+6", op: Read, loaded: some(0x1122)},
	{insn: "movsd", setup: toSpot + "; mov rsi, offset area", op: Write},
	{insn: "movsq", setup: "mov rdi, offset area; mov rsi, offset spot", op: Read},
	{insn: "movsb", setup: "mov rdi, offset spot+1; mov rsi, offset spot+4", op: ReadWrite, adrift: true},
	{insn: "scasd", op: Read},
	{insn: "cmpsb", setup: "mov rdi, offset area; mov rsi, offset spot+7", op: Read},
	{insn: "rep stosb", setup: toSpot + "; mov ecx, 8", hits: 8, access: "w", op: Write, stored: some(0x10)},
	{insn: "rep stosb", setup: "mov rdi, offset spot-3; mov ecx, 20", hits: 8, op: Write, stored: some(0x10)},
	{insn: "rep stosq", setup: toSpot + "; mov ecx, 2", op: Write, stored: some(rax)},
	{insn: "rep movsb", setup: "mov rdi, offset spot-8; mov rsi, offset area; mov ecx, 12", hits: 4, access: "w", op: Write},
	{insn: "rep movsq", setup: "mov rdi, offset spot-8; mov rsi, offset area; mov ecx, 4", op: Write},
	{insn: "rep movsd", setup: "mov rsi, offset spot-8; mov rdi, offset area; mov ecx, 8", hits: 2, op: Read},
	{insn: "rep lodsw", setup: "mov rsi, offset spot; mov ecx, 1", op: Read, loaded: some(0x7788), adrift: true},
	{insn: "repne scasb", setup: toSpot + "; mov al, 0x66; mov ecx, 20", hits: 3, op: Read},
	{insn: "repe cmpsb", setup: toSpot + "; mov rsi, offset area; mov [rsi], al; mov ecx, 8", op: Read, adrift: true},
	{insn: "addr32 rep stosb", setup: toSpot + "; mov rcx, 0x500000002", hits: 2, op: Write, stored: some(0x10)},
	{insn: "rep stosb", setup: "std; mov rdi, offset spot+4; mov ecx, 3", hits: 3, op: Write, stored: some(0x10)},
}

// transfers are calls and jumps: the ip of a hit is their target.
var transfers = []liveCase{
	{insn: "call LANDING", setup: "mov rsp, offset spot+8", after: landing, access: "w", op: Write, storedAddress: "after"},
	{insn: "call rax", setup: "mov rsp, offset spot+8; mov rax, offset LANDING", after: landing, op: Write, storedAddress: "after"},
	{insn: "call [rdi]", setup: toSpot + "; mov rsp, offset area+512", after: landing, toLanding: true, op: Read},
	{insn: "call qword ptr spot[rip]", setup: "mov rsp, offset area+512", after: landing, toLanding: true, op: Read},
	{insn: "jmp [rdi]", after: landing, toLanding: true, status: NotFound, op: Read},
	{insn: "ret", setup: "mov rsp, offset spot", after: landing, toLanding: true, status: NotFound, op: Read},
}

const landing = "jmp 3f\nud2\nLANDING: nop\n3:"

// cases32 are executed by a 32-bit program.
var cases32 = []liveCase{
	{insn: "mov [edi], eax", op: Write, stored: some(rax & 0xffffffff)},
	{insn: "mov dword ptr spot, 0x1234", access: "w", op: Write, stored: some(0x1234)},
	{insn: "mov spot+4, eax", op: Write, stored: some(rax & 0xffffffff)},
	{insn: "mov byte ptr [edi+ecx*4-4], 7", setup: toSpot + "; mov ecx, 1", op: Write, stored: some(7)},
	{insn: "mov word ptr [edi], cx", op: Write, stored: some(rcx & 0xffff)},
	{insn: "mov eax, spot", op: Read, loaded: some(before & 0xffffffff)},
	{insn: "mov ebx, [edi+4]", op: Read, loaded: some(before >> 32)},
	{insn: "mov eax, [eax]", setup: "mov eax, offset spot", op: Read, loaded: some(before & 0xffffffff), adrift: true},
	{insn: "movzx edx, byte ptr ds:[edi+1]", op: Read, loaded: some(0x77)},
	{insn: "inc dword ptr [edi]", op: ReadWrite},
	{insn: "xchg [edi], ecx", op: ReadWrite, loaded: some(before & 0xffffffff)},
	{insn: "lock cmpxchg8b [edi]", op: ReadWrite, loaded: some(before)},
	{insn: "push ecx", setup: "mov esp, offset spot+4", op: Write, stored: some(rcx & 0xffffffff)},
	{insn: "push cx", setup: "mov esp, offset spot+8", op: Write, stored: some(rcx & 0xffff)},
	{insn: "pop ecx", setup: "mov esp, offset spot+4", op: Read, loaded: some(before >> 32)},
	{insn: "pusha", setup: "mov esp, offset spot+16", op: Write},
	{insn: "popa", setup: "mov esp, offset spot-16", op: Read},
	{insn: "leave", setup: "mov ebp, offset spot", op: Read, loaded: some(before & 0xffffffff)},
	{insn: "rep movsb", setup: toSpot + "; mov esi, offset area; mov ecx, 3", hits: 3, op: Write},
	{insn: "stosd", op: Write, stored: some(rax & 0xffffffff)},
	{insn: "movups [edi], xmm0", op: Write},
	{insn: "vmovups [edi], ymm0", needs: "avx", op: Write},
	{insn: "fstp qword ptr [edi]", setup: toSpot + "; fninit; fld1", op: Write},
	{insn: "call LANDING", setup: "mov esp, offset spot+4", after: landing, access: "w", length: 4, op: Write,
		storedAddress: "after"},
	{insn: "call [edi]", setup: toSpot + "; mov esp, offset area+512", after: landing, toLanding: true, length: 4, op: Read},
	{insn: "jmp dword ptr spot", after: landing, toLanding: true, length: 4, status: NotFound, op: Read},
}
