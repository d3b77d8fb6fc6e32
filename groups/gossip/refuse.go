package gossip

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/pathlockd/pathlockd/wire"
)

// Why a node is kept out. Fault and Answer.Err wrap one of these.
var (
	ErrToken   = errors.New("another internal_auth_token")
	ErrCluster = errors.New("another cluster")
	ErrNodeID  = errors.New("the node id is in use")
	ErrFormat  = errors.New("no format in common")
	ErrStale   = errors.New("superseded by a later start of the same data directory")
	ErrFull    = errors.New("too many nodes")
	ErrRecord  = errors.New("not a pathlockd node")
	ErrKept    = errors.New("the node id is kept for its data directory")
)

// errAsking is no fault: who asks must not be taken in.
var errAsking = errors.New("only asks")

// errSelf says that a seed turned out to be this node.
var errSelf = errors.New("this is the node itself")

// reasons are numbered by their place: the numbers are sent in notices.
var reasons = []error{1: ErrCluster, 2: ErrNodeID, 3: ErrFormat, 4: ErrStale, 5: ErrFull, 6: ErrRecord, 7: ErrKept}

// refusal is why what is told about a node is not taken over.
type refusal struct {
	reason error
	text   string
}

func (r *refusal) Error() string { return r.reason.Error() + ": " + r.text }
func (r *refusal) Unwrap() error { return r.reason }

func refuse(reason error, format string, args ...any) *refusal {
	return &refusal{reason: reason, text: fmt.Sprintf(format, args...)}
}

func otherCluster(self, rec *Record, addr string) *refusal {
	return refuse(ErrCluster, "node %s at %s belongs to cluster %s, node %s to cluster %s: mend seed_nodes, or give "+
		"the one that is to move an empty data_dir",
		rec.NodeID, addr, rec.ClusterID, self.NodeID, self.ClusterID)
}

func sameNodeID(rec *Record, addr, host, where string) *refusal {
	return refuse(ErrNodeID, "node_id %s of data directory %s at %s is used by data directory %s at %s: give one of "+
		"them another node_id. A node whose disk was replaced is let in when its former self is missed, after "+
		"seconds; with another raft_addr half of eviction_window_secs later",
		rec.NodeID, rec.HostID, addr, host, where)
}

func keptFor(rec *Record, addr string, had Holder, left time.Duration) *refusal {
	if addr != "" {
		addr = " at " + addr
	}
	return refuse(ErrKept, "node_id %s of data directory %s%s belongs to data directory %s, which is away and may "+
		"come back to raft_addr %s for another %v (half of eviction_window_secs): wait if its disk was replaced and "+
		"it moved; give this node another node_id and an empty data_dir if not",
		rec.NodeID, rec.HostID, addr, had.HostID, had.RaftAddr, left.Round(time.Second))
}

func oldStart(rec *Record, addr string, newest uint64) *refusal {
	return refuse(ErrStale, "start %d of node %s's data directory speaks from %s, its start %d is known: one "+
		"directory must not run twice nor be set back to a copy; give the copy an empty data_dir",
		rec.Incarnation, rec.NodeID, addr, newest)
}

// maxNotice is how long a notice may be, in bytes; longer ones are not looked at.
const maxNotice = 2 << 10

// noticeKind tells a notice from other messages that later versions may send.
const noticeKind = 1

// notice tells a node that it is refused: memberlist only ignores it, and it would
// go on as if it were a member.
type notice struct {
	to   memberlist.Node
	why  *refusal
	from string // node id
}

func (n *notice) encode() []byte {
	b := wire.AppendArray(nil, 5)
	b = wire.AppendUint(b, noticeKind)
	b = wire.AppendStr(b, n.to.Name)
	code := 0
	for i, r := range reasons {
		if r != nil && errors.Is(n.why, r) {
			code = i
		}
	}
	b = wire.AppendUint(b, uint64(code))
	b = wire.AppendStr(b, n.from)
	return wire.AppendStr(b, n.why.text)
}

// decodeNotice answers why the process of a name is refused; nil when the message
// says nothing about it. It copies what it keeps.
func decodeNotice(b []byte, name string) error {
	if len(b) > maxNotice {
		return nil
	}
	r := wire.NewReader(b)
	if r.Array() < 5 || r.Uint() != noticeKind || r.Str() != name {
		return nil
	}
	code, from, text := r.Uint(), r.Str(), strings.Clone(r.Str())
	if r.Err() != nil || code >= uint64(len(reasons)) || reasons[code] == nil {
		return nil
	}
	return fmt.Errorf("refused by node %s: %w", from, &refusal{reason: reasons[code], text: text})
}
