package wire

import "errors"

// A subscription's cursor as one string of bytes, for faces whose clients keep it
// without looking into it.

var errTrailing = errors.New("bytes follow after its end")

// AppendPositions appends a cursor's encoding: an array of [log, index, ordinal].
func AppendPositions(dst []byte, ps []Position) []byte { return appendPositions(dst, ps) }

// DecodePositions is the inverse of AppendPositions; at most MaxPositions are taken.
func DecodePositions(b []byte) ([]Position, error) {
	r := NewReader(b)
	ps := r.positions(nil, r.atMost(MaxPositions))
	if r.err == nil && len(r.Rest()) > 0 {
		r.err = errTrailing
	}
	if r.err != nil {
		return nil, r.err
	}
	return ps, nil
}
