package groups

import (
	"slices"
	"strings"
	"time"

	"github.com/pathlockd/pathlockd/groups/replica"
	"github.com/pathlockd/pathlockd/groups/rows"
	"github.com/pathlockd/pathlockd/wire"
)

// groupsIn is the groups that AskFind or AskHeld answered.
func groupsIn(res *wire.Result) (groups []uint16) {
	if res.List != nil {
		for _, p := range res.List.Positions {
			groups = append(groups, uint16(p.Log))
		}
	}
	return groups
}

// checkQuery says that a query is one of a log that this node could answer.
func (n *Node) checkQuery(q *replica.Query, l *shardLog) bool {
	if q.What >= replica.AskFind && q.What != replica.AskKept {
		return q.What != replica.AskRoute && q.What != replica.AskLater || l.shard == rows.SystemLog
	}
	return int(q.Group) < len(n.homes) && n.logOf(q.Group) == l && resolved(q)
}

// resolved says that the namespace of a query is the beginning of its paths: the engine
// relies on it.
func resolved(q *replica.Query) bool {
	switch q.What {
	case replica.AskInspect, replica.AskDescribe, replica.AskBlocking:
		return strings.HasPrefix(q.Path, q.NS)
	case replica.AskAssert:
		return !slices.ContainsFunc(q.Names, func(p string) bool { return !strings.HasPrefix(p, q.NS) })
	}
	return true
}

// pathQuery is a read of one path, but for its group.
func pathQuery(c *wire.Call, r *wire.Routes, path string) *replica.Query {
	q := &replica.Query{Version: r.Version, NS: r.Resolve(path), Path: path}
	switch c.Op {
	case wire.OpInspectPath:
		q.What = replica.AskInspect
	case wire.OpDescribe:
		q.What, q.Page = replica.AskDescribe, int(c.Req.Page)
		if q.Page == 0 {
			q.Page = wire.DefaultDumpPage
		}
		q.Page = min(q.Page, wire.MaxDescribePage)
	default:
		q.What, q.Owner, q.Reason = replica.AskBlocking, c.Req.Blocker, c.Req.Reason
	}
	return q
}

// assertQuery is an assertion about paths of one namespace, but for its group.
func assertQuery(req *wire.Request, ns string, r *wire.Routes) *replica.Query {
	return &replica.Query{
		What: replica.AskAssert, Version: r.Version, NS: ns, Owner: req.Owner, Token: req.Token,
		Names: append([]string(nil), req.Paths...),
	}
}

// readPath answers a read of one path.
func (n *Node) readPath(c *wire.Call, r *wire.Routes, path string, since time.Duration) *wire.Error {
	q := pathQuery(c, r, path)
	q.Group = n.groupOf(q.NS)
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
	q.Group = n.groupOf(ns)
	return n.readGroup(c, q, since)
}

// readGroup answers a call from a view of one group that is up to date. One that meets a move
// is asked again when this node knows the routes that it was refused for the want of.
func (n *Node) readGroup(c *wire.Call, q *replica.Query, since time.Duration) *wire.Error {
	l := n.logOf(q.Group)
	if err := n.redirects(c, l); err != nil {
		return err
	}
	n.readOf(l, c, q, since)
	return nil
}

func (n *Node) readOf(l *shardLog, c *wire.Call, q *replica.Query, since time.Duration) {
	n.read(l, q, since, func(res *wire.Result) {
		need := movedTo(res, q.Version)
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
	var q *replica.Query
	if c.Op == wire.OpAssertFencing {
		ns, one := samePaths(r, c.Req.Paths)
		if !one { // they are in several namespaces now
			if err := n.stepped(c, since); err != nil {
				finish(c, &wire.Result{Code: err.Code, Message: err.Message})
			}
			return
		}
		q = assertQuery(c.Req, ns, r)
		q.Group = n.groupOf(ns)
	} else {
		q = pathQuery(c, r, c.Req.Path)
		q.Group = n.groupOf(q.NS)
	}
	n.readOf(n.logOf(q.Group), c, q, since)
}
