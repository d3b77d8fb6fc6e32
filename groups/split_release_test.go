package groups

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestReleaseSplitByAMove: in one write a client sends a release of two paths of a namespace and the next acquire of
// one of them. Both are held back by a move, which makes that path a namespace of its own. They were about one
// namespace when they were sent, and are carried out in that order: who is answered OK has the lock.
func TestReleaseSplitByAMove(t *testing.T) {
	const stays, moves = "h:/a/y", "h:/a/b/x"
	f := apart(t, nil)
	r := f.rigOn(1)
	c, other := r.session(), f.rigOn(0).session()
	n := r.node
	c.must(write("o", stays, time.Hour))
	l := n.logOf(n.groupOf("h:/a"))
	passes := l.holdsAway()
	give := c.start(r.next.Add(1), &wire.Request{Op: wire.OpRelease, Owner: "o",
		Releases: []wire.ReleaseRequest{{Path: stays}, {Path: moves}}})
	take := c.start(r.next.Add(1), write("o", moves, time.Hour))
	other.must(setPolicy("h:/a/b", wire.RecursiveRW))
	passes()
	if res := give.get(t, "the release"); res.Code != wire.OK {
		t.Fatalf("the release is answered %+v", res)
	}
	if res := take.get(t, "the acquire"); res.Code != wire.OK || res.Status != wire.StatusOK {
		t.Fatalf("the acquire is answered %+v", res)
	}
	if owner := other.inspect(moves).Owner; owner != "o" {
		t.Errorf("the acquire behind the release is answered OK, and nobody holds %s: the release was carried "+
			"out after it", moves)
	}
}

// holdsAway keeps what a node sends to a log's leader until it is called what is answered.
func (l *shardLog) holdsAway() (passes func()) {
	retry := func(at time.Duration) {
		l.mu.Lock()
		l.mu.forwarded.retryAt = at
		l.mu.Unlock()
		l.start()
	}
	retry(l.clock.Mono() + time.Hour)
	return func() { retry(l.clock.Mono()) }
}
