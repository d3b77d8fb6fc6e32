package groups

import (
	"sync"
	"time"

	"github.com/pathlockd/pathlockd/groups/replica"
	"github.com/pathlockd/pathlockd/groups/rows"
	"github.com/pathlockd/pathlockd/wire"
)

// How nodes that have no replica of the system log learn the routes: from its leader, in pages when they are
// long. All pages must be of one version. As policies may change more often than all pages can be told, who tells
// them keeps the versions that somebody is at, and a question for a later page names its own.

// laterWithin is how long a node is asked for routes that are not there yet.
const laterWithin = 5 * time.Second

// learning is the calls that wait until this node knows the routes that were in force when they asked. One question is
// asked for all that wait; those that come while it is under way wait for the next. All pages for each of thousands of
// calls would be more than a node has memory for. Whoever waits has a place of a call in steps (maxStepped, maxTended),
// or is one of the node's own loops; a call whose time is over is let go of with the question under way.
type learning struct {
	mu      sync.Mutex
	waiting []*learn
	busy    bool

	// pages has a token for who asks for later pages. Beside those who wait for the routes in force there is who
	// wants later ones (learnNext), and often the outcome of one is what the other wants.
	pages chan struct{}
}

// learn is one call's wish.
type learn struct {
	since time.Duration
	told  chan struct{} // closed once err says what became of it
	err   *wire.Error
}

func (l *learning) begin() {
	l.pages = make(chan struct{}, 1)
	l.pages <- struct{}{}
}

// learnRoutes gets the routes in force from the system log's leader. It is for nodes that
// have no replica of that log.
func (n *Node) learnRoutes(since time.Duration) *wire.Error {
	w := &learn{since: since, told: make(chan struct{})}
	n.learning.mu.Lock()
	n.learning.waiting = append(n.learning.waiting, w)
	begins := !n.learning.busy
	n.learning.busy = true
	n.learning.mu.Unlock()
	if begins {
		n.tasks.run(n.learnForAll)
	}
	switch n.tasks.wait(since+n.cfg.RequestTimeout-n.clock.Mono(), w.told, n.stop) {
	case 0:
		return w.err
	case 1:
		return errReadStopped
	}
	return errReadLate
}

// learnForAll learns the routes until nobody waits for them. It has as much time as who came last: the others
// stop waiting when theirs is over.
func (n *Node) learnForAll() {
	for l := &n.learning; ; {
		l.mu.Lock()
		all := l.waiting
		l.waiting = nil
		l.busy = len(all) > 0
		l.mu.Unlock()
		if len(all) == 0 {
			return
		}
		since := all[0].since
		for _, w := range all {
			since = max(since, w.since)
		}
		err := n.learnRoutesBy(replica.AskRoute, n.routes.Load().Version, since)
		for _, w := range all {
			w.err = err
			close(w.told)
		}
	}
}

// learnRoutesAfter waits a while for routes later than of a version. It is called by one goroutine at a time.
func (n *Node) learnRoutesAfter(version uint64) *wire.Error {
	return n.learnRoutesBy(replica.AskLater, version, n.clock.Mono())
}

// learnRoutesBy asks for the routes in force, if they are later than of a version. Those that were in force when the
// first page was told will do, whoever learns them.
func (n *Node) learnRoutesBy(what replica.What, version uint64, since time.Duration) *wire.Error {
	q := &replica.Query{What: what, Version: version}
	first := n.askLeader(n.logs[rows.SystemLog], q, since)
	if err := first.Err(); err != nil || first.List == nil {
		return err
	}
	if len(first.List.Cursor) > 0 {
		switch n.tasks.wait(since+n.cfg.RequestTimeout-n.clock.Mono(), n.learning.pages, n.stop) {
		case 0:
			defer func() { n.learning.pages <- struct{}{} }()
		case 1:
			return errReadStopped
		default:
			return errReadLate
		}
	}
	return n.learnPages(q, &first, since)
}

// errRoutesChange answers a call that would have to know the routes.
var errRoutesChange = wire.Errorf(wire.Unavailable,
	"the namespace policies changed again and again while they were read; nothing was read, try again")

// learnPages asks for the pages behind a first one, until this node knows routes as late as that. When their version is
// not kept any more, because another node leads or too many are being told, it begins with those in force.
func (n *Node) learnPages(q *replica.Query, page *wire.Result, since time.Duration) *wire.Error {
	wanted := page.Count
	var roots []string
	for n.routes.Load().Version < wanted {
		if q.Token == 0 {
			roots, q.Token = nil, int64(page.Count)
		}
		if of := uint64(q.Token); page.Count == of {
			roots = append(roots, page.List.Names...)
			if q.After = string(page.List.Cursor); q.After == "" {
				n.setRoutes(wire.NewRoutes(of, n.cfg.Segments, roots))
				return nil
			}
		} else {
			if n.clock.Mono()-since >= n.cfg.RequestTimeout {
				return errRoutesChange
			}
			q.Token, q.After = 0, ""
		}
		res := n.askLeader(n.logs[rows.SystemLog], q, since)
		if err := res.Err(); err != nil || res.List == nil {
			return err
		}
		page = &res
	}
	return nil
}
