package replica

import (
	"encoding/binary"
	"fmt"

	"github.com/pathlockd/pathlockd/groups/codec"
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
// last, whatever was lost between. It has no commands and is the barrier behind such a gap (groups/inflight.go):
// the number of whatever did not come before it is too low from then on. No number is
// given twice in a leader epoch, but one that raft never got to see.
const (
	EntryLeaderEpoch = 1
	entryBatch       = 2
	entryNext        = 3
)

// LeaderEpoch names one leader's time: batches count within it, and a batch of
// another is dropped.
type LeaderEpoch struct {
	Term        uint64
	Node        uint64 // replica that leads
	Incarnation uint64 // of its process
}

func (o LeaderEpoch) append(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, o.Term)
	dst = binary.AppendUvarint(dst, o.Node)
	return binary.AppendUvarint(dst, o.Incarnation)
}

// AppendLeaderEpoch appends the entry by which a leader begins a leader epoch and states its limits.
func AppendLeaderEpoch(dst []byte, format uint32, o LeaderEpoch, l Limits) []byte {
	return l.append(o.append(append(dst, byte(format), EntryLeaderEpoch)))
}

// ReadLeaderEpochEntry reads what AppendLeaderEpoch appends. Leaders of earlier builds stated no limits.
func ReadLeaderEpochEntry(r *codec.Reader) (o LeaderEpoch, l Limits, stated bool) {
	if o = readLeaderEpoch(r); len(r.Buf) > 0 {
		l, stated = ReadLimits(r), true
	}
	return o, l, stated
}

func readLeaderEpoch(r *codec.Reader) LeaderEpoch {
	return LeaderEpoch{Term: r.Uvarint(), Node: r.Uvarint(), Incarnation: r.Uvarint()}
}

// OpenEntry reads an entry's head and answers its kind.
func OpenEntry(data []byte) (r codec.Reader, kind byte, err error) {
	r.Buf = data
	format := r.Byte()
	kind = r.Byte()
	if r.Err == nil {
		if err := rows.CheckFormat(uint32(format)); err != nil {
			return r, 0, fmt.Errorf("groups: log entry of %w", err)
		}
	}
	return r, kind, r.Err
}
