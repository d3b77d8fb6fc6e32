package wire

import (
	"encoding/binary"
	"errors"
	"math"
	"unsafe"
)

// The msgpack primitives of the hot path are written by hand: a request of five
// flat fields takes about 20 ns this way, and 60 to 400 ns through the library's
// ways of reading it (BenchmarkFiveFields; docs/decisions/0002). The library
// writes what is not hot, and is the referee of the tests.

// Type bytes (msgpack specification, "Formats"). The library has them as
// variables, which no compiler folds; a test holds the two lists equal.
const (
	tFixMap, tFixMapEnd     = 0x80, 0x8f
	tFixArray, tFixArrayEnd = 0x90, 0x9f
	tFixStr, tFixStrEnd     = 0xa0, 0xbf

	tNil, tFalse, tTrue               = 0xc0, 0xc2, 0xc3
	tBin8, tBin16, tBin32             = 0xc4, 0xc5, 0xc6
	tExt8, tExt16, tExt32             = 0xc7, 0xc8, 0xc9
	tFloat32, tFloat64                = 0xca, 0xcb
	tUint8, tUint16, tUint32, tUint64 = 0xcc, 0xcd, 0xce, 0xcf
	tInt8, tInt16, tInt32, tInt64     = 0xd0, 0xd1, 0xd2, 0xd3
	tFixExt1, tFixExt16               = 0xd4, 0xd8
	tStr8, tStr16, tStr32             = 0xd9, 0xda, 0xdb
	tArray16, tArray32                = 0xdc, 0xdd
	tMap16, tMap32                    = 0xde, 0xdf
)

// ErrTruncated says that a value ends after its frame does.
var ErrTruncated = errors.New("msgpack: value runs past the end of the frame")

// errors of a well-framed value that is not what it should be.
var (
	errNotUint  = errors.New("msgpack: want a non-negative integer")
	errNotInt   = errors.New("msgpack: want an integer")
	errNotStr   = errors.New("msgpack: want a string")
	errNotBin   = errors.New("msgpack: want binary")
	errNotBool  = errors.New("msgpack: want a boolean")
	errNotArray = errors.New("msgpack: want an array")
	errNotMap   = errors.New("msgpack: want a map")
	errRange    = errors.New("msgpack: integer out of range")
	errDepth    = errors.New("msgpack: arrays and maps nested deeper than 16")
	errNotUTF8  = errors.New("msgpack: string is not valid UTF-8")
	errType     = errors.New("msgpack: 0xc1 is no type")
)

// AppendUint appends v in its shortest form.
func AppendUint(dst []byte, v uint64) []byte {
	switch {
	case v <= 0x7f:
		return append(dst, byte(v))
	case v <= math.MaxUint8:
		return append(dst, tUint8, byte(v))
	case v <= math.MaxUint16:
		return append(dst, tUint16, byte(v>>8), byte(v))
	case v <= math.MaxUint32:
		return binary.BigEndian.AppendUint32(append(dst, tUint32), uint32(v))
	}
	return binary.BigEndian.AppendUint64(append(dst, tUint64), v)
}

// AppendInt appends v in its shortest form.
func AppendInt(dst []byte, v int64) []byte {
	switch {
	case v >= 0:
		return AppendUint(dst, uint64(v))
	case v >= -32:
		return append(dst, byte(v))
	case v >= math.MinInt8:
		return append(dst, tInt8, byte(v))
	case v >= math.MinInt16:
		return append(dst, tInt16, byte(v>>8), byte(v))
	case v >= math.MinInt32:
		return binary.BigEndian.AppendUint32(append(dst, tInt32), uint32(v))
	}
	return binary.BigEndian.AppendUint64(append(dst, tInt64), uint64(v))
}

// AppendStr appends s as a string.
func AppendStr(dst []byte, s string) []byte {
	n := len(s)
	switch {
	case n < 32:
		dst = append(dst, tFixStr|byte(n))
	case n <= math.MaxUint8:
		dst = append(dst, tStr8, byte(n))
	case n <= math.MaxUint16:
		dst = append(dst, tStr16, byte(n>>8), byte(n))
	default:
		dst = binary.BigEndian.AppendUint32(append(dst, tStr32), uint32(n))
	}
	return append(dst, s...)
}

// AppendBin appends b as binary.
func AppendBin(dst []byte, b []byte) []byte {
	n := len(b)
	switch {
	case n <= math.MaxUint8:
		dst = append(dst, tBin8, byte(n))
	case n <= math.MaxUint16:
		dst = append(dst, tBin16, byte(n>>8), byte(n))
	default:
		dst = binary.BigEndian.AppendUint32(append(dst, tBin32), uint32(n))
	}
	return append(dst, b...)
}

