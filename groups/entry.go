package groups

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/pathlockd/pathlockd/groups/rows"
)

// The entries of a replicated log.
//
//	entry   = format(1) kind(1) …                       formats.go
//	epoch   = term node incarnation                       a leader epoch begins
//	          [nlimits limits]                            limits.go
//	batch   = term node incarnation number stamp wall     commands under a leader epoch
//	          sessions metas commands
//	next    = as batch
//	session = id(16) epoch window
//	meta    = length bytes
//	command = group op flags version nslen                nslen: that of the path and one for a short path
//	          [session request [sub] [unsettled]]         as flags say; unsettled is how far
//	          [meta] [grace]                              the request is above what is settled
//	          nargs length bytes                          encoded as the client sent it
//
// Numbers are unsigned varints, but stamp and wall, which are signed. With a stamp of 0 nothing ends
// with time. A decoder
// refuses a format it does not know: such an entry means that this node is older
// than what the cluster agreed to write, and must not go on. No entry is in a format
// that a node of the cluster does not read.
//
// # Which batches count
//
// Several batches of a leader epoch are under way at once, and raft may lose one and take
// those behind it. So that commands are carried out in the order in which they were
// queued, a next counts only if its number is the last one's that counted, plus one:
// after one that was lost, none does. A batch counts if its number is higher than the
// last, whatever was lost between. It has no commands and mends such a gap (flights.go):
// the number of whatever did not come before it is too low from then on. No number is
// given twice in a leader epoch, but one that raft never got to see.
const (
	entryLeaderEpoch = 1
	entryBatch       = 2
	entryNext        = 3
)

// leaderEpoch names one leader's time: batches count within it, and a batch of
// another is dropped.
type leaderEpoch struct {
	term        uint64
	node        uint64 // replica that leads
	incarnation uint64 // of its process
}

func (o leaderEpoch) append(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, o.term)
	dst = binary.AppendUvarint(dst, o.node)
	return binary.AppendUvarint(dst, o.incarnation)
}

// appendLeaderEpoch appends the entry by which a leader begins a leader epoch and states its limits.
func appendLeaderEpoch(dst []byte, format uint32, o leaderEpoch, l limits) []byte {
	return l.append(o.append(append(dst, byte(format), entryLeaderEpoch)))
}

// leaderEpochEntry reads what appendLeaderEpoch appends. Leaders of earlier builds stated no limits.
func (r *entryReader) leaderEpochEntry() (o leaderEpoch, l limits, stated bool) {
	if o = r.leaderEpoch(); len(r.buf) > 0 {
		l, stated = readLimits(r), true
	}
	return o, l, stated
}

// appendString appends a string's length and bytes.
func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

var errEntry = errors.New("groups: malformed log entry")

// entryReader reads varints and bytes; the first error sticks.
type entryReader struct {
	buf []byte
	err error
}

func (r *entryReader) uvarint() uint64 {
	v, n := binary.Uvarint(r.buf)
	if n <= 0 {
		r.err = errEntry
		r.buf = nil
		return 0
	}
	r.buf = r.buf[n:]
	return v
}

func (r *entryReader) varint() int64 {
	v, n := binary.Varint(r.buf)
	if n <= 0 {
		r.err = errEntry
		r.buf = nil
		return 0
	}
	r.buf = r.buf[n:]
	return v
}

func (r *entryReader) bytes(n uint64) []byte {
	if n > uint64(len(r.buf)) {
		r.err = errEntry
		r.buf = nil
		return nil
	}
	b := r.buf[:n]
	r.buf = r.buf[n:]
	return b
}

func (r *entryReader) byte() byte {
	if b := r.bytes(1); b != nil {
		return b[0]
	}
	return 0
}

// text reads what appendString appends. The string is the caller's own.
func (r *entryReader) text() string { return string(r.bytes(r.uvarint())) }

func (r *entryReader) leaderEpoch() leaderEpoch {
	return leaderEpoch{term: r.uvarint(), node: r.uvarint(), incarnation: r.uvarint()}
}

// openEntry reads an entry's head and answers its kind.
func openEntry(data []byte) (r entryReader, kind byte, err error) {
	r.buf = data
	format := r.byte()
	kind = r.byte()
	if r.err == nil {
		if err := rows.CheckFormat(uint32(format)); err != nil {
			return r, 0, fmt.Errorf("groups: log entry of %w", err)
		}
	}
	return r, kind, r.err
}
