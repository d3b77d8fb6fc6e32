package wire

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/vmihailenco/msgpack/v5"
)

// edges are where an encoding gets longer, and one on either side.
var edges = []uint64{0, 1, 0x7e, 0x7f, 0x80, 0xff, 0x100, 0xffff, 0x1_0000, math.MaxInt32, 1 << 31, math.MaxUint32,
	math.MaxUint32 + 1, 1 << 53, math.MaxInt64, 1 << 63, math.MaxUint64}

// TestAppendIsTheLibrary compares each primitive with the library's.
func TestAppendIsTheLibrary(t *testing.T) {
	same := func(what string, ours []byte, theirs func(*msgpack.Encoder) error) {
		t.Helper()
		var b bytes.Buffer
		if err := theirs(msgpack.NewEncoder(&b)); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(ours, b.Bytes()) {
			t.Errorf("%s: %x, the library writes %x", what, ours[:min(len(ours), 16)], b.Bytes()[:min(b.Len(), 16)])
		}
	}
	for _, v := range edges {
		same(fmt.Sprintf("uint %d", v), AppendUint(nil, v), func(e *msgpack.Encoder) error { return e.EncodeUint(v) })
		for _, i := range []int64{int64(v), -int64(v), -int64(v) - 1, -int64(v >> 2)} {
			same(fmt.Sprintf("int %d", i), AppendInt(nil, i), func(e *msgpack.Encoder) error { return e.EncodeInt(i) })
		}
	}
	for _, n := range []int{0, 1, 15, 16, 31, 32, 255, 256, 65_535, 65_536} {
		s := strings.Repeat("s", n)
		same(fmt.Sprintf("str of %d", n), AppendStr(nil, s),
			func(e *msgpack.Encoder) error { return e.EncodeString(s) })
		same(fmt.Sprintf("bin of %d", n), AppendBin(nil, []byte(s)),
			func(e *msgpack.Encoder) error { return e.EncodeBytes([]byte(s)) })
		same(fmt.Sprintf("array of %d", n), AppendArray(nil, n),
			func(e *msgpack.Encoder) error { return e.EncodeArrayLen(n) })
		same(fmt.Sprintf("map of %d", n), AppendMap(nil, n),
			func(e *msgpack.Encoder) error { return e.EncodeMapLen(n) })
	}
	same("true", AppendBool(nil, true), func(e *msgpack.Encoder) error { return e.EncodeBool(true) })
	same("false", AppendBool(nil, false), func(e *msgpack.Encoder) error { return e.EncodeBool(false) })
	same("nil", AppendNil(nil), func(e *msgpack.Encoder) error { return e.EncodeNil() })
}

// TestReadBack reads each primitive back, and each cut short at every byte.
func TestReadBack(t *testing.T) {
	read := func(what string, b []byte, value func(*Reader) any, want any) {
		t.Helper()
		r := NewReader(b)
		if got := value(&r); got != want || r.Err() != nil || r.Pos() != len(b) {
			t.Errorf("%s: %v, %v after %d of %d bytes", what, got, r.Err(), r.Pos(), len(b))
		}
		skip := NewReader(b)
		if skip.Skip(); skip.Err() != nil || skip.Pos() != len(b) {
			t.Errorf("%s: skips %d of %d bytes, %v", what, skip.Pos(), len(b), skip.Err())
		}
		for cut := range min(len(b), 16) {
			r := NewReader(b[:cut])
			if value(&r); !errors.Is(r.Err(), ErrTruncated) {
				t.Errorf("%s cut to %d bytes: %v", what, cut, r.Err())
			}
		}
	}
	for _, v := range edges {
		read(fmt.Sprintf("uint %d", v), AppendUint(nil, v), func(r *Reader) any { return r.Uint() }, v)
		for _, i := range []int64{int64(v), -int64(v), -int64(v) - 1} {
			read(fmt.Sprintf("int %d", i), AppendInt(nil, i), func(r *Reader) any { return r.Int() }, i)
		}
	}
	for _, n := range []int{0, 31, 32, 255, 256, 65_535, 65_536} {
		s := strings.Repeat("s", n)
		read(fmt.Sprintf("str of %d", n), AppendStr(nil, s), func(r *Reader) any { return r.Str() }, s)
		read(fmt.Sprintf("bin of %d", n), AppendBin(nil, []byte(s)), func(r *Reader) any { return string(r.Bin()) }, s)
	}
	for _, v := range []bool{true, false} {
		read(fmt.Sprint(v), AppendBool(nil, v), func(r *Reader) any { return r.Bool() }, v)
	}
}