// AppendBool appends b.
func AppendBool(dst []byte, b bool) []byte {
	if b {
		return append(dst, tTrue)
	}
	return append(dst, tFalse)
}

// AppendNil appends nil: in a positional array, "the default".
func AppendNil(dst []byte) []byte { return append(dst, tNil) }

// AppendArray appends the header of an array of n elements.
func AppendArray(dst []byte, n int) []byte {
	switch {
	case n < 16:
		return append(dst, tFixArray|byte(n))
	case n <= math.MaxUint16:
		return append(dst, tArray16, byte(n>>8), byte(n))
	}
	return binary.BigEndian.AppendUint32(append(dst, tArray32), uint32(n))
}

// AppendMap appends the header of a map of n pairs.
func AppendMap(dst []byte, n int) []byte {
	switch {
	case n < 16:
		return append(dst, tFixMap|byte(n))
	case n <= math.MaxUint16:
		return append(dst, tMap16, byte(n>>8), byte(n))
	}
	return binary.BigEndian.AppendUint32(append(dst, tMap32), uint32(n))
}

// Reader reads msgpack values one after the other. The first error sticks:
// every later read answers a zero value, so a caller checks Err once at the end.
// What Str and Bin answer aliases the buffer.
type Reader struct {
	buf []byte
	pos int
	err error
}

// NewReader reads from buf.
func NewReader(buf []byte) Reader { return Reader{buf: buf} }

// Err is the first error met.
func (r *Reader) Err() error { return r.err }

// Pos is how many bytes were read.
func (r *Reader) Pos() int { return r.pos }

// Rest is what was not read yet.
func (r *Reader) Rest() []byte { return r.buf[r.pos:] }

