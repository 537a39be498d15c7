package symbol

import (
	"bytes"
	"compress/zlib"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"io"
	"strings"

	"xw/pkg/symbol/internal/debuginfo"
)

// maxDecompressed bounds a compressed debug section; larger ones stay unread.
const maxDecompressed = 1 << 30

// debugSections returns the debug sections of an image by name. Plain sections are read in place; a compressed one is
// decompressed into memory when it is first asked for.
func debugSections(im *image) debuginfo.Sections {
	seen := map[string]*io.SectionReader{}
	return func(name string) *io.SectionReader {
		if s, ok := seen[name]; ok {
			return s
		}
		s := im.debugSection(name)
		seen[name] = s
		return s
	}
}

func (im *image) debugSection(name string) *io.SectionReader {
	if s := im.byName(name); s != nil {
		if s.Flags&elf.SHF_COMPRESSED == 0 {
			return im.part(s)
		}
		return im.inflate(s, decompressed)
	}
	if s := im.byName(".z" + strings.TrimPrefix(name, ".")); s != nil {
		return im.inflate(s, oldCompressed)
	}
	return nil
}

// part returns a reader of a section in place, nil if it is not inside of the file.
func (im *image) part(s *elf.SectionHeader) *io.SectionReader {
	if s.Offset > uint64(im.size) || s.FileSize > uint64(im.size)-s.Offset {
		return nil
	}
	return io.NewSectionReader(im.r, int64(s.Offset), int64(s.FileSize))
}

// inflate decompresses a section, nil if it is damaged. Memory grows with what comes out, not with what the header says.
func (im *image) inflate(s *elf.SectionHeader, open func(*image, *elf.SectionHeader) (io.Reader, error)) *io.SectionReader {
	r, err := open(im, s)
	if err != nil {
		return nil
	}
	var b bytes.Buffer
	if n, err := io.Copy(&b, io.LimitReader(r, maxDecompressed+1)); err != nil || n > maxDecompressed {
		return nil
	}
	return io.NewSectionReader(bytes.NewReader(b.Bytes()), 0, int64(b.Len()))
}

// oldCompressed opens a .zdebug_ section: "ZLIB", the size in 8 bytes, a zlib stream.
func oldCompressed(im *image, s *elf.SectionHeader) (io.Reader, error) {
	b, err := im.data(s, maxDecompressed)
	if err != nil {
		return nil, err
	}
	if len(b) < 12 || string(b[:4]) != "ZLIB" {
		return nil, fmt.Errorf("section %q: no compression header", s.Name)
	}
	return zlib.NewReader(bytes.NewReader(b[12:]))
}

// decompressed opens a section with SHF_COMPRESSED, zlib or zstd. debug/elf has the decoder for both and is given a
// file that holds this section alone, none of what a hostile file could confuse it with.
func decompressed(im *image, s *elf.SectionHeader) (io.Reader, error) {
	b, err := im.data(s, maxDecompressed)
	if err != nil {
		return nil, err
	}
	var file bytes.Buffer
	const headers = 64 + 64
	h := elf.Header64{Version: 1, Shoff: 64, Shentsize: 64, Shnum: 1}
	copy(h.Ident[:], elf.ELFMAG+string([]byte{byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)}))
	section := elf.Section64{Type: uint32(elf.SHT_PROGBITS), Flags: uint64(elf.SHF_COMPRESSED), Off: headers}
	if im.class == elf.ELFCLASS32 { // the compression header is shorter
		b = widenCompression(b)
	}
	section.Size = uint64(len(b))
	for _, v := range []any{h, section, b} {
		if err := binary.Write(&file, binary.LittleEndian, v); err != nil {
			return nil, err
		}
	}
	one, err := elf.NewFile(bytes.NewReader(file.Bytes()))
	if err != nil {
		return nil, fmt.Errorf("section %q: %w", s.Name, err)
	}
	return one.Sections[0].Open(), nil
}

// widenCompression turns the compression header of a 32-bit file into that of a 64-bit one.
func widenCompression(b []byte) []byte {
	if len(b) < 12 {
		return b
	}
	le := binary.LittleEndian
	out := le.AppendUint32(nil, le.Uint32(b))
	out = le.AppendUint32(out, 0)
	out = le.AppendUint64(out, uint64(le.Uint32(b[4:])))
	out = le.AppendUint64(out, uint64(le.Uint32(b[8:])))
	return append(out, b[12:]...)
}