// TestReaderRefuses reads values as what they are not.
func TestReaderRefuses(t *testing.T) {
	for _, row := range []struct {
		name, bytes string
		read        func(*Reader)
		want        error
	}{
		{"negative as uint", "ff", func(r *Reader) { r.Uint() }, errNotUint},
		{"negative of eight bytes as uint", "d3 8000000000000000", func(r *Reader) { r.Uint() }, errNotUint},
		{"2^63 as int", "cf 8000000000000000", func(r *Reader) { r.Int() }, errRange},
		{"float as uint", "ca 3f800000", func(r *Reader) { r.Uint() }, errNotUint},
		{"float as int", "cb 3ff0000000000000", func(r *Reader) { r.Int() }, errNotInt},
		{"true as uint", "c3", func(r *Reader) { r.Uint() }, errNotUint},
		{"string as int", "a1 37", func(r *Reader) { r.Int() }, errNotInt},
		{"1 as bool", "01", func(r *Reader) { r.Bool() }, errNotBool},
		{"array as string", "90", func(r *Reader) { r.Str() }, errNotStr},
		{"extension as string", "d4 01 02", func(r *Reader) { r.Str() }, errNotStr},
		{"integer as binary", "07", func(r *Reader) { r.Bin() }, errNotBin},
		{"map as array", "80", func(r *Reader) { r.Array() }, errNotArray},
		{"array as map", "90", func(r *Reader) { r.Map() }, errNotMap},
		{"0xc1 as uint", "c1", func(r *Reader) { r.Uint() }, errNotUint},
		{"0xc1 as string", "c1", func(r *Reader) { r.Str() }, errNotStr},
		{"0xc1 as array", "c1", func(r *Reader) { r.Array() }, errNotArray},
		{"0xc1 skipped", "c1", (*Reader).Skip, errType},
		{"2^32 as uint32", "cf 0000000100000000", func(r *Reader) { r.uint32() }, errRange},
		{"17 arrays", nested(17), (*Reader).Skip, errDepth},
		{"array of more than there is", "dd 7fffffff 00", func(r *Reader) { r.Array() }, ErrTruncated},
		{"map of more than there is", "df 80000001 00 00", func(r *Reader) { r.Map() }, ErrTruncated},
		{"map of a key without a value", "81 00", func(r *Reader) { r.Map() }, ErrTruncated},
		{"string of more than there is", "db ffffffff 61", func(r *Reader) { r.Str() }, ErrTruncated},
		{"extension of more than there is", "c9 ffffffff 01 02", (*Reader).Skip, ErrTruncated},
	} {
		r := NewReader(packed(row.bytes))
		if row.read(&r); !errors.Is(r.Err(), row.want) {
			t.Errorf("%s: %v, want %v", row.name, r.Err(), row.want)
		}
		at := r.Pos()
		// The error sticks: nothing is read any more, and everything is a default.
		if r.Uint() != 0 || r.Int() != 0 || r.Bool() || r.Str() != "" || r.Bin() != nil || r.Array() != 0 ||
			r.Map() != 0 || r.raw() != nil {
			t.Errorf("%s: something was read after the error", row.name)
		}
		if r.Skip(); r.Pos() != at || !errors.Is(r.Err(), row.want) {
			t.Errorf("%s: the error did not stick: %v", row.name, r.Err())
		}
	}
}

// TestReaderAliases: what a reader answers must not let an append into what follows.
func TestReaderAliases(t *testing.T) {
	buf := AppendUint(AppendBin(nil, []byte("ab")), 7)
	r := NewReader(buf)
	if b := append(r.Bin(), 'X'); string(b) != "abX" {
		t.Errorf("append made %q", b)
	}
	if r.Uint() != 7 {
		t.Error("an append to binary wrote over the value after it")
	}
	raw := NewReader(buf)
	_ = append(raw.raw(), 'X')
	if raw.Uint() != 7 {
		t.Error("an append to an encoding wrote over the value after it")
	}
	stream := append(framed(packed("92 01 02")), framed(packed("92 02 02"))...)
	payload, size, _, _ := NextFrame(stream, MaxFrameBytes)
	_ = append(payload, 0xff, 0xff, 0xff, 0xff)
	if _, _, _, err := NextFrame(stream[size:], MaxFrameBytes); err != nil {
		t.Error("an append to a payload wrote over the frame after it")
	}
}

// FuzzSkip compares how far we and the library pass over a value.
func FuzzSkip(f *testing.F) {
	for _, s := range []string{"07", "ff", "c0", "c1", "a1 37", "d9 01 61", "c4 02 0102", "ca 3f800000",
		"cb 3ff0000000000000",
		"d4 01 02", "d8 01 00000000000000000000000000000000", "c7 02 05 0102", "c8 0002 05 0102", "c9 00000002 05 0102",
		"92 01 a1 61", "dc 0001 07", "82 01 02 03 80", "de 0001 07 08", nested(16), nested(17)} {
		f.Add(packed(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r := NewReader(b)
		r.Skip()
		rest := bytes.NewReader(b)
		d := msgpack.NewDecoder(rest)
		theirs := d.Skip()
		switch {
		case r.Err() == nil && theirs != nil:
			t.Fatalf("%x: the library does not know it: %v", b, theirs)
		case r.Err() == nil && r.Pos() != len(b)-rest.Len():
			t.Fatalf("%x: %d bytes, the library says %d", b, r.Pos(), len(b)-rest.Len())
		case theirs == nil && r.Err() != nil && !errors.Is(r.Err(), errDepth):
			t.Fatalf("%x: %v, the library passes over it", b, r.Err())
		}
	})
}
