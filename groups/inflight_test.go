package groups

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/groups/replica"
	"github.com/pathlockd/pathlockd/groups/rows"
	"github.com/pathlockd/pathlockd/wire"
)

// lossRig is a node that has just queued an acquire in a log, whose batch was taken from
// the queue and never came to raft.
type lossRig struct {
	*rig
	c     *caller
	l     *shardLog
	own   replica.LeaderEpoch
	took  *outcome // of the acquire
	entry []byte   // the lost batch
}

func newLossRig(t *testing.T) *lossRig {
	r := &lossRig{rig: newRig(t, func(c *Config) { c.LogCount = 1 })}
	r.c = r.session()
	r.c.must(write("other", "h:/z", time.Hour)) // the leader epoch has begun
	r.l = r.node.logs[rows.FirstLog]
	l := r.l
	l.drive.Lock()
	defer l.drive.Unlock()
	if len(l.drive.under) != 0 { // its answer came before raft's
		l.drive.Unlock()
		eventually(t, "nothing is under way", func() bool {
			l.drive.Lock()
			defer l.drive.Unlock()
			return len(l.drive.under) == 0
		})
		l.drive.Lock()
	}
	r.own = replica.LeaderEpoch{Term: l.drive.term, Node: l.local.Load().Replica, Incarnation: l.process}
	// Who queues something while drive is held leaves it in the queue.
	r.took = r.c.start(r.next.Add(1), write("a", "h:/a", time.Hour))
	f := l.takeBatch(r.own)
	if f == nil || len(f.parts) != 1 {
		t.Fatalf("took %+v", f)
	}
	l.drive.number++
	head := replica.BatchHead{Format: r.node.formats.Written(), LeaderEpoch: r.own, Number: f.number, Next: true,
		Stamp: l.local.Load().Stamp(r.own, l.clock.Mono())}
	r.entry = bytes.Clone(l.drive.writer.Entry(&head))
	return r
}

// appears has the lost batch come to the log after all.
func (r *lossRig) appears() {
	r.t.Helper()
	proposed(r.t, r.l, r.entry)
}

// held asks something and has nothing else proposed until goOn.
func (r *lossRig) held(req *wire.Request) *outcome {
	l := r.l
	l.drive.Lock()
	o := r.c.start(r.next.Add(1), req)
	if f := l.takeBatch(r.own); f == nil || !l.send(r.own, l.local.Load(), f, false) {
		r.t.Error("the batch is not proposed")
	}
	l.drive.hold = l.clock.Mono() + time.Minute
	l.drive.Unlock()
	return o
}

// goOn ends that.
func (r *lossRig) goOn() { r.l.pauses(false) }

func (r *lossRig) answer(o *outcome, what string) wire.Result {
	r.t.Helper()
	select {
	case res := <-o.done:
		return res
	case <-time.After(8 * time.Second): // less than a request may take
		r.t.Fatalf("%s is not answered", what)
		return wire.Result{}
	}
}

// TestLostBatch loses a batch, in which a lock is taken, in front of one that gives it
// back: both are carried out, once and in their order, whenever the lost one appears.
func TestLostBatch(t *testing.T) {
	for _, when := range []string{"never", "before the barrier", "after the barrier"} {
		t.Run(when, func(t *testing.T) {
			r := newLossRig(t)
			m := r.l.local.Load()
			var free *outcome
			if when == "before the barrier" {
				free = r.held(release("a", "h:/a"))
				eventually(t, "the batch behind it is dropped", r.l.hasGap)
				r.appears()
				r.goOn()
			} else {
				free = r.c.start(r.next.Add(1), release("a", "h:/a"))
			}
			took := r.answer(r.took, "the acquire")
			if took.Code != wire.OK || took.Status != wire.StatusOK {
				t.Fatalf("acquire: %+v", took)
			}
			if res := r.answer(free, "the release"); res.Code != wire.OK || res.Status != wire.StatusOK {
				t.Fatalf("release: %+v", res)
			}
			before := r.digests()
			if when == "after the barrier" {
				at := m.AppliedIndex()
				r.appears()
				eventually(t, "it is applied", func() bool { return m.AppliedIndex() > at })
			}
			if after := r.digests(); fmt.Sprint(before) != fmt.Sprint(after) {
				t.Error("the lost batch was carried out twice")
			}
			if res := r.c.must(&wire.Request{Op: wire.OpDumpLocks}); len(res.List.Infos) != 1 {
				t.Errorf("locked: %+v", res.List.Infos)
			}
			if r.l.hasGap() {
				t.Error("there is no barrier")
			}
			r.idle()
		})
	}
}