func (r *Reader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

// take answers the next n bytes, or nil after an error. Whoever appends to them
// gets a copy: what follows in the buffer is somebody else's.
func (r *Reader) take(n uint64) []byte {
	if r.err != nil {
		return nil
	}
	if n > uint64(len(r.buf)-r.pos) {
		r.fail(ErrTruncated)
		return nil
	}
	end := r.pos + int(n)
	b := r.buf[r.pos:end:end]
	r.pos = end
	return b
}

// code answers the next type byte; nil (0xc0) after an error, which every
// caller takes as the default value.
func (r *Reader) code() byte {
	if r.err != nil {
		return tNil
	}
	if r.pos >= len(r.buf) {
		r.fail(ErrTruncated)
		return tNil
	}
	c := r.buf[r.pos]
	r.pos++
	return c
}

// be reads n big-endian bytes.
func (r *Reader) be(n uint64) uint64 {
	var v uint64
	for _, c := range r.take(n) {
		v = v<<8 | uint64(c)
	}
	return v
}

// Uint reads a non-negative integer of any width; nil is 0.
func (r *Reader) Uint() uint64 {
	c := r.code()
	if c <= 0x7f {
		return uint64(c)
	}
	v, signed := r.integer(c, errNotUint)
	if signed && int64(v) < 0 {
		r.fail(errNotUint)
		return 0
	}
	return v
}

// Int reads a signed integer of any width; nil is 0.
func (r *Reader) Int() int64 {
	c := r.code()
	if c <= 0x7f {
		return int64(c)
	}
	v, signed := r.integer(c, errNotInt)
	if !signed && v > math.MaxInt64 {
		r.fail(errRange)
		return 0
	}
	return int64(v)
}

// integer reads what follows type byte c: the value's 64 bits, and whether they
// are signed. wrong is the error for what is no integer.
func (r *Reader) integer(c byte, wrong error) (v uint64, signed bool) {
	switch {
	case c >= 0xe0:
		return uint64(int64(int8(c))), true
	case c >= tUint8 && c <= tUint64:
		return r.be(1 << (c - tUint8)), false
	case c >= tInt8 && c <= tInt64:
		n := uint64(1) << (c - tInt8)
		shift := 64 - 8*n
		return uint64(int64(r.be(n)<<shift) >> shift), true
	case c == tNil:
		return 0, false
	}
	r.fail(wrong)
	return 0, false
}

// Bool reads a boolean; nil is false.
func (r *Reader) Bool() bool {
	switch r.code() {
	case tTrue:
		return true
	case tFalse, tNil:
		return false
	}
	r.fail(errNotBool)
	return false
}

// text reads a string or binary, which may stand for each other: some msgpack
// libraries know only one of the two.
func (r *Reader) text(wrong error) []byte {
	c := r.code()
	switch {
	case c >= tFixStr && c <= tFixStrEnd:
		return r.take(uint64(c & 0x1f))
	case c == tStr8 || c == tBin8:
		return r.take(r.be(1))
	case c == tStr16 || c == tBin16:
		return r.take(r.be(2))
	case c == tStr32 || c == tBin32:
		return r.take(r.be(4))
	case c == tNil:
		return nil
	}
	r.fail(wrong)
	return nil
}

// Str reads a string; nil is "". It aliases the buffer.
func (r *Reader) Str() string {
	b := r.text(errNotStr)
	if len(b) == 0 {
		return ""
	}
	return unsafe.String(&b[0], len(b))
}

// Bin reads binary; nil is empty. It aliases the buffer.
func (r *Reader) Bin() []byte { return r.text(errNotBin) }

// atArray says that an array comes next.
func (r *Reader) atArray() bool {
	if r.err != nil || r.pos == len(r.buf) {
		return false
	}
	c := r.buf[r.pos]
	return c >= tFixArray && c <= tFixArrayEnd || c == tArray16 || c == tArray32
}

// Array reads an array's header; nil is an empty one. The count never exceeds
// the bytes left, since every element takes at least one.
func (r *Reader) Array() int {
	n := r.arrayHead()
	if n > uint64(len(r.buf)-r.pos) {
		r.fail(ErrTruncated)
		return 0
	}
	return int(n)
}

// arrayHead is Array for who does not believe in the count.
func (r *Reader) arrayHead() uint64 {
	c := r.code()
	var n uint64
	switch {
	case c >= tFixArray && c <= tFixArrayEnd:
		n = uint64(c & 0x0f)
	case c == tArray16:
		n = r.be(2)
	case c == tArray32:
		n = r.be(4)
	case c == tNil:
		return 0
	default:
		r.fail(errNotArray)
	}
	if r.err != nil {
		return 0
	}
	return n
}

// Map reads a map's header; nil is an empty one.
func (r *Reader) Map() int {
	c := r.code()
	var n uint64
	switch {
	case c >= tFixMap && c <= tFixMapEnd:
		n = uint64(c & 0x0f)
	case c == tMap16:
		n = r.be(2)
	case c == tMap32:
		n = r.be(4)
	case c == tNil:
		return 0
	default:
		r.fail(errNotMap)
		return 0
	}
	if r.err != nil {
		return 0
	}
	if 2*n > uint64(len(r.buf)-r.pos) {
		r.fail(ErrTruncated)
		return 0
	}
	return int(n)
}

// Skip passes over one value of any type, in which arrays and maps are nested at
// most maxDepth deep.
func (r *Reader) Skip() { r.skip(maxDepth) }

func (r *Reader) skip(room int) {
	c := r.code()
	switch {
	case r.err != nil, c <= 0x7f, c >= 0xe0, c == tNil, c == tTrue, c == tFalse:
	case c >= tFixStr && c <= tFixStrEnd:
		r.take(uint64(c & 0x1f))
	case c >= tUint8 && c <= tUint64:
		r.take(1 << (c - tUint8))
	case c >= tInt8 && c <= tInt64:
		r.take(1 << (c - tInt8))
	case c == tFloat32:
		r.take(4)
	case c == tFloat64:
		r.take(8)
	case c >= tFixExt1 && c <= tFixExt16:
		r.take(1 + 1<<(c-tFixExt1))
	case c == tExt8:
		r.take(1 + r.be(1))
	case c == tExt16:
		r.take(1 + r.be(2))
	case c == tExt32:
		r.take(1 + r.be(4))
	case c == tStr8 || c == tBin8 || c == tStr16 ||
		c == tBin16 || c == tStr32 || c == tBin32:
		r.pos--
		r.text(errNotStr)
	case c >= tFixArray && c <= tFixArrayEnd ||
		c == tArray16 || c == tArray32:
		r.pos--
		r.skipAll(r.Array(), room)
	case c >= tFixMap && c <= tFixMapEnd ||
		c == tMap16 || c == tMap32:
		r.pos--
		r.skipAll(2*r.Map(), room)
	default:
		r.fail(errType)
	}
}

// skipAll passes over the n values of an array or a map.
func (r *Reader) skipAll(n, room int) {
	if room == 0 {
		r.fail(errDepth)
	}
	for ; n > 0 && r.err == nil; n-- {
		r.skip(room - 1)
	}
}
