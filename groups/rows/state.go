package rows

import (
	"encoding/binary"
	"errors"
)

// State is a log's own row: how far it is applied, under which leader epoch, and what its
// clock says.
type State struct {
	Applied     uint64 // index of the last entry
	Term        uint64 // leader epoch: who leads, in which term
	Node        uint64
	Incarnation uint64
	Number      uint64 // of the last batch in the leader epoch
	Now         int64  // lease clock, ms
	Wall        int64  // of the last entry, Unix ms
	Limits      string // that were stated with the leader epoch (groups/replica/limits.go), "" for none
	Nodes       string // in a backup: the marks of nodes in ids of sessions (groups/processes.go), one behind the other
}

// Append appends the row's value.
func (s *State) Append(dst []byte) []byte {
	for _, v := range []uint64{s.Applied, s.Term, s.Node, s.Incarnation, s.Number} {
		dst = binary.AppendUvarint(dst, v)
	}
	dst = binary.AppendVarint(binary.AppendVarint(dst, s.Now), s.Wall)
	for i, text := range []string{s.Limits, s.Nodes} {
		if text != "" || i == 0 && s.Nodes != "" {
			dst = append(binary.AppendUvarint(dst, uint64(len(text))), text...)
		}
	}
	return dst
}

var errState = errors.New("rows: malformed state of a log")

// ParseState is the inverse of Append. What follows after the fields it knows is
// skipped.
func ParseState(row []byte) (s State, err error) {
	for _, v := range []*uint64{&s.Applied, &s.Term, &s.Node, &s.Incarnation, &s.Number} {
		value, n := binary.Uvarint(row)
		if n <= 0 {
			return s, errState
		}
		*v, row = value, row[n:]
	}
	for _, v := range []*int64{&s.Now, &s.Wall} {
		value, n := binary.Varint(row)
		if n <= 0 {
			return s, errState
		}
		*v, row = value, row[n:]
	}
	for _, text := range []*string{&s.Limits, &s.Nodes} {
		if len(row) == 0 { // a build that had none ends here
			return s, nil
		}
		size, n := binary.Uvarint(row)
		if n <= 0 || size > uint64(len(row)-n) {
			return s, errState
		}
		*text, row = string(row[n:n+int(size)]), row[n+int(size):]
	}
	return s, nil
}