// idle says that nothing is counted as under way.
func (r *rig) idle() {
	r.t.Helper()
	eventually(r.t, "nothing is counted as under way", func() bool { return r.node.counted() == "" })
}

// counted tells what is counted as under way.
func (n *Node) counted() (what string) {
	for g := range n.inflight {
		if c := n.inflight[g].Load(); c != 0 {
			what += fmt.Sprintf("%d of group %d; ", c, g)
		}
	}
	for shard, l := range n.logs {
		l.mu.Lock()
		told := func(p *part) bool { return p == nil || p.told.Load() }
		queued := len(slices.DeleteFunc(slices.Clone(l.mu.queue), told))
		away := 0
		for _, p := range l.mu.forwarded.parts {
			if !told(p) {
				away++
			}
		}
		if queued+len(l.mu.batches)+away+len(l.mu.forwarded.back) != 0 {
			what += fmt.Sprintf("log %d: %d queued, %d batches in flight, %d forwarded, %d back; ", shard, queued,
				len(l.mu.batches), away, len(l.mu.forwarded.back))
		}
		l.mu.Unlock()
	}
	f := &n.forwards
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, in := range f.in {
		if b, r := in.bytes.Load(), in.reads.Load(); b != 0 || r != 0 {
			what += fmt.Sprintf("%d bytes and %d reads of %s; ", b, r, in.host)
		}
	}
	f.reads.mu.Lock()
	defer f.reads.mu.Unlock()
	if f.reads.count != 0 || len(f.reads.under) != 0 {
		what += fmt.Sprintf("%d reads, %d asked; ", f.reads.count, len(f.reads.under))
	}
	if c := len(n.slow) + len(n.tended); c != 0 {
		what += fmt.Sprintf("%d calls in steps; ", c)
	}
	return what
}

// TestUnknownBatch has raft's answer to a batch be that its time is over, which tells
// nothing: it is found out without anything else being asked, long before the next
// request would.
func TestUnknownBatch(t *testing.T) {
	r := newLossRig(t)
	r.l.Gap(r.own.Term, r.l.drive.number)
	if res := r.answer(r.took, "the acquire"); res.Code != wire.OK || res.Status != wire.StatusOK {
		t.Fatalf("acquire: %+v", res)
	}
	r.appears()
	r.c.must(release("a", "h:/a"))
	if res := r.c.must(&wire.Request{Op: wire.OpDumpLocks}); len(res.List.Infos) != 1 {
		t.Errorf("locked: %+v", res.List.Infos)
	}
	r.idle()
}

// TestSnapshotInPlaceOfBatch installs a snapshot that has a batch in it which this node
// proposed and did not apply: its commands are asked again, and not when their time is
// over.
func TestSnapshotInPlaceOfBatch(t *testing.T) {
	r := newLossRig(t)
	m := r.l.local.Load()
	m.Lock()
	m.Number = r.l.drive.number // as at a replica that has applied it
	m.Unlock()
	at, err := m.PrepareSnapshot()
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := m.SaveSnapshot(at, &b, nil); err != nil {
		t.Fatal(err)
	}
	if err := m.RecoverFromSnapshot(&b, nil); err != nil {
		t.Fatal(err)
	}
	if res := r.answer(r.took, "the acquire"); res.Code != wire.OK || res.Status != wire.StatusOK {
		t.Fatalf("acquire: %+v", res)
	}
	r.idle()
}
