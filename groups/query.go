package groups

import (
	"encoding/binary"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/wire"
)

// asked is what a read wants to know. Its numbers are part of what nodes say to each
// other.
type asked uint8

const (
	// Of one group.
	askInspect  asked = iota + 1 // who holds a path
	askDescribe                  // everything about a path
	askBlocking                  // whether a lock is still in the way
	askPolicy                    // the algorithm of a namespace
	askAssert                    // whether an owner writes paths under a token
	askAlive                     // whether an owner has a lease in one of the domains
	askList                      // what an owner holds in them
	askScan                      // locks in order
	askEdge                      // an owner's wait edge
	askWaits                     // whether an owner waits for something

	// Of a log.
	askFind  // groups in which an owner has an ownership record
	askHeld  // groups in which something is held, from one on
	askAny   // nothing: whether the log can be read
	askRoute // the routes, of the system log, if later than the asker's
	askLater // likewise, but answered when they are, or after a while (laterWithin)

	askKept // of one group: answers that move with a subtree

	askWhole // of a log: whether all of a session's request was carried out

	lastAsked = askWhole
)

// anyVersion is for reads that a routing change may overtake.
const anyVersion = math.MaxUint64

// query is a read of one group, or of one log, as data: it is answered by any node that
// has an up-to-date view (machine.answer).
type query struct {
	what    asked
	reason  wire.Reason
	group   uint16
	version uint64 // of the routes that paths were resolved with
	token   int64  // the request of askWhole; the version of the routes whose next page askRoute wants, 0 for the first page; of askList asIs
	page    int    // whether askWhole is about what was asked again on the same connection
	ns      string
	path    string
	owner   string   // the blocker of askBlocking, the session of askWhole
	after   string   // where askScan, askList and askRoute go on
	names   []string // domains or paths
}

// asIs says that the query is about an owner that was found up to an index of the log, its token. Who leads
// that, or did, and has applied as much answers it as it is, and asks nobody; it is asked once.
func (q *query) asIs() bool { return q.what == askList && q.token > 0 }

// append appends the query's encoding.
//
//	query = what reason group version token page ns path owner after names
//
// Numbers are unsigned varints, token is signed, strings are length and bytes.
func (q *query) append(b []byte) []byte {
	b = append(b, byte(q.what), byte(q.reason))
	b = binary.AppendUvarint(b, uint64(q.group))
	b = binary.AppendUvarint(b, q.version)
	b = binary.AppendVarint(b, q.token)
	b = binary.AppendUvarint(b, uint64(q.page))
	for _, s := range [...]string{q.ns, q.path, q.owner, q.after} {
		b = appendString(b, s)
	}
	b = binary.AppendUvarint(b, uint64(len(q.names)))
	for _, s := range q.names {
		b = appendString(b, s)
	}
	return b
}

// read is the inverse of append. Strings are the query's own.
func (q *query) read(r *entryReader) {
	q.what, q.reason = asked(r.byte()), wire.Reason(r.byte())
	q.group, q.version, q.token = uint16(r.uvarint()), r.uvarint(), r.varint()
	q.page = int(min(r.uvarint(), wire.MaxDescribePage))
	for _, s := range [...]*string{&q.ns, &q.path, &q.owner, &q.after} {
		*s = r.text()
	}
	n := r.uvarint()
	if n > max(wire.MaxDomains, wire.MaxPaths) || q.what == 0 || q.what > lastAsked {
		r.err = errEntry
	}
	for ; n > 0 && r.err == nil; n-- {
		q.names = append(q.names, r.text())
	}
}

// answer answers a query from the state as it is.
func (m *machine) answer(q *query) (res wire.Result) {
	switch q.what {
	case askAny:
		return res
	case askFind:
		res.List = new(wire.List)
		groups, applied := m.find(q.owner)
		res.Count = applied
		for _, g := range groups {
			res.List.Positions = append(res.List.Positions, wire.Position{Log: uint64(g)})
		}
		return res
	case askHeld:
		res.List = new(wire.List)
		for _, g := range m.held(q.group) {
			res.List.Positions = append(res.List.Positions, wire.Position{Log: uint64(g)})
		}
		return res
	case askRoute, askLater:
		return m.routes(q.version, uint64(q.token), q.after)
	case askWhole:
		var id engine.Session
		copy(id[:], q.owner)
		return m.carriedOut(id, uint64(q.token), q.page != 0)
	}
	at := m.installs.Load()
	res = look(m.view(q.group), q)
	if m.installing.Load() || m.installs.Load() != at {
		res = wire.Result{}
		res.Fail(errInstalling) // fences that it asked the disk for may be missing there
	}
	return res
}

