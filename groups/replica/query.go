package replica

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/groups/codec"
	"github.com/pathlockd/pathlockd/wire"
)

// What is what a read wants to know. Its numbers are part of what nodes say to each
// other.
type What uint8

const (
	// Of one group.
	AskInspect  What = iota + 1 // who holds a path
	AskDescribe                 // everything about a path
	AskBlocking                 // whether a lock is still in the way
	AskPolicy                   // the algorithm of a namespace
	AskAssert                   // whether an owner writes paths under a token
	AskAlive                    // whether an owner has a lease in one of the domains
	AskList                     // what an owner holds in them
	AskScan                     // locks in order
	AskEdge                     // an owner's wait edge
	AskWaits                    // whether an owner waits for something

	// Of a log.
	AskFind  // groups in which an owner has an ownership record
	AskHeld  // groups in which something is held, from one on
	AskAny   // nothing: whether the log can be read
	AskRoute // the routes, of the system log, if later than the asker's
	AskLater // likewise, but answered when they are, or after a while (laterWithin)

	AskKept // of one group: answers that move with a subtree

	AskWhole // of a log: whether all of a session's request was carried out

	lastAsked = AskWhole
)

// carriedRoom is about how many bytes of kept answers one answer to AskKept has.
const carriedRoom = 1 << 20

// AnyVersion is for reads that a routing change may overtake.
const AnyVersion = math.MaxUint64

// Query is a read of one group, or of one log, as data: it is answered by any node that
// has an up-to-date view (machine.answer).
type Query struct {
	What    What
	Reason  wire.Reason
	Group   uint16
	Version uint64 // of the routes that paths were resolved with
	// Token is the request of AskWhole; the version of the routes whose next page AskRoute wants, 0 for the first page;
	// and of AskList AsIs.
	Token int64
	Page  int // whether AskWhole is about what was asked again on the same connection
	NS    string
	Path  string
	Owner string   // the blocker of AskBlocking, the session of AskWhole
	After string   // where AskScan, AskList and AskRoute go on
	Names []string // domains or paths
}

// AsIs says that the query is about an owner that was found up to an index of the log, its token. Who leads
// that, or did, and has applied as much answers it as it is, and asks nobody; it is asked once.
func (q *Query) AsIs() bool { return q.What == AskList && q.Token > 0 }

// Append appends the query's encoding.
//
//	query = what reason group version token page ns path owner after names
//
// Numbers are unsigned varints, token is signed, strings are length and bytes.
func (q *Query) Append(b []byte) []byte {
	b = append(b, byte(q.What), byte(q.Reason))
	b = binary.AppendUvarint(b, uint64(q.Group))
	b = binary.AppendUvarint(b, q.Version)
	b = binary.AppendVarint(b, q.Token)
	b = binary.AppendUvarint(b, uint64(q.Page))
	for _, s := range [...]string{q.NS, q.Path, q.Owner, q.After} {
		b = codec.AppendString(b, s)
	}
	b = binary.AppendUvarint(b, uint64(len(q.Names)))
	for _, s := range q.Names {
		b = codec.AppendString(b, s)
	}
	return b
}

// Read is the inverse of append. Strings are the query's own.
func (q *Query) Read(r *codec.Reader) {
	q.What, q.Reason = What(r.Byte()), wire.Reason(r.Byte())
	q.Group, q.Version, q.Token = uint16(r.Uvarint()), r.Uvarint(), r.Varint()
	q.Page = int(min(r.Uvarint(), wire.MaxDescribePage))
	for _, s := range [...]*string{&q.NS, &q.Path, &q.Owner, &q.After} {
		*s = r.Text()
	}
	n := r.Uvarint()
	if n > max(wire.MaxDomains, wire.MaxPaths) || q.What == 0 || q.What > lastAsked {
		r.Err = codec.ErrMalformed
	}
	for ; n > 0 && r.Err == nil; n-- {
		q.Names = append(q.Names, r.Text())
	}
}

