package groups

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/groups/rows"
	"github.com/pathlockd/pathlockd/wire"
)

// moves is what waits for routes that this node does not know yet: calls that are held back
// (line.go), and reads and calls in steps that met a move. One goroutine (movesLoop) looks
// after all of them, when the routes change, when something that others wait for is answered,
// and every so often for those whose time is over.
type moves struct {
	wake  chan struct{}
	count atomic.Int64 // calls held back

	mu       sync.Mutex
	lines    []*line // with calls that are held back, in the order in which they came to have some
	awaits   []await
	learning bool // the leader of the system log was asked for the next routes
}

// await is somebody who waits for routes of a version, or until due.
type await struct {
	version uint64
	due     time.Duration
	then    func(late bool) // called once, and does not block
}

const (
	// maxHeldBack is how many calls a node holds back because of moves, and how many wait for
	// routes else; over it they are answered UNAVAILABLE.
	maxHeldBack = 65_536
	// learnPause is how long a node that could not learn the next routes waits before it asks
	// again.
	learnPause = 100 * time.Millisecond
)

// room refuses to hold one more call back.
func (m *moves) room() *wire.Error {
	if m.count.Load() >= maxHeldBack {
		return wire.Errorf(wire.Unavailable,
			"%d requests are held back because namespaces are being moved, no more are; nothing was done, try again",
			maxHeldBack)
	}
	return nil
}

// hold notes that one more call is held back in a line.
func (m *moves) hold(ln *line) {
	m.count.Add(1)
	m.mu.Lock()
	if !ln.listed {
		ln.listed = true
		m.lines = append(m.lines, ln)
	}
	m.mu.Unlock()
	m.rouse()
}

// rouse makes the loop look.
func (m *moves) rouse() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// await calls then when this node knows routes of a version, or when the time of what came
// then is over. It answers why it will not.
func (n *Node) await(version uint64, due time.Duration, then func(late bool)) *wire.Error {
	n.moves.mu.Lock()
	defer n.moves.mu.Unlock()
	if len(n.moves.awaits) >= maxHeldBack {
		return wire.Errorf(wire.Unavailable,
			"%d requests wait for a namespace that is being moved, no more do; nothing was done, try again",
			maxHeldBack)
	}
	n.moves.awaits = append(n.moves.awaits, await{version, due, then})
	n.moves.rouse()
	return nil
}

// awaited waits until this node knows routes of a version; false when the time of what came at
// since is over before.
func (n *Node) awaited(version uint64, since time.Duration) bool {
	told, ok := make(chan struct{}), false
	err := n.await(version, since+n.cfg.RequestTimeout, func(late bool) {
		ok = !late
		close(told)
	})
	return err == nil && n.tasks.wait(forever, told, n.stop) == 0 && ok
}

// movesLoop looks after what waits for routes.
func (n *Node) movesLoop() {
	for pause := forever; n.tasks.wait(pause, n.stop, n.moves.wake) != 0; {
		if pause = forever; n.lookAfterMoves() {
			pause = n.cfg.RequestTimeout / 8
		}
	}
	n.endMoves()
}

// lookAfterMoves sends on what can be, and says whether something waits.
func (n *Node) lookAfterMoves() bool {
	m, now := &n.moves, n.clock.Mono()
	version := n.routes.Load().Version
	var ready, late []await
	m.mu.Lock()
	kept := m.awaits[:0]
	for _, a := range m.awaits {
		switch {
		case a.version <= version:
			ready = append(ready, a)
		case a.due <= now:
			late = append(late, a)
		default:
			kept = append(kept, a)
		}
	}
	clear(m.awaits[len(kept):])
	m.awaits = kept
	waits := len(kept) > 0
	lines := slices.Clone(m.lines)
	m.mu.Unlock()
	for _, a := range ready {
		a.then(false)
	}
	for _, a := range late {
		a.then(true)
	}
	var logs touched
	for _, ln := range lines {
		over, held := ln.advance(n, now, &logs)
		answerHeld(over)
		waits = waits || held
	}
	if len(lines) > 0 {
		m.tidy()
	}
	logs.start()
	if waits {
		n.learnNext()
	}
	return n.changes.late(n, now) || waits
}

// tidy forgets the lines in which nothing is held back any more.
func (m *moves) tidy() {
	m.mu.Lock()
	lines := slices.Clone(m.lines)
	m.mu.Unlock()
	for _, ln := range lines {
		ln.mu.Lock()
		if len(ln.held) == 0 {
			m.mu.Lock()
			ln.listed = false
			m.mu.Unlock()
		}
		ln.mu.Unlock()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	seen := make(map[*line]bool, len(m.lines)) // one may have been listed anew meanwhile
	m.lines = slices.DeleteFunc(m.lines, func(ln *line) bool {
		gone := !ln.listed || seen[ln]
		seen[ln] = true
		return gone
	})
}

func answerHeld(over []unheld) {
	var to repliers
	for i := range over {
		over[i].p.answer(&over[i].res, &to)
	}
	to.flush()
}

// learnNext asks for the next routes where this node has no replica of the system log that
// would tell it.
func (n *Node) learnNext() {
	m := &n.moves
	if n.logs[rows.SystemLog].own() != nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.learning {
		return
	}
	m.learning = true
	n.tasks.run(func() {
		err := n.learnRoutesAfter(n.routes.Load().Version)
		if err != nil {
			n.tasks.wait(learnPause, n.stop)
		}
		m.mu.Lock()
		m.learning = false
		m.mu.Unlock()
		m.rouse()
	})
}

// answerAll answers parts that are not to be sent on their way.
func answerAll(parts []*part, res *wire.Result) {
	var to repliers
	for _, p := range parts {
		p.answer(res, &to)
	}
	to.flush()
}

// closedHeld ends what a session has held back that was asked on a connection that is gone, or
// on one before it. Releases go on their way, but those behind an acquire that is ended so.
func (n *Node) closedHeld(s *wire.Session) {
	if n.moves.count.Load() == 0 {
		return
	}
	n.moves.mu.Lock()
	lines := slices.Clone(n.moves.lines)
	n.moves.mu.Unlock()
	for _, ln := range lines {
		answerAll(ln.take(n, func(p *part) bool {
			if p.Session.ID != s.ID || p.Session.Epoch > s.Epoch || p.Op == wire.OpRelease && !ln.behindCut(p.came) {
				return false
			}
			if p.Op == wire.OpAcquire {
				ln.cuts(p.came)
			}
			return true
		}), &connectionOver)
	}
}

// endMoves answers what waits for routes when the node is shut. It is called again for what is held back after that.
func (n *Node) endMoves() {
	m := &n.moves
	m.mu.Lock()
	awaits := m.awaits
	m.awaits = nil
	lines := m.lines
	m.lines = nil
	for _, ln := range lines {
		ln.listed = false
	}
	m.mu.Unlock()
	for _, a := range awaits {
		a.then(true)
	}
	for _, ln := range lines {
		answerAll(ln.take(n, func(*part) bool { return true }), &logClosed)
	}
}

// movedTo is the version of the routes that who met a move is to wait for, when an answer says
// that it was resolved with those of version used; 0 when it says nothing like it.
func movedTo(res *wire.Result, used uint64) uint64 {
	if res.Code != wire.Unavailable || res.Position != engine.Moved {
		return 0
	}
	return max(res.Count, used+1)
}
