package lab

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/pathlockd/pathlockd/bench/lab/cluster"
	"github.com/pathlockd/pathlockd/bench/lab/history"
	"github.com/pathlockd/pathlockd/bench/session"
	"github.com/pathlockd/pathlockd/wire"
)

const (
	// mostEars are listened with at once, more only when that many wait for something.
	mostEars = 48
	// stays is how long the listener stays at a node that does not break, and away how long
	// it is between two: what happens meanwhile it must be told of afterwards.
	stays = time.Second
	away  = 300 * time.Millisecond
	// pollEars is how often pushes are taken from the connection.
	pollEars = 20 * time.Millisecond
	// earWithin is how long a client waits until its owner is listened for. It goes on
	// without when nobody can listen.
	earWithin = 500 * time.Millisecond
	askedEars = 2 * time.Second // for an answer, before another node is tried
)

// listener hears what happens to owners that wait in open calls: by one connection to one
// node after the other, with a cursor for each owner.
type listener struct {
	e    *episode
	s    *session.Session
	over chan struct{}   // nobody wants to hear anything more
	gone chan struct{}   // it has stopped
	byNo map[uint64]*ear // on this connection; of the listener's goroutine alone

	mu   sync.Mutex
	ears []*ear // in order of their owners' coming
}

// ear is what is heard of one owner.
type ear struct {
	history.Ear
	cursor map[uint64]wire.Position // nil: it is not subscribed yet
	live   chan struct{}            // closed once it is
	number uint64                   // on this connection, 0: not subscribed on it
	wants  bool                     // a grant that is to be heard
	token  int64                    // of it: 0 if it is a read
	since  time.Duration            // it was asked for
	done   bool                     // its owner's turn is over
}

func (e *episode) listen() *listener {
	l := &listener{e: e, s: session.New(), over: make(chan struct{}), gone: make(chan struct{})}
	go l.run()
	return l
}

// follow listens for an owner from now on, and waits a while until that is so.
func (l *listener) follow(owner, namespace string) {
	x := &ear{Ear: history.Ear{Owner: owner, Namespace: namespace, Era: l.e.rec.Era(), From: history.Forever},
		live: make(chan struct{})}
	l.mu.Lock()
	l.ears = append(l.ears, x)
	l.mu.Unlock()
	late := time.NewTimer(earWithin)
	defer late.Stop()
	select {
	case <-x.live:
	case <-late.C:
	case <-l.e.ctx.Done():
	}
}

// granted says that an owner was told of a grant that is to be heard, and ended that its
// turn is over.
func (l *listener) granted(owner, namespace string, token int64, since time.Duration) {
	l.change(owner, func(x *ear) {
		if x.Namespace == namespace {
			x.wants, x.token, x.since = true, token, since
		}
	})
}

func (l *listener) ended(owner string) { l.change(owner, func(x *ear) { x.done = true }) }

func (l *listener) change(owner string, do func(*ear)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, x := range l.ears {
		if x.Owner == owner {
			do(x)
		}
	}
}

// waits says that something is to be heard that was not. The lock is held.
func (x *ear) waits() bool {
	return x.wants && x.From <= x.since && !x.Granted(x.token) && !x.Missed(x.since)
}

// prune takes ears off that have nothing more to hear.
func (l *listener) prune() (off []*ear) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := 0; len(l.ears) > mostEars && i < len(l.ears); {
		if x := l.ears[i]; x.done && !x.waits() {
			l.e.rec.Ear(x.Ear)
			l.ears, off = slices.Delete(l.ears, i, i+1), append(off, x)
			continue
		}
		i++
	}
	return off
}

// finish waits until everything was heard, or that is overdue, and writes all down. When
// the run was cut short nobody says that more was to be heard.
func (l *listener) finish(whole bool) {
	again := time.NewTicker(pollEars)
	defer again.Stop()
	for late := time.Now().Add(stuckAfter); whole && time.Now().Before(late) && l.e.ctx.Err() == nil; {
		l.mu.Lock()
		more := slices.ContainsFunc(l.ears, (*ear).waits)
		l.mu.Unlock()
		if !more {
			break
		}
		<-again.C
	}
	close(l.over)
	<-l.gone
	for _, x := range l.ears {
		x.Whole = whole && l.e.ctx.Err() == nil
		l.e.rec.Ear(x.Ear)
	}
}

