package groups

import (
	"encoding/binary"
	"sync"
	"testing"

	"github.com/pathlockd/pathlockd/groups/replica"
	"github.com/pathlockd/pathlockd/groups/rows"
	"github.com/pathlockd/pathlockd/wire"
)

// wireEnd is a connection of a peer that the test plays: it takes down how it ends, and
// how many frames were sent on it.
type wireEnd struct {
	mu     sync.Mutex
	frames int
	why    error
}

func (e *wireEnd) Send([]byte) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.frames++
	return true
}

func (e *wireEnd) Unsent() int { return 0 }

func (e *wireEnd) Close(why error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.why = why
}

func (e *wireEnd) sent() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.frames
}

func (e *wireEnd) ended() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.why != nil
}

// TestInboundOrder: of what a peer forwards only that is carried out which cannot come
// again elsewhere: not what comes on an earlier connection than the latest, also if it
// was queued before, nor what follows a refusal in its lane.
func TestInboundOrder(t *testing.T) {
	r := newRig(t, nil)
	c := r.session()
	count := c.must(&wire.Request{Op: wire.OpIncrToken}).Token
	l := r.node.logs[rows.SystemLog]
	term := l.mine()
	first, next := new(wireEnd), new(wireEnd)
	asks, held := uint64(0), false
	forwards := func(e *wireEnd, seq, term, lane uint64) {
		t.Helper()
		asks++
		p := &part{Command: replica.Command{Op: wire.OpIncrToken, Group: replica.SystemGroup,
			Session: r.session().session, ID: asks}}
		p.Body, p.NArgs = wire.AppendArgs(nil, &wire.Request{Op: wire.OpIncrToken})
		var w replica.BatchWriter
		w.Reset()
		w.Add(&p.Command, p.attempts())
		b := []byte{frameCommands}
		for _, v := range []uint64{1, seq, rows.SystemLog, term, lane, asks} {
			b = binary.AppendUvarint(b, v)
		}
		was := e.sent()
		r.node.forwarded(e, "peer", w.AppendTo(b))
		if !held {
			eventually(t, "it is answered", func() bool { return e.sent() > was || e.ended() })
		}
	}
	counted := func(what string, by int64) {
		t.Helper()
		count += by + 1
		if now := c.must(&wire.Request{Op: wire.OpIncrToken}).Token; now != count {
			t.Fatalf("%s: the counter is at %d, want %d", what, now, count)
		}
	}
	forwards(first, 1, term, 1)
	counted("a command", 1)
	forwards(first, 1, term+1, 2)
	counted("for another term", 0)
	forwards(first, 1, term, 2)
	counted("behind a refusal", 0)
	forwards(first, 1, term, 3)
	counted("in a new lane", 1)

	l.pauses(true)
	held = true
	forwards(first, 1, term, 3) // waits in the queue
	forwards(next, 2, term, 4)
	l.pauses(false)
	held = false
	counted("queued, and asked again on a later connection", 1)
	forwards(first, 1, term, 5)
	counted("on the earlier connection", 0)
	forwards(new(wireEnd), 1, term, 6)
	counted("on an earlier connection that comes late", 0)
}
