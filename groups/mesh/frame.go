package mesh

import (
	"encoding/binary"
	"fmt"
	"io"
)

const (
	frameHead = 4
	// ownFrame marks what is mesh's own.
	ownFrame = 1 << 31
	// maxTextBytes is the length of the longest reason that is told to a peer.
	maxTextBytes = 512

	firstRead = 16 << 10 // a TLS record
	// keptRead is the largest buffer that a connection keeps for reading.
	keptRead = 256 << 10
	// trusted is how much is allocated for a frame before its bytes are there.
	trusted = 1 << 20
)

func appendHead(b []byte, n uint32) []byte { return binary.BigEndian.AppendUint32(b, n) }

// frames cuts what a reader gives into frames. It is used by one goroutine.
type frames struct {
	from io.Reader
	buf  []byte
	r, w int // buf[r:w] was read and not answered
}

func newFrames(from io.Reader) *frames { return &frames{from: from, buf: make([]byte, firstRead)} }

// next answers the next frame, and whether it is mesh's own. Its bytes are valid until
// the next call.
func (f *frames) next() (body []byte, own bool, err error) {
	for {
		need := frameHead
		if have := f.w - f.r; have >= frameHead {
			n, own, err := length(f.buf[f.r:])
			if err != nil {
				return nil, false, err
			}
			if need += n; have >= need {
				body = f.buf[f.r+frameHead : f.r+need]
				f.r += need
				return body, own, nil
			}
		}
		if err := f.fill(need); err != nil {
			return nil, false, err
		}
	}
}

func length(head []byte) (n int, own bool, err error) {
	u := binary.BigEndian.Uint32(head)
	own = u&ownFrame != 0
	n = int(u &^ ownFrame)
	switch {
	case own && n > maxTextBytes:
		return 0, false, fmt.Errorf("a reason of %d bytes, at most %d are allowed: %w", n, maxTextBytes, errTooLong)
	case n > MaxFrameBytes:
		return 0, false, fmt.Errorf("a frame of %d bytes, at most %d are allowed: %w", n, MaxFrameBytes, errTooLong)
	}
	return n, own, nil
}

// fill reads once. The frame that is next has need bytes, as far as is known.
func (f *frames) fill(need int) error {
	if f.r == f.w {
		f.r, f.w = 0, 0
		if len(f.buf) > keptRead {
			f.buf = make([]byte, keptRead)
		}
	}
	if f.r > 0 && f.r+need > len(f.buf) {
		f.w = copy(f.buf, f.buf[f.r:f.w])
		f.r = 0
	}
	if f.w == len(f.buf) {
		more := make([]byte, min(max(need, 2*len(f.buf)), max(trusted, 2*len(f.buf)), frameHead+MaxFrameBytes))
		copy(more, f.buf)
		f.buf = more
	}
	n, err := f.from.Read(f.buf[f.w:])
	f.w += n
	if n > 0 {
		return nil // an error comes again
	}
	return err
}