// Answer answers a query from the state as it is.
func (m *Machine) Answer(q *Query) (res wire.Result) {
	switch q.What {
	case AskAny:
		return res
	case AskFind:
		res.List = new(wire.List)
		groups, applied := m.Find(q.Owner)
		res.Count = applied
		for _, g := range groups {
			res.List.Positions = append(res.List.Positions, wire.Position{Log: uint64(g)})
		}
		return res
	case AskHeld:
		res.List = new(wire.List)
		for _, g := range m.held(q.Group) {
			res.List.Positions = append(res.List.Positions, wire.Position{Log: uint64(g)})
		}
		return res
	case AskRoute, AskLater:
		return m.Routes(q.Version, uint64(q.Token), q.After)
	case AskWhole:
		var id engine.Session
		copy(id[:], q.Owner)
		return m.carriedOut(id, uint64(q.Token), q.Page != 0)
	}
	at := m.installs.Load()
	res = look(m.View(q.Group), q)
	if m.Installing.Load() || m.installs.Load() != at {
		res = wire.Result{}
		res.Fail(ErrInstalling) // fences that it asked the disk for may be missing there
	}
	return res
}

// ErrInstalling says that a replica's state is being replaced.
var ErrInstalling = wire.Errorf(wire.Unavailable,
	"the node is installing a snapshot of the log; nothing was read, try again")

// look answers a query of one group.
func look(v *engine.View, q *Query) (res wire.Result) {
	switch {
	case q.Version == AnyVersion:
	case q.What == AskInspect, q.What == AskDescribe, q.What == AskBlocking:
		if res, moved := v.Moved(q.NS, q.Path, q.Version); moved {
			return res
		}
	}
	switch q.What {
	case AskInspect:
		return v.Inspect(q.NS, q.Path)
	case AskDescribe:
		return v.Describe(q.NS, q.Path, q.Page)
	case AskBlocking:
		res.Flag = v.Blocking(q.NS, q.Path, q.Owner, q.Reason)
	case AskPolicy:
		res.Algorithm, res.Flag = v.Policy(q.NS)
	case AskAssert:
		for _, path := range q.Names {
			if res, moved := v.Moved(q.NS, path, q.Version); moved {
				return res
			}
			if res = v.Assert(q.Owner, q.NS, path, q.Token); res.Status != wire.StatusOK {
				return res
			}
		}
	case AskAlive:
		if res, moved := v.Overtaken(q.Version); moved && named(q.Names) {
			return res
		}
		if len(q.Names) == 0 {
			res.Flag = v.Alive(q.Owner, nil)
			break
		}
		res.List = new(wire.List) // the places of those in which it has
		for i := range q.Names {
			if v.Alive(q.Owner, q.Names[i:i+1]) {
				res.Flag, res.List.Positions = true, append(res.List.Positions, wire.Position{Log: uint64(i)})
			}
		}
	case AskList:
		if res, moved := v.Overtaken(q.Version); moved && named(q.Names) {
			return res
		}
		res.List = new(wire.List)
		res.Flag, res.List.Infos = v.Alive(q.Owner, q.Names), v.Owned(q.Owner, q.Names, placeOf(q.After), q.Page)
	case AskScan:
		res.List = new(wire.List)
		var last string
		res.List.Infos, last = v.Scan(q.Path, q.After, q.Page)
		res.List.Cursor = []byte(last)
	case AskKept:
		all, next := v.Carries(q.Path, q.After, carriedRoom)
		res.List = &wire.List{Cursor: engine.AppendCarried(nil, all)}
		if next != "" {
			res.List.Names = []string{next}
		}
	case AskEdge:
		res.Owner, res.Path, res.Reason, res.Flag = v.Edge(q.Owner)
	case AskWaits:
		res.Flag = v.Waits(q.Owner)
	}
	return res
}

// named says that some of the domains are namespaces that routes were asked for.
func named(domains []string) bool {
	return slices.ContainsFunc(domains, func(d string) bool { return !wire.IsHandler(d) })
}

// AppendPlace appends a lock's place among those of its owner: its mode and its path.
func AppendPlace(b []byte, i *wire.LockInfo) []byte {
	return append(append(b, byte(i.Mode)), i.Path...)
}

// placeOf is the inverse of AppendPlace; what is none comes before all locks.
func placeOf(s string) engine.Owned {
	if len(s) < 2 {
		return engine.Owned{}
	}
	return engine.Owned{Mode: wire.Mode(s[0]), Path: s[1:]}
}