// errInstalling says that a replica's state is being replaced.
var errInstalling = wire.Errorf(wire.Unavailable, "the node is installing a snapshot of the log; nothing was read, try again")

// look answers a query of one group.
func look(v *engine.View, q *query) (res wire.Result) {
	switch {
	case q.version == anyVersion:
	case q.what == askInspect, q.what == askDescribe, q.what == askBlocking:
		if res, moved := v.Moved(q.ns, q.path, q.version); moved {
			return res
		}
	}
	switch q.what {
	case askInspect:
		return v.Inspect(q.ns, q.path)
	case askDescribe:
		return v.Describe(q.ns, q.path, q.page)
	case askBlocking:
		res.Flag = v.Blocking(q.ns, q.path, q.owner, q.reason)
	case askPolicy:
		res.Algorithm, res.Flag = v.Policy(q.ns)
	case askAssert:
		for _, path := range q.names {
			if res, moved := v.Moved(q.ns, path, q.version); moved {
				return res
			}
			if res = v.Assert(q.owner, q.ns, path, q.token); res.Status != wire.StatusOK {
				return res
			}
		}
	case askAlive:
		if res, moved := v.Overtaken(q.version); moved && named(q.names) {
			return res
		}
		if len(q.names) == 0 {
			res.Flag = v.Alive(q.owner, nil)
			break
		}
		res.List = new(wire.List) // the places of those in which it has
		for i := range q.names {
			if v.Alive(q.owner, q.names[i:i+1]) {
				res.Flag, res.List.Positions = true, append(res.List.Positions, wire.Position{Log: uint64(i)})
			}
		}
	case askList:
		if res, moved := v.Overtaken(q.version); moved && named(q.names) {
			return res
		}
		res.List = new(wire.List)
		res.Flag, res.List.Infos = v.Alive(q.owner, q.names), v.Owned(q.owner, q.names, placeOf(q.after), q.page)
	case askScan:
		res.List = new(wire.List)
		var last string
		res.List.Infos, last = v.Scan(q.path, q.after, q.page)
		res.List.Cursor = []byte(last)
	case askKept:
		all, next := v.Carries(q.path, q.after, carriedRoom)
		res.List = &wire.List{Cursor: engine.AppendCarried(nil, all)}
		if next != "" {
			res.List.Names = []string{next}
		}
	case askEdge:
		res.Owner, res.Path, res.Reason, res.Flag = v.Edge(q.owner)
	case askWaits:
		res.Flag = v.Waits(q.owner)
	}
	return res
}

// named says that some of the domains are namespaces that routes were asked for.
func named(domains []string) bool {
	return slices.ContainsFunc(domains, func(d string) bool { return !wire.IsHandler(d) })
}

// held answers the groups of the log, from one on, in which something is held.
func (m *machine) held(from uint16) (numbers []uint16) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, g := range m.order {
		if locks, _ := g.state.Counts(); locks > 0 && g.number >= from {
			numbers = append(numbers, g.number)
		}
	}
	return numbers
}

// groupsIn is the groups that askFind or askHeld answered.
func groupsIn(res *wire.Result) (groups []uint16) {
	if res.List != nil {
		for _, p := range res.List.Positions {
			groups = append(groups, uint16(p.Log))
		}
	}
	return groups
}

// checkQuery says that a query is one of a log that this node could answer.
func (n *Node) checkQuery(q *query, l *shardLog) bool {
	if q.what >= askFind && q.what != askKept {
		return q.what != askRoute && q.what != askLater || l.shard == systemShard
	}
	return int(q.group) < len(n.homes) && n.logOf(q.group) == l && resolved(q)
}

