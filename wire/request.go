package wire

import "unsafe"

// LockRequest is one path of an acquire.
type LockRequest struct {
	Path    string
	Mode    Mode
	State   LockState
	Permits uint32 // semaphores only: how many may hold the path at once
}

// ReleaseRequest is one path to release, in the mode it is held in.
type ReleaseRequest struct {
	Path string
	Mode Mode
}

// Flags modify an acquire or a renewal.
type Flags uint64

// Flags. Unknown bits are refused, so that a client that relies on a
// newer flag learns that this server does not keep it.
const (
	// FlagWait keeps the call open until the request is granted, refused,
	// cancelled, or its queue_ttl_ms is over (DEADLINE_EXCEEDED).
	FlagWait Flags = 1 << 0
	// FlagNoQueue makes a request that would have to wait answer CONFLICT with the
	// blocking path, owner and reason, and leaves the queue as it was.
	FlagNoQueue Flags = 1 << 1
	// FlagBulk lifts the limit on paths to MaxBulkPaths, as AcquireStream does.
	FlagBulk Flags = 1 << 2
	// FlagBind ties the lease to the connection, with the grace told at hello. It
	// goes with Renew too, to tie the lease to a later connection.
	FlagBind Flags = 1 << 3
	// FlagExtend makes a Renew lengthen leases alone: one that lasts longer than
	// ttl_ms from now stays as it is. So a client may confirm what it holds without
	// taking time from what else its owner holds in the namespace.
	FlagExtend Flags = 1 << 4

	acquireFlags = FlagWait | FlagNoQueue | FlagBulk | FlagBind
	renewFlags   = FlagBind | FlagExtend
)

// Position is a place in one replicated log's stream of events. A cursor is one
// Position for each log. Clients hand back what they were given.
type Position struct {
	Log     uint64
	Index   uint64
	Ordinal uint64
}

// Request is a decoded request of any operation: the union of all arguments. An
// operation uses the fields that its Spec lists and leaves the rest zero.
//
// Strings and slices of bytes alias the buffer it was decoded from. The lists
// are reused by the next Decode into the same Request.
type Request struct {
	Op             Op
	Reason         Reason
	Algorithm      Algorithm
	DelWait        bool
	Watch          bool
	Explicit       bool
	Owner          string // owner_id, victim_id, start_owner_id
	Blocker        string // conflict_owner
	Path           string // path, conflict_path, prefix
	Namespace      string
	Detail         string
	Node           string // node_id of a node of the cluster
	Drain          Drain
	Key            string // idempotency_key
	TTLMillis      uint64
	QueueTTLMillis uint64
	GraceMillis    uint64
	Token          int64
	Flags          Flags
	Target         uint64 // a request id (also granted_by), a subscription number or a log's number
	Attempt        uint64 // which attempt to carry a policy change out a step is of; internal
	Kinds          uint64 // event kinds asked for, bit 1<<kind each
	Depth          uint32
	Page           uint32
	Locks          []LockRequest
	Releases       []ReleaseRequest
	Domains        []string
	Paths          []string
	Positions      []Position
	Cursor         []byte
	Meta           []byte // holder metadata, encoded (Metadata)
	Hello          *Hello
	Settled        uint64 // the client has the answers to all ids of its session below; 0 says nothing. No argument
}

// Reset makes r zero but keeps the memory of its lists, unless that is more than
// all but bulk requests need.
func (r *Request) Reset() {
	*r = Request{
		Locks:     reuse(r.Locks),
		Releases:  reuse(r.Releases),
		Domains:   reuse(r.Domains),
		Paths:     reuse(r.Paths),
		Positions: reuse(r.Positions),
	}
}

// ListBytes is the memory of its lists that Reset keeps.
func (r *Request) ListBytes() int {
	return sizeOf(r.Locks) + sizeOf(r.Releases) + sizeOf(r.Domains) + sizeOf(r.Paths) + sizeOf(r.Positions)
}

func sizeOf[T any](list []T) int {
	var one T
	return cap(list) * int(unsafe.Sizeof(one))
}

// reuse empties a list. What stood in it would keep alive the buffer it was read
// from, for as long as no longer list is read over it.
func reuse[T any](list []T) []T {
	if cap(list) > 2*MaxPaths {
		return nil
	}
	clear(list)
	return list[:0]
}

// Hello opens a connection: what the client speaks and who it is.
type Hello struct {
	MinVersion uint64 // lowest protocol version the client speaks
	MaxVersion uint64 // highest
	Session    []byte // 16 bytes, not all 0, to name or resume a session; empty: the server makes one
	Epoch      uint64 // counts the connections of a session, from 1
	Credential string // reserved for authentication
	Client     string // name and version, for people
	Features   uint64 // optional features the client wants, bits
	Window     uint64 // most requests the client keeps unanswered; 0: the server's limit
	Grace      uint64 // ms that leases outlive the connection they are tied to by FlagBind
	Meta       []byte // holder metadata of every acquire that brings none of its own
}

// Welcome answers Hello.
type Welcome struct {
	Version       uint64 // the version both speak from here on
	NodeID        string
	ClusterID     string
	Session       []byte
	Epoch         uint64
	Features      uint64 // those of the client's that the server has
	Limits        Limits
	ServerVersion string
}

// Limits is what a server tells a client it will accept on one connection.
type Limits struct {
	FrameBytes    uint64 // payload of one frame
	InFlight      uint64 // requests not yet answered, waiting acquires not counted
	Waiting       uint64 // acquires that wait in the queue
	Subscriptions uint64
	BoundOwners   uint64
	RepeatMillis  uint64 // how long an answer is kept for a repeat of its request id
	Answers       uint64 // how many answers each log keeps until they are settled; 0: the server does not know Settled
	UnreadBytes   uint64 // of answers; with more of them unread no requests are read
	UnreadMillis  uint64 // who leaves something unread and takes nothing for so long is closed
	RequestMillis uint64 // how long a request may take, waits and what they wait for aside
	GroupInFlight uint64 // requests of a virtual group under way, of all clients
}

// Protocol versions this build speaks.
const (
	MinProtocol = 1
	MaxProtocol = 1
)

// Optional features of a session, bits of Hello.Features.
const (
	// FeatureRedirect: a request for one group whose log another node leads is
	// answered Redirect instead of forwarded (Session.Redirect).
	FeatureRedirect uint64 = 1 << 0

	// FeatureLeases: what happens to leases that are tied to the session is pushed without a
	// subscription (LeaseEvent).
	FeatureLeases uint64 = 1 << 1

	// Features is all that this build has.
	Features = FeatureRedirect | FeatureLeases
)

// SessionBytes is the length of a session id.
const SessionBytes = 16

// Topology says which node leads what, for clients that go there directly: the
// namespace of a path follows from Segments and Roots (Routes), its group from
// GroupOf, the group's log from LogOf, and who leads that from Leaders. A client
// that works with an old one is not wrong: its requests are forwarded.
type Topology struct {
	Version   uint64 // grows with every change
	Self      string // node id of the node that answers
	Nodes     []NodeAddr
	GroupLogs uint64   // number of virtual groups
	Leaders   []string // by log: node id of its leader, "" when there is none
	LogOf     []uint64 // by group: the log it lives in, as an index of Leaders
	Segments  uint64   // routing_prefix_segments
	Roots     []string // namespaces that somebody chose, as far as they matter (Routes.TopologyRoots)
}

// NodeAddr is where one node's native protocol is served.
type NodeAddr struct {
	NodeID string
	Native string
}
