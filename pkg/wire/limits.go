package wire

// Limits of a stream. Writers keep them and readers check them before they allocate, so that hostile input costs a
// reader a few MiB at most.
const (
	// MaxRecord bounds one record, in bytes of MessagePack.
	MaxRecord = 1 << 20
	// MaxChunk bounds the perf records that one chunk carries, in bytes.
	MaxChunk = 64 << 10
	// MaxItems bounds the elements of one array, and the keys and values of one map.
	MaxItems = 16 << 10
	// MaxDepth bounds how deep arrays and maps nest; the record itself is the first level.
	MaxDepth = 8
	// MaxLine bounds one line of the text twin, in bytes.
	MaxLine = 8 << 20

	// bufferSize is what readers and writers gather: the size of a Linux pipe, so that one system call moves one
	// pipe full.
	bufferSize = 64 << 10
)
