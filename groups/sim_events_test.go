package groups

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/groups/events"
	"github.com/pathlockd/pathlockd/wire"
)

// Subscriptions of the simulation: clients hear of owners' events, and go on from their cursors at
// other nodes, as PROTOCOL.md has clients do. Every event of a log is the same on every node, and
// reaches everybody who asked for it, or a gap says that it may not have. A node that has no replica of a log is fed
// its events by another.

// toldEvents is what some node told of each log, by place.
type toldEvents map[wire.Position]engine.Event

// tapped takes note of an event that a node tells.
func (k *checks) tapped(w *world, n *simNode, e engine.Event, at wire.Position) {
	if k.told == nil {
		k.told = make(toldEvents)
	}
	if was, ok := k.told[at]; ok && was != e {
		w.fail("node %d tells %v of %v, another one told %v", n.index, e, at, was)
	}
	k.told[at] = e
}

// simSub is what a client wants to hear of an owner.
type simSub struct {
	owner  string
	conn   *simConn // that it is asked on
	live   bool     // and was answered there
	sub    *wire.Subscription
	cursor []wire.Position // nil: it has none
	got    map[wire.Position]bool
	from   map[uint64]wire.Position // by log: what came up to there it need not have heard of
	last   map[uint64]wire.Position // by log: the last place told on this connection
	gaps   int
}

// listens has a client listen to some owners: of its own, and of another client.
func (c *simClient) listens() {
	other := (c.index + 1) % 5
	for _, owner := range []string{fmt.Sprintf("o%da", c.index), fmt.Sprintf("o%dz", other),
		fmt.Sprintf("o%db", other)} {
		c.subs = append(c.subs, &simSub{owner: owner, got: make(map[wire.Position]bool),
			from: make(map[uint64]wire.Position)})
	}
}

// subscribe asks for all that the client wants to hear, on a new connection.
func (conn *simConn) subscribe() {
	for _, s := range conn.c.subs {
		s.conn, s.live, s.last = conn, false, make(map[uint64]wire.Position)
		conn.forth(func() {
			s.sub = &wire.Subscription{Owner: s.owner, Kinds: wire.AllEvents, From: slices.Clone(s.cursor),
				Sink: &simSink{conn, s}, Conn: conn}
			at, err := conn.node.node.Subscribe(s.sub)
			if err != nil {
				conn.c.w.fail("client %d does not hear of %s: %v", conn.c.index, s.owner, err)
				return
			}
			conn.subs = append(conn.subs, s.sub)
			conn.back(func() { // its pushes that the node told meanwhile come behind it
				s.live = true
				if s.cursor == nil {
					s.take(at, true)
				}
			})
		})
	}
}

// take takes a whole cursor. With anew what came before is nothing to have heard of.
func (s *simSub) take(cursor []wire.Position, anew bool) {
	s.cursor = slices.Clone(cursor)
	for _, p := range cursor {
		if was := s.from[p.Log]; anew && events.After(p, was) {
			s.from[p.Log] = p
		}
	}
}

// simSink is a subscription on one connection.
type simSink struct {
	conn *simConn
	s    *simSub
}

// Deliver implements wire.EventSink.
func (k *simSink) Deliver(sub *wire.Subscription, kind wire.EventKind, path, ns string, token int64, at wire.Position) {
	s, w := k.s, k.conn.c.w
	e := engine.Event{Owner: sub.Owner, Kind: kind, Path: path, Namespace: ns, Token: token}
	k.conn.back(func() {
		if s.conn != k.conn {
			return
		}
		w.note("client %d hears %v of %s, %s, at %v", k.conn.c.index, kind, sub.Owner, path, at)
		if was, ok := s.last[at.Log]; ok && !events.After(at, was) {
			w.fail("client %d hears of %v of log %d behind %v", k.conn.c.index, at, at.Log, was)
		}
		if was, ok := w.check.told[at]; ok && was != e {
			w.fail("client %d hears %v at %v, where %v was told", k.conn.c.index, e, at, was)
		}
		w.count.heard++
		s.last[at.Log], s.got[at] = at, true
		if i := slices.IndexFunc(s.cursor, func(p wire.Position) bool { return p.Log == at.Log }); i >= 0 {
			s.cursor[i] = at
		} else if s.cursor != nil {
			s.cursor = append(s.cursor, at)
		}
	})
}

// Progress implements wire.EventSink; here it comes for whole connections.
func (k *simSink) Progress(*wire.Subscription, []wire.Position) {
	k.conn.c.w.fail("client %d is told of progress beside its connection", k.conn.c.index)
}

// Gap implements wire.EventSink.
func (k *simSink) Gap(_ *wire.Subscription, cursor []wire.Position) {
	s := k.s
	k.conn.back(func() {
		if s.conn != k.conn {
			return
		}
		k.conn.c.w.note("client %d hears of a gap, of %s, up to %v", k.conn.c.index, s.owner, cursor)
		s.gaps++
		clear(s.last)
		s.take(cursor, true)
	})
}

// Progress implements wire.ProgressSink.
func (conn *simConn) Progress(cursor []wire.Position) {
	conn.back(func() {
		for _, s := range conn.c.subs {
			if s.conn == conn && s.live {
				s.take(cursor, false)
			}
		}
	})
}

// unheard fails when a client that goes on did not hear of something, and of no gap.
func (k *checks) unheard(w *world) {
	places := slices.SortedFunc(maps.Keys(k.told), func(a, b wire.Position) int {
		return cmp.Or(cmp.Compare(a.Log, b.Log), cmp.Compare(a.Index, b.Index), cmp.Compare(a.Ordinal, b.Ordinal))
	})
	for _, c := range w.clients {
		for _, s := range c.subs {
			if c.dead || !s.live || c.conn == nil || c.conn.gone || c.conn.closed {
				continue
			}
			for _, at := range places {
				e := k.told[at]
				if e.Owner == s.owner && events.After(at, s.from[at.Log]) && !s.got[at] {
					w.fail("client %d never heard %v of %s, %s, at %v: its cursor is %v, it heard of %d gaps, the "+
						"last one ends at %v",
						c.index, e.Kind, e.Owner, e.Path, at, s.cursor, s.gaps, s.from[at.Log])
				}
			}
		}
	}
}
