package groups

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/groups/replica"
	"github.com/pathlockd/pathlockd/groups/rows"
	"github.com/pathlockd/pathlockd/internal/testkit/cputime"
	"github.com/pathlockd/pathlockd/wire"
)

// How many calls wait as their process ends. What looked at each of them would take 16 times as long with the many,
// what looked at each for each 256 times.
const (
	fewCalls, manyCalls = 1000, 16_000
	endTrials           = 9
)

// crowdOfCalls is a machine in whose log many calls of one process of a peer wait.
func crowdOfCalls(t testing.TB, calls int) *bare {
	l := replica.DefaultLimits()
	l.MaxQueued = 100 * manyCalls
	b := newBare(t, rows.FirstLog, l)
	b.n.id.HostID = "self"
	b.n.logs = map[uint64]*shardLog{rows.SystemLog: newShardLog(b.n, rows.SystemLog), rows.FirstLog: b.l}
	b.l.local.Store(b.m)
	b.n.inflight = make([]atomic.Int32, 2)
	b.do(1, bareAsk(bareSession(0), 1, write("holder", "h:/a/x", time.Hour)))
	var asks []*bareCall
	for i := range calls {
		req := waiting(write(fmt.Sprint("call ", i), "h:/a/x", time.Hour))
		req.QueueTTLMillis = 3_600_000
		s := &wire.Session{ID: newSessionOf("peer", 5), Epoch: 1, Window: 4}
		if asks = append(asks, bareAsk(s, 1, req)); len(asks) == replica.MaxBatchCommands || i == calls-1 {
			b.do(1, asks...)
			asks = asks[:0]
		}
	}
	if open := len(b.m.Order[0].State.OpenCalls()); open != calls {
		t.Fatalf("%d calls wait", open)
	}
	return b
}

// leastSpent is the least of some trials, by what they take of the processor.
func leastSpent(prepare func() (trial func())) time.Duration {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	spent := time.Hour
	for range endTrials {
		trial := prepare()
		began := cputime.Thread()
		trial()
		spent = min(spent, cputime.Thread()-began)
	}
	return spent
}

// TestNewLeaderEpochLooksAtNoCalls: a leader epoch begins under the lock that entries are applied under, and reads wait
// for. However many calls wait of a process that is over, it does not look at them, nor does it queue their ends.
func TestNewLeaderEpochLooksAtNoCalls(t *testing.T) {
	took := func(calls int) time.Duration {
		b := crowdOfCalls(t, calls)
		b.n.processes.note("peer", 5)
		return leastSpent(func() func() {
			b.l.mu.queue = nil
			b.own.Term++
			b.m.Order[0].Stepped() // it has no view of now
			return func() { b.m.BeginLeaderEpoch(b.own, replica.Limits{}, false) }
		})
	}
	few, many := took(fewCalls), took(manyCalls)
	t.Logf("%v with %d, %v with %d", few, fewCalls, many, manyCalls)
	if many > 4*few+20*time.Microsecond {
		t.Errorf("%v with %d, %v with %d", few, fewCalls, many, manyCalls)
	}
}

// TestCallsLeftAloneAtOnce: what is left alone by a connection that ends, of a process that is over, costs each its
// own, and not that many times their number.
func TestCallsLeftAloneAtOnce(t *testing.T) {
	took := func(calls int) time.Duration {
		b := crowdOfCalls(t, 1)
		b.n.processes.note("peer", 5)
		return leastSpent(func() func() {
			b.l.mu.queue = nil
			in := b.n.inboundOf(new(wireEnd), "peer")
			for range calls {
				s := &wire.Session{ID: newSessionOf("peer", 5), Epoch: 1, Window: 4}
				b.n.waits.add(&part{Command: replica.Command{Op: wire.OpAcquire, Session: s, ID: 1}, from: in, log: b.l,
					waits: true})
			}
			return func() {
				if in.shut(); len(b.l.mu.queue) != calls {
					t.Fatalf("%d of %d ends are queued", len(b.l.mu.queue), calls)
				}
			}
		})
	}
	few, many := took(fewCalls), took(manyCalls)
	t.Logf("%v with %d, %v with %d", few, fewCalls, many, manyCalls)
	if many > 5*(manyCalls/fewCalls)*few { // to find them costs more where there are more
		t.Errorf("%v with %d, %v with %d", few, fewCalls, many, manyCalls)
	}
}

// TestEndsAreQueuedAtOnce: what is done with the queue locked, which requests wait for, is a small part of what ends of
// many waits take.
func TestEndsAreQueuedAtOnce(t *testing.T) {
	b := crowdOfCalls(t, manyCalls)
	b.n.processes.note("peer", 5)
	l := b.l
	var ends []*part
	made := leastSpent(func() func() {
		return func() { ends = b.n.endsOf(b.n.overIn(l, b.m.OpenCalls(b.own.Term))) }
	})
	queued := leastSpent(func() func() {
		l.mu.queue = []*part{{}}
		return func() { l.endFirst(ends) }
	})
	t.Logf("%v to list %d and make their ends, %v to queue them", made, manyCalls, queued)
	if len(l.mu.queue) != manyCalls+1 || !l.mu.queue[0].first || l.mu.queue[manyCalls].first {
		t.Errorf("%d are queued", len(l.mu.queue))
	}
	if queued > made/10 {
		t.Errorf("%v to list them and make their ends, %v to queue them", made, queued)
	}
}
