package groups

import (
	"bytes"
	"log/slog"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/pathlockd/pathlockd/groups/datadir"
	"github.com/pathlockd/pathlockd/groups/events"
	"github.com/pathlockd/pathlockd/groups/replica"
	"github.com/pathlockd/pathlockd/groups/rows"
	"github.com/pathlockd/pathlockd/internal/testkit/requests"
	"github.com/pathlockd/pathlockd/wire"
)

// bare is a machine without raft: entries are applied as a test makes them, and answered.
type bare struct {
	t      testing.TB
	n      *Node
	m      *replica.Machine
	l      *shardLog // that proposes
	by     *applier  // that hears what is applied
	own    replica.LeaderEpoch
	index  uint64
	number uint64
	now    int64
}

// newBare is a machine of a log with one group, or of the system log, that has a leader epoch.
func newBare(t testing.TB, shard uint64, l replica.Limits) *bare {
	t.Helper()
	cfg := Config{Segments: 1, GroupCount: 1, LogCount: 1, Log: slog.New(slog.DiscardHandler)}.Defaults()
	n := &Node{
		cfg: cfg, id: &datadir.Identity{Settings: datadir.Settings{GroupCount: 1, LogCount: 1}}, log: cfg.Log,
		clock: cfg.Clock, process: 7,
		homes: []uint64{rows.FirstLog}, hub: events.New(10), policy: make(chan struct{}, 1),
		soon: make(chan struct{}, 1),
	}
	n.cfg.Fatal = func(err error) { t.Error(err) }
	n.routes.Store(wire.NewRoutes(0, 1, nil))
	var err error
	if n.store, err = replica.OpenStore("state", vfs.NewMem(), n.log, n.failed); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.store.Close() })
	b := &bare{t: t, n: n, own: replica.LeaderEpoch{Term: 1, Node: 1, Incarnation: n.process}}
	b.m = replica.New(n.replicaConfig(shard, 1))
	b.l = newShardLog(n, shard)
	b.by = &applier{shardLog: b.l}
	b.entry(replica.AppendLeaderEpoch(nil, rows.NewestFormat, b.own, l))
	b.m.Proposer = b.by
	return b
}

// entry applies one entry.
func (b *bare) entry(entry []byte) {
	b.index++
	b.m.Lock()
	b.m.Apply(b.index, entry)
	b.m.Unlock()
	b.by.Flush()
}

// bareCall is one request on its way through a bare machine.
type bareCall struct {
	wire.Call
	tried  bool
	res    []wire.Result // at most one
	queued []wire.Result
}

// Reply implements wire.Replier.
func (a *bareCall) Reply(c *wire.Call) { a.res = append(a.res, c.Res) }

// Queued implements wire.Replier.
func (a *bareCall) Queued(_ *wire.Call, res *wire.Result) { a.queued = append(a.queued, *res) }

// Flush implements wire.Replier.
func (a *bareCall) Flush() {}

// bareAsk is a request of a session.
func bareAsk(s *wire.Session, id uint64, req *wire.Request) *bareCall {
	a := &bareCall{Call: wire.Call{ID: id, Op: req.Op, Req: req, Session: s}}
	a.To = a
	a.Body, a.NArgs = wire.AppendArgs(nil, req)
	return a
}

// batch encodes requests as an entry that says what the time is.
func (b *bare) batch(asks []*bareCall) ([]byte, []*part) {
	var w replica.BatchWriter
	var parts []*part
	w.Reset()
	for _, a := range asks {
		p := &part{
			Command: replica.Command{Op: a.Op, NArgs: a.NArgs, Body: a.Body, Session: a.Session, ID: a.ID,
				Settled: a.Settled, Bound: a.Bound, Grace: a.Grace},
			call:  &a.Call,
			log:   b.l,
			tried: a.tried,
		}
		switch {
		case b.m.Shard == rows.SystemLog:
			p.Group = replica.SystemGroup
		case a.Op == wire.OpDetach:
			p.Group = replica.EveryGroup
		case len(replica.SubjectOf(a.Req)) > 0:
			p.NSLen = len(wire.NewRoutes(0, 1, nil).Resolve(replica.SubjectOf(a.Req)))
		}
		if p.waits = a.Op == wire.OpAcquire && a.Req.Flags&wire.FlagWait != 0; p.waits {
			b.n.attach(p, new(repliers))
		}
		w.Add(&p.Command, p.attempts())
		parts = append(parts, p)
	}
	b.number++
	head := replica.BatchHead{Format: rows.NewestFormat, LeaderEpoch: b.own, Number: b.number, Next: true,
		Stamp: b.now, Wall: b.now}
	return bytes.Clone(w.Entry(&head)), parts
}

// do applies requests in one entry, so many ms after the last.
func (b *bare) do(after int64, asks ...*bareCall) {
	b.t.Helper()
	for ; after > 2000; after -= 2000 {
		b.do(2000)
	}
	b.now += after
	entry, parts := b.batch(asks)
	b.l.mu.batches[b.number] = &inFlight{leaderEpoch: b.own, number: b.number, parts: parts}
	b.entry(entry)
	if now := b.m.Now.Load(); now != b.now {
		b.t.Fatalf("the clock shows %d ms, want %d", now, b.now)
	}
}

// one applies one request and answers its result, or that it is queued.
func (b *bare) one(a *bareCall) wire.Result {
	b.t.Helper()
	b.do(1, a)
	switch {
	case len(a.res) == 1:
		return a.res[0]
	case len(a.res) == 0 && len(a.queued) == 1:
		return a.queued[0]
	}
	b.t.Fatalf("%v is answered %+v, queued %+v", a.Op, a.res, a.queued)
	return wire.Result{}
}

// pauses has a log propose nothing until it is called with false, as while its leadership is handed over.
func (l *shardLog) pauses(does bool) {
	l.drive.Lock()
	l.drive.hold = 0
	if does {
		l.drive.hold = l.clock.Mono() + time.Hour
	}
	l.drive.Unlock()
	l.kick()
}

// Sessions of tests.
var bareSession, later = requests.Session, requests.Later
