package rows

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// A stream of rows:
//
//	stream = format(1) row… 0
//	row    = key length + 1, key, value length, value
//
// Lengths are unsigned varints. Rows come in no order, and none twice.

// maxRow bounds a row: a bulk acquire's waiter is the largest.
const maxRow = 64 << 20

// bufferBytes is how much is written and read at once.
const bufferBytes = 1 << 20

// Writer writes a stream; the first error sticks.
type Writer struct {
	w   *bufio.Writer
	err error
	len []byte
}

// NewWriter begins a stream of a format (formats.go).
func NewWriter(to io.Writer, format uint32) *Writer {
	w := &Writer{w: bufio.NewWriterSize(to, bufferBytes)}
	w.bytes([]byte{byte(format)})
	return w
}

// Row writes one row.
func (w *Writer) Row(key, val []byte) {
	w.len = binary.AppendUvarint(w.len[:0], uint64(len(key))+1)
	w.bytes(w.len)
	w.bytes(key)
	w.len = binary.AppendUvarint(w.len[:0], uint64(len(val)))
	w.bytes(w.len)
	w.bytes(val)
}

// Err is the first error there was.
func (w *Writer) Err() error { return w.err }

// End ends the stream and writes out what is left of it.
func (w *Writer) End() error {
	w.bytes([]byte{0})
	if w.err == nil {
		w.err = w.w.Flush()
	}
	return w.err
}

func (w *Writer) bytes(b []byte) {
	if w.err == nil {
		_, w.err = w.w.Write(b)
	}
}

// Reader reads a stream.
type Reader struct {
	r        *bufio.Reader
	key, val []byte
	begun    bool
}

// NewReader reads the stream that comes from r. It may read beyond its end; Rest
// answers what follows.
func NewReader(r io.Reader) *Reader { return &Reader{r: bufio.NewReaderSize(r, bufferBytes)} }

// Next answers the next row, which is valid until the call after, and io.EOF at the
// end of the stream. A stream that is cut short is io.ErrUnexpectedEOF.
func (r *Reader) Next() (key, val []byte, err error) {
	if !r.begun {
		found, err := r.r.ReadByte()
		if err != nil {
			return nil, nil, cut(err)
		}
		if err := CheckFormat(uint32(found)); err != nil {
			return nil, nil, fmt.Errorf("rows: %w", err)
		}
		r.begun = true
	}
	n, err := r.length()
	if err != nil {
		return nil, nil, err
	}
	if n == 0 {
		return nil, nil, io.EOF
	}
	if r.key, err = r.bytes(r.key, n-1); err != nil {
		return nil, nil, err
	}
	if n, err = r.length(); err != nil {
		return nil, nil, err
	}
	if r.val, err = r.bytes(r.val, n); err != nil {
		return nil, nil, err
	}
	return r.key, r.val, nil
}

// Rest is what follows the stream, once Next has answered its end.
func (r *Reader) Rest() io.Reader { return r.r }

func (r *Reader) length() (uint64, error) {
	n, err := binary.ReadUvarint(r.r)
	if err != nil {
		return 0, cut(err)
	}
	if n > maxRow {
		return 0, fmt.Errorf("rows: a row of %d bytes, at most %d are allowed", n, maxRow)
	}
	return n, nil
}

// bytes reads n bytes into buf. What a broken length promises takes no memory until
// it is there.
func (r *Reader) bytes(buf []byte, n uint64) ([]byte, error) {
	buf = buf[:0]
	for left := int(n); left > 0; {
		part := min(left, bufferBytes)
		at := len(buf)
		if cap(buf)-at < part {
			buf = append(buf, make([]byte, part)...)
		} else {
			buf = buf[:at+part]
		}
		if _, err := io.ReadFull(r.r, buf[at:]); err != nil {
			return buf, cut(err)
		}
		left -= part
	}
	return buf, nil
}

// cut is the error of a stream that ends too early.
func cut(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
