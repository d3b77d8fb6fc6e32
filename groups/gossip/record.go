package gossip

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"
	"github.com/hashicorp/memberlist"

	"github.com/pathlockd/pathlockd/wire"
)

// State is what a node says of itself.
type State uint8

// The states, in the order a node passes through them. Their numbers are gossiped.
const (
	// Joining: it knows its cluster and is not part of it yet. It counts as nobody
	// that a cluster was founded by.
	Joining State = iota + 1
	// Member: part of the cluster, and to be placed on.
	Member
	// Draining: still a member; nothing more is placed on it.
	Draining
	// Leaving: it goes on purpose, for a while or for good.
	Leaving
)

// asking is the state of a node that is none (probe.go).
const asking State = 0

func (s State) String() string {
	switch s {
	case asking:
		return "asking"
	case Joining:
		return "joining"
	case Member:
		return "member"
	case Draining:
		return "draining"
	case Leaving:
		return "leaving"
	}
	return fmt.Sprintf("state %d", uint8(s)) // of a version that knows more
}

// founded says that a node in state s vouches for its cluster's being founded.
func (s State) founded() bool { return s == Member || s == Draining }

// Record is what a node tells the others about itself. The first four fields never
// change while it runs.
type Record struct {
	NodeID      string // node_id
	ClusterID   string // a UUID
	HostID      string // a UUID, the raft host id: of the data directory, not of the machine
	Incarnation uint64 // grows with each start of a data directory; from 1

	RaftAddr   string // host:port
	LinkAddr   string // host:port
	NativeAddr string // host:port; empty where nothing listens

	// FormatMin and FormatMax are the formats of shared data that the node's version
	// works with. Two nodes must have one in common.
	FormatMin, FormatMax uint32

	State State

	Shortage Shortage
}

// Shortage is what a node tells whose disk is nearly full: others lead in its place. One
// that has room tells none.
type Shortage struct {
	Free    uint64 // bytes free where its data is
	Reserve uint64 // disk_reserve_bytes
}

// Is says whether there is one.
func (s Shortage) Is() bool { return s.Reserve > 0 }

// maxRecordBytes is how long an encoded record may be, the node id aside: a limit of
// memberlist's (MetaMaxSize).
const maxRecordBytes = memberlist.MetaMaxSize

// maxNodeID is the longest node id. It is in the name that each packet carries.
const maxNodeID = 255

var errRecord = errors.New("not a record of a pathlockd node")

// validate says what is wrong with a record that this node is to tell of itself.
func (r *Record) validate() error {
	if r.NodeID == "" || len(r.NodeID) > maxNodeID || strings.ContainsRune(r.NodeID, tagMark) {
		return fmt.Errorf("node_id %q must have 1 to %d bytes and no %q", r.NodeID, maxNodeID, tagMark)
	}
	for _, id := range []struct{ name, value string }{{"cluster id", r.ClusterID}, {"raft host id", r.HostID}} {
		if u, err := uuid.Parse(id.value); err != nil || u.String() != id.value {
			return fmt.Errorf("the %s %q must be a UUID", id.name, id.value)
		}
	}
	if r.Incarnation == 0 {
		return errors.New("the incarnation must be at least 1 and grow with each start")
	}
	if r.FormatMin > r.FormatMax {
		return fmt.Errorf("formats %d to %d: the first must not be above the last", r.FormatMin, r.FormatMax)
	}
	if r.State < Joining || r.State > Leaving {
		return fmt.Errorf("%s is no state to be in", r.State)
	}
	if n := len(r.encode()); n > maxRecordBytes {
		return fmt.Errorf("what this node would gossip takes %d bytes, the limit is %d: raft_addr (%d bytes), "+
			"link_addr (%d) and the native address (%d) must be shorter",
			n, maxRecordBytes, len(r.RaftAddr), len(r.LinkAddr), len(r.NativeAddr))
	}
	return nil
}

// recordFields is the number of fields that encode writes, and shortFields that of a node
// that is short of disk space: who does not know these skips them. More may follow in
// later versions, never fewer.
const (
	recordFields = 9
	shortFields  = 11
)

