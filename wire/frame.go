package wire

import (
	"encoding/binary"
	"errors"
)

// Errors of NextFrame, after which a stream cannot be read any further.
var (
	ErrFrameEmpty = errors.New("frame: length 0")
	ErrFrameLarge = errors.New("frame: longer than the limit")
)

// NextFrame looks for one whole frame at the start of buf. It answers the
// payload, which aliases buf, and the bytes the frame takes with its prefix.
//
// size 0 and no error mean that the frame is not all there yet; need is then how
// many bytes it takes, or 0 while its length is not known.
func NextFrame(buf []byte, maxPayload int) (payload []byte, size, need int, err error) {
	if len(buf) < frameHead {
		return nil, 0, 0, nil
	}
	length := binary.BigEndian.Uint32(buf)
	switch {
	case length == 0:
		return nil, 0, 0, ErrFrameEmpty
	case uint64(length) > uint64(maxPayload):
		return nil, 0, 0, ErrFrameLarge // before it is an int, which has 31 bits on some machines
	}
	n := int(length)
	if len(buf) < frameHead+n {
		return nil, 0, frameHead + n, nil
	}
	return buf[frameHead : frameHead+n : frameHead+n], frameHead + n, 0, nil
}
