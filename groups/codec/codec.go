package codec

import (
	"encoding/binary"
	"errors"
)

// AppendString appends a string's length and bytes.
func AppendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// ErrMalformed says that what is read is not what was to be appended there.
var ErrMalformed = errors.New("groups: malformed log entry")

// Reader reads varints and bytes; the first error sticks.
type Reader struct {
	Buf []byte
	Err error
}

// Uvarint reads an unsigned varint. After an error, which Err keeps, it and all others return nothing.
func (r *Reader) Uvarint() uint64 {
	v, n := binary.Uvarint(r.Buf)
	if n <= 0 {
		r.Err = ErrMalformed
		r.Buf = nil
		return 0
	}
	r.Buf = r.Buf[n:]
	return v
}

// Varint reads a signed one.
func (r *Reader) Varint() int64 {
	v, n := binary.Varint(r.Buf)
	if n <= 0 {
		r.Err = ErrMalformed
		r.Buf = nil
		return 0
	}
	r.Buf = r.Buf[n:]
	return v
}

// Bytes reads n bytes, which alias the entry.
func (r *Reader) Bytes(n uint64) []byte {
	if n > uint64(len(r.Buf)) {
		r.Err = ErrMalformed
		r.Buf = nil
		return nil
	}
	b := r.Buf[:n]
	r.Buf = r.Buf[n:]
	return b
}

// Byte reads one.
func (r *Reader) Byte() byte {
	if b := r.Bytes(1); b != nil {
		return b[0]
	}
	return 0
}

// Text reads what AppendString appends. The string is the caller's own.
func (r *Reader) Text() string { return string(r.Bytes(r.Uvarint())) }