// encode answers the encoding of r, the node id aside, which is in the name. With
// addresses so long that a shortage does not fit as well, it is left out: the node hands
// its leaderships over unasked, and refuses them when it is offered any.
func (r *Record) encode() []byte {
	if r.Shortage.Is() {
		if b := r.encodeAs(shortFields); len(b) <= maxRecordBytes {
			return b
		}
	}
	return r.encodeAs(recordFields)
}

// encodeAs is encode with so many fields.
func (r *Record) encodeAs(fields int) []byte {
	dst := wire.AppendArray(nil, fields)
	dst = wire.AppendUint(dst, uint64(r.State))
	dst = appendID(dst, r.ClusterID)
	dst = appendID(dst, r.HostID)
	dst = wire.AppendUint(dst, r.Incarnation)
	dst = wire.AppendUint(dst, uint64(r.FormatMin))
	dst = wire.AppendUint(dst, uint64(r.FormatMax))
	dst = wire.AppendStr(dst, r.RaftAddr)
	dst = wire.AppendStr(dst, r.LinkAddr)
	dst = wire.AppendStr(dst, r.NativeAddr)
	if fields == shortFields {
		dst = wire.AppendUint(dst, r.Shortage.Free)
		dst = wire.AppendUint(dst, r.Shortage.Reserve)
	}
	return dst
}

// appendID appends a UUID as its 16 bytes: as text, two of them would take a seventh
// of the record.
func appendID(dst []byte, id string) []byte {
	u, err := uuid.Parse(id)
	if err != nil {
		return wire.AppendBin(dst, nil)
	}
	return wire.AppendBin(dst, u[:])
}

func readID(r *wire.Reader) string {
	u, err := uuid.FromBytes(r.Bin())
	if err != nil {
		return ""
	}
	return u.String()
}

// decodeRecord reads what a node of a name gossips. It copies what it keeps.
func decodeRecord(name string, meta []byte) (Record, error) {
	var rec Record
	if len(meta) > maxRecordBytes {
		return rec, fmt.Errorf("%w: %d bytes, the limit is %d", errRecord, len(meta), maxRecordBytes)
	}
	r := wire.NewReader(meta)
	n := r.Array()
	if n < recordFields && r.Err() == nil {
		return rec, fmt.Errorf("%w: %d fields, want %d", errRecord, n, recordFields)
	}
	state := r.Uint()
	rec.ClusterID, rec.HostID, rec.Incarnation = readID(&r), readID(&r), r.Uint()
	low, high := r.Uint(), r.Uint()
	rec.RaftAddr, rec.LinkAddr, rec.NativeAddr = strings.Clone(r.Str()), strings.Clone(r.Str()), strings.Clone(r.Str())
	if n >= shortFields {
		rec.Shortage = Shortage{Free: r.Uint(), Reserve: r.Uint()}
	}
	if err := r.Err(); err != nil {
		return rec, fmt.Errorf("%w: %w", errRecord, err)
	}
	if state > 255 || low > high || high > 1<<32-1 {
		return rec, fmt.Errorf("%w: state %d, formats %d to %d", errRecord, state, low, high)
	}
	rec.State, rec.FormatMin, rec.FormatMax = State(state), uint32(low), uint32(high)
	if rec.State == asking {
		return rec, nil
	}
	node, _, ok := strings.Cut(name, string(tagMark))
	rec.NodeID = node
	if !ok || name != rec.name() || rec.ClusterID == "" || rec.HostID == "" {
		return rec, fmt.Errorf("%w: it is told under the name %q", errRecord, name)
	}
	return rec, nil
}

// tagMark stands between a node id and the tag of one of its starts. It is in no
// node id.
const tagMark = '#'

// name is what memberlist calls the process that r is about: the node id, for the
// people who read logs, and a tag of which start of which data directory it is.
func (r *Record) name() string {
	h := sha256.New()
	h.Write(binary.BigEndian.AppendUint64(nil, r.Incarnation))
	h.Write([]byte(r.HostID))
	h.Write([]byte(r.NodeID))
	return r.NodeID + string(tagMark) + hex.EncodeToString(h.Sum(nil)[:6])
}

// fits says that two nodes have a format in common.
func (r *Record) fits(other *Record) bool {
	return max(r.FormatMin, other.FormatMin) <= min(r.FormatMax, other.FormatMax)
}
