package codec

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"testing"
)

// TestReader: what is appended is read back.
func TestReader(t *testing.T) {
	b := binary.AppendUvarint(nil, math.MaxUint64)
	b = binary.AppendVarint(b, math.MinInt64)
	b = AppendString(b, "")
	b = AppendString(b, "h:/ä")
	b = append(b, 7, 8, 9)
	r := Reader{Buf: b}
	if v := r.Uvarint(); v != math.MaxUint64 {
		t.Errorf("read %d", v)
	}
	if v := r.Varint(); v != math.MinInt64 {
		t.Errorf("read %d", v)
	}
	if v := r.Text(); v != "" {
		t.Errorf("read %q", v)
	}
	if v := r.Text(); v != "h:/ä" {
		t.Errorf("read %q", v)
	}
	if v := r.Byte(); v != 7 {
		t.Errorf("read %d", v)
	}
	if v := r.Bytes(2); !bytes.Equal(v, []byte{8, 9}) || len(r.Buf) != 0 || r.Err != nil {
		t.Errorf("read %v, %d bytes and %v are left", v, len(r.Buf), r.Err)
	}
}

// TestMalformed: who reads more than there is, or a number of more than 64 bits, is told so, however much it goes on to
// read, and gets nothing that is not there: a length is believed only as far as there are bytes.
func TestMalformed(t *testing.T) {
	long := bytes.Repeat([]byte{0xff}, 11)
	for name, read := range map[string]func(r *Reader) bool{
		"a number that is cut short":        func(r *Reader) bool { r.Buf = []byte{0x80}; return r.Uvarint() == 0 },
		"a number that is too long":         func(r *Reader) bool { r.Buf = long; return r.Uvarint() == 0 },
		"a signed number that is cut short": func(r *Reader) bool { r.Buf = []byte{0x80}; return r.Varint() == 0 },
		"a signed number that is too long":  func(r *Reader) bool { r.Buf = long; return r.Varint() == 0 },
		"a byte that is not there":          func(r *Reader) bool { r.Buf = nil; return r.Byte() == 0 },
		"bytes that are not there": func(r *Reader) bool {
			r.Buf = make([]byte, 2,
				9)
			return r.Bytes(3) == nil
		},
		"a text longer than what is there": func(r *Reader) bool { r.Buf = []byte{3, 'a', 'b'}; return r.Text() == "" },
		"a text of 2^64-1 bytes": func(r *Reader) bool {
			r.Buf = append(binary.AppendUvarint(nil, math.MaxUint64), "abc"...)
			return r.Text() == ""
		},
	} {
		var r Reader
		if !read(&r) || !errors.Is(r.Err, ErrMalformed) {
			t.Errorf("%s: something is read, and it tells %v", name, r.Err)
		}
		if r.Uvarint() != 0 || r.Varint() != 0 || r.Byte() != 0 || r.Text() != "" || !errors.Is(r.Err, ErrMalformed) ||
			len(r.Buf) != 0 {
			t.Errorf("%s: it goes on with %v and %d bytes", name, r.Err, len(r.Buf))
		}
	}
}
