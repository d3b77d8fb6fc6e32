package groups

import (
	"cmp"
	"slices"

	"github.com/pathlockd/pathlockd/groups/rows"
)

// followed is what run last knew of who leads.
type followed struct {
	mine uint64 // term in which this node does, as raft says
	host string // who does otherwise
	term uint64
}

// follow gives up the open calls that are attached here when this node does not lead the
// log any more: a wait is answered where the log's leader is. So it does with its own when a snapshot was
// installed, though it leads: another one led meanwhile, which it may never have heard of, and what was answered
// by then nobody tells it but the log, if it asks. It is of run alone.
func (l *shardLog) follow() {
	host, term := l.node.leaderOf(l.shard)
	if host == l.node.id.HostID {
		host = ""
	}
	now := followed{mine: l.mine(), host: host, term: term}
	if !l.unfollow.Swap(false) && now == l.followed {
		return
	}
	l.followed = now
	n := l.node
	n.bounce(n.attached(l, func(p *part) bool { return p.from != nil && p.term != now.mine }))
	if now.mine != 0 && !l.missed.Load() || now.mine == 0 && host == "" {
		return
	}
	l.missed.Store(false)
	move := n.attached(l, func(p *part) bool { return p.from == nil })
	if l.shard == rows.SystemLog {
		own := n.changes.all()
		for i, p := range own {
			if p.from != nil {
				n.bounce(own[i : i+1])
			} else {
				p.tried = true
				move = append(move, p)
			}
		}
	}
	if len(move) == 0 {
		return
	}
	slices.SortFunc(move, func(x, y *part) int {
		return cmp.Or(cmp.Compare(x.since, y.since), cmp.Compare(x.ID, y.ID))
	})
	l.mu.Lock()
	l.inFront(l.withEndings(move))
	l.mu.Unlock()
}

// withEndings lets each wait that was ended, as far as its caller is concerned, be ended again: once it
// is attached anew, or in its stead if its caller is gone (unqueue). It is called under the lock.
func (l *shardLog) withEndings(parts []*part) []*part {
	out := parts[:0:0]
	for _, p := range parts {
		out = append(out, p)
		if !p.waits {
			continue
		}
		if over, ok := l.node.waits.ended(p); ok {
			over.group, over.session = p.Group, p.Session
			out = append(out, l.node.ending(over))
		}
	}
	return out
}

// attached takes the open calls of a log that are and that this node would answer out of
// its hands.
func (n *Node) attached(l *shardLog, are func(*part) bool) (parts []*part) {
	mine := n.waits.those(func(p *part) bool { return p.log == l && are(p) })
	if len(mine) == 0 {
		return nil
	}
	if m := l.local.Load(); m != nil {
		m.Lock()
		defer m.Unlock()
	}
	for _, p := range mine {
		if n.waits.reopens(p) {
			parts = append(parts, p)
		}
	}
	return parts
}

// weed takes out of the queue what must not be proposed: the connection that it came on is
// gone, or the term that it is for is over. It is called under the lock; bounce then tells the
// peers.
func (l *shardLog) weed() (over []*part) {
	term := l.mine()
	l.mu.suspect = false
	kept := l.mu.queue[:0]
	for _, p := range l.mu.queue {
		if p.ofOneTerm() && p.term != term || p.from != nil && p.from.closed.Load() {
			over = append(over, p)
		} else {
			kept = append(kept, p)
		}
	}
	clear(l.mu.queue[len(kept):])
	l.mu.queue = kept
	return over
}

// bounce tells peers that parts of theirs are not done here. Nobody asks what becomes of this
// node's own.
func (n *Node) bounce(parts []*part) {
	if len(parts) == 0 {
		return
	}
	var to repliers
	for _, p := range parts {
		n.finish(p)
		if p.waits {
			n.waits.take(p.caller(), p)
		}
		if p.from != nil {
			p.from.refuse(p)
			to.add(p.from)
		}
	}
	to.flush()
}

// unsure lets go of parts of peers that may have been carried out or not. Each peer is
// told so by the end of its connection.
func (n *Node) unsure(parts []*part) {
	for _, p := range parts {
		n.finish(p)
		p.from.release(p)
		if p.waits && n.waits.take(p.caller(), p) {
			n.leftAlone(p)
		}
		p.from.conn.Close(errUnsure)
		n.peerGone(p.from.conn)
	}
}