func (l *listener) stopped() bool {
	select {
	case <-l.over:
		return true
	default:
		return l.e.ctx.Err() != nil
	}
}

// run goes from node to node.
func (l *listener) run() {
	defer close(l.gone)
	for node := 0; !l.stopped(); node++ {
		if nodes := l.e.cluster.Nodes(); node >= nodes {
			node = 0
		}
		if l.stay(node) == nil {
			l.rest(away)
		} else {
			l.rest(reconnect)
		}
	}
}

func (l *listener) rest(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-l.over:
	case <-l.e.ctx.Done():
	}
}

// stay listens at a node for a while.
func (l *listener) stay(node int) error {
	l.byNo = make(map[uint64]*ear)
	l.mu.Lock()
	for _, x := range l.ears {
		x.number = 0
	}
	l.mu.Unlock()
	ctx, cancel := context.WithTimeout(l.e.ctx, askedEars)
	conn, err := l.e.cluster.Dial(ctx, node, l.s)
	cancel()
	if err != nil {
		return err
	}
	defer conn.Close()
	conn.Hear(l)
	for until := time.Now().Add(stays); time.Now().Before(until) && !l.stopped(); l.rest(pollEars) {
		for _, x := range l.unheard() {
			if err := l.subscribe(conn, x); err != nil {
				return err
			}
		}
		for _, x := range l.prune() {
			if _, err := l.ask(conn, &wire.Request{Op: wire.OpUnsubscribe, Target: x.number}); err != nil {
				return err
			}
		}
		if _, err := l.ask(conn, &wire.Request{Op: wire.OpPing}); err != nil {
			return err
		}
	}
	return nil
}

// unheard are the ears that this connection does not hear for.
func (l *listener) unheard() (list []*ear) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, x := range l.ears {
		if x.number == 0 {
			list = append(list, x)
		}
	}
	return list
}

// subscribe goes on from where an ear was.
func (l *listener) subscribe(conn cluster.Conn, x *ear) error {
	l.mu.Lock()
	req := &wire.Request{Op: wire.OpSubscribe, Owner: x.Owner}
	if x.cursor != nil {
		req.Positions = slices.Collect(maps.Values(x.cursor))
	}
	l.mu.Unlock()
	res, err := l.ask(conn, req)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	x.number = res.Count
	l.byNo[x.number] = x
	if x.cursor == nil {
		x.take(res.List.Positions)
		x.From = l.e.rec.Now()
		close(x.live)
	}
	return nil
}

func (x *ear) take(cursor []wire.Position) {
	x.cursor = make(map[uint64]wire.Position, len(cursor))
	for _, p := range cursor {
		x.cursor[p.Log] = p
	}
}

func (l *listener) ask(conn cluster.Conn, req *wire.Request) (*wire.Result, error) {
	ctx, cancel := context.WithTimeout(l.e.ctx, askedEars)
	defer cancel()
	res, err := conn.Ask(ctx, l.s.Next(), req, nil)
	if err == nil && res.Err() != nil {
		err = res.Err()
	}
	return res, err
}

// Event implements session.Ear.
func (l *listener) Event(e *wire.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if x := l.byNo[e.Subscription]; x != nil {
		x.cursor[e.At.Log] = e.At
		x.Heard = append(x.Heard, history.Heard{Time: l.e.rec.Now(), Kind: e.Kind, Owner: e.Owner,
			Namespace: e.Namespace, Token: e.Token, At: e.At})
	}
}

// Moved implements session.Ear.
func (l *listener) Moved(p *wire.Progress, gap bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if x := l.byNo[p.Subscription]; x != nil {
		if x.take(p.Cursor); gap {
			x.Heard = append(x.Heard, history.Heard{Time: l.e.rec.Now(), Gap: true})
		}
	}
}