// resolved says that the namespace of a query is the beginning of its paths: the engine
// relies on it.
func resolved(q *query) bool {
	switch q.what {
	case askInspect, askDescribe, askBlocking:
		return strings.HasPrefix(q.path, q.ns)
	case askAssert:
		return !slices.ContainsFunc(q.names, func(p string) bool { return !strings.HasPrefix(p, q.ns) })
	}
	return true
}

// pathQuery is a read of one path, but for its group.
func pathQuery(c *wire.Call, r *wire.Routes, path string) *query {
	q := &query{version: r.Version, ns: r.Resolve(path), path: path}
	switch c.Op {
	case wire.OpInspectPath:
		q.what = askInspect
	case wire.OpDescribe:
		q.what, q.page = askDescribe, int(c.Req.Page)
		if q.page == 0 {
			q.page = wire.DefaultDumpPage
		}
		q.page = min(q.page, wire.MaxDescribePage)
	default:
		q.what, q.owner, q.reason = askBlocking, c.Req.Blocker, c.Req.Reason
	}
	return q
}

// assertQuery is an assertion about paths of one namespace, but for its group.
func assertQuery(req *wire.Request, ns string, r *wire.Routes) *query {
	return &query{
		what: askAssert, version: r.Version, ns: ns, owner: req.Owner, token: req.Token,
		names: append([]string(nil), req.Paths...),
	}
}

// readPath answers a read of one path.
func (n *Node) readPath(c *wire.Call, r *wire.Routes, path string, since time.Duration) *wire.Error {
	q := pathQuery(c, r, path)
	q.group = n.groupOf(q.ns)
	return n.readGroup(c, q, since)
}

// readPolicy answers the policy of exactly one namespace.
func (n *Node) readPolicy(c *wire.Call, since time.Duration) *wire.Error {
	if err := n.redirects(c, n.logOf(n.groupOf(c.Req.Namespace))); err != nil {
		return err
	}
	return n.stepped(c, since)
}

// readAssert answers an assertion about paths of one namespace.
func (n *Node) readAssert(c *wire.Call, ns string, r *wire.Routes, since time.Duration) *wire.Error {
	q := assertQuery(c.Req, ns, r)
	q.group = n.groupOf(ns)
	return n.readGroup(c, q, since)
}

// readGroup answers a call from a view of one group that is up to date. One that meets a move
// is asked again when this node knows the routes that it was refused for the want of.
func (n *Node) readGroup(c *wire.Call, q *query, since time.Duration) *wire.Error {
	l := n.logOf(q.group)
	if err := n.redirects(c, l); err != nil {
		return err
	}
	n.readOf(l, c, q, since)
	return nil
}

func (n *Node) readOf(l *shardLog, c *wire.Call, q *query, since time.Duration) {
	n.read(l, q, since, func(res *wire.Result) {
		need := movedTo(res, q.version)
		if need == 0 {
			finish(c, res)
			return
		}
		err := n.await(need, since+n.cfg.RequestTimeout, func(late bool) {
			if late {
				finish(c, &tooLongInMove)
				return
			}
			n.readAgain(c, since)
		})
		if err != nil {
			finish(c, &wire.Result{Code: err.Code, Message: err.Message})
		}
	})
}

// readAgain resolves a read anew, and asks it where its path is now.
func (n *Node) readAgain(c *wire.Call, since time.Duration) {
	c.Req = new(wire.Request)
	if err := wire.DecodeArgs(c.Op, c.Body, c.NArgs, c.Req); err != nil {
		finish(c, &wire.Result{Code: err.Code, Message: err.Message})
		return
	}
	r := n.routes.Load()
	var q *query
	if c.Op == wire.OpAssertFencing {
		ns, one := samePaths(r, c.Req.Paths)
		if !one { // they are in several namespaces now
			if err := n.stepped(c, since); err != nil {
				finish(c, &wire.Result{Code: err.Code, Message: err.Message})
			}
			return
		}
		q = assertQuery(c.Req, ns, r)
		q.group = n.groupOf(ns)
	} else {
		q = pathQuery(c, r, c.Req.Path)
		q.group = n.groupOf(q.ns)
	}
	n.readOf(n.logOf(q.group), c, q, since)
}
