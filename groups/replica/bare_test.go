package replica

import (
	"bytes"
	"log/slog"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/groups/rows"
	"github.com/pathlockd/pathlockd/internal/testkit/requests"
	"github.com/pathlockd/pathlockd/wire"
)

// bare is a machine without raft and without a node: entries are applied as a test makes them, and answered.
type bare struct {
	quiet
	t       testing.TB
	m       *Machine
	own     LeaderEpoch
	index   uint64
	number  uint64
	now     int64
	batches map[uint64][]*bareCall // under way, by number
	open    map[engine.Caller]*bareCall
	changes map[uint64][]*bareCall // that wait for a policy change, by its id
}

// newBare is a machine of a log with one group, or of the system log, that has a leader epoch.
func newBare(t testing.TB, shard uint64, l Limits) *bare {
	t.Helper()
	return newBareOf(t, shard, l, 0)
}

// newBareOf is one of a log with groups of such numbers.
func newBareOf(t testing.TB, shard uint64, l Limits, numbers ...uint16) *bare {
	t.Helper()
	b := &bare{
		t: t, own: LeaderEpoch{Term: 1, Node: 1, Incarnation: 7},
		batches: make(map[uint64][]*bareCall), open: make(map[engine.Caller]*bareCall),
		changes: make(map[uint64][]*bareCall),
	}
	bounds := DefaultFolding
	b.m = newMachineOn(t, b, Config{Shard: shard, Numbers: numbers, Folding: &bounds})
	b.entry(AppendLeaderEpoch(nil, rows.NewestFormat, b.own, l))
	b.m.Proposer = b
	return b
}

// newMachineOn is a machine on a disk of its own, in memory.
func newMachineOn(t testing.TB, to interface {
	Host
	Audience
}, c Config) *Machine {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	fail := func(err error) { t.Error(err) }
	store, err := OpenStore("state", vfs.NewMem(), log, fail)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	c.Replica, c.Segments, c.NodeLimits, c.Store, c.Clock = 1, 1, DefaultLimits(), store, NewSystemClock()
	c.Logger, c.Host, c.Hub, c.Fail = log, to, to, fail
	return New(c)
}

// quiet is a node that does not care.
type quiet struct{}

func (quiet) Opened(*Machine)                                     {}
func (quiet) CheckpointSoon()                                     {}
func (quiet) SystemChanged(*engine.System)                        {}
func (quiet) PolicyWork()                                         {}
func (quiet) LookAround()                                         {}
func (quiet) LimitsDiffer(string)                                 {}
func (quiet) ProcessMarks() string                                { return "" }
func (quiet) SnapshotFormat() uint32                              { return rows.OldestFormat }
func (quiet) Publish(uint64, uint64, []engine.Event, bool)        {}
func (quiet) TellFurther(_ uint64, _ []engine.Told, sent int) int { return sent }
func (quiet) Missed(uint64, uint64)                               {}

// SnapshotFormat is the newest: there are no older nodes.
func (*bare) SnapshotFormat() uint32 { return rows.NewestFormat }

// Incarnation implements Proposer, as do those that follow.
func (b *bare) Incarnation() uint64           { return b.own.Incarnation }
func (b *bare) Began(LeaderEpoch, *OpenCalls) {}
func (b *bare) Gap(term, number uint64) {
	b.t.Errorf("batch %d of leader epoch %d was dropped", number, term)
}
func (b *bare) Barrier(LeaderEpoch, uint64)   {}
func (b *bare) Overtaken(LeaderEpoch, uint64) {}
func (b *bare) Flush()                        {}
func (b *bare) Applied(_ LeaderEpoch, number uint64) Callers {
	asks := b.batches[number]
	delete(b.batches, number)
	if asks == nil {
		return nil
	}
	return &bareBatch{b, asks}
}

func (b *bare) WaitOver(a *engine.Answer) {
	c := b.open[a.Caller]
	if c == nil || !c.placed || c.in != a.NS {
		return
	}
	delete(b.open, a.Caller)
	c.res = append(c.res, a.Result)
}

func (b *bare) ChangeOver(d *engine.Done) {
	for _, c := range b.changes[d.ID] {
		c.res = append(c.res, d.Result)
	}
	delete(b.changes, d.ID)
}

// bareBatch is what was asked in one entry.
type bareBatch struct {
	b    *bare
	asks []*bareCall
}

func (f *bareBatch) Hears(int) bool { return true }

func (f *bareBatch) Tell(i int, res *wire.Result) {
	a := f.asks[i]
	queued := res.Code == wire.OK && res.Status == wire.StatusQueued
	switch {
	case queued && (a.Op == wire.OpSetPolicy || a.Op == wire.OpDeletePolicy):
		f.b.changes[res.Count] = append(f.b.changes[res.Count], a)
		return
	case queued && a.waits() && f.b.open[a.caller()] == a:
		a.placed, a.in, a.queued = true, res.Namespace, append(a.queued, *res)
		return
	case queued && a.waits(): // it was answered when it was asked again
		return
	case f.b.open[a.caller()] == a:
		delete(f.b.open, a.caller())
	}
	a.res = append(a.res, *res)
}

// bareCall is one request on its way through a bare machine.
type bareCall struct {
	wire.Call
	tried  bool
	res    []wire.Result // at most one
	queued []wire.Result
	placed bool   // it was told that it is queued
	in     string // its namespace then

	// What follows says where it goes, when ns is not "" or to is set; else its namespace is the first segment of its
	// path.
	ns      string
	to      uint16
	sub     uint64
	version uint64
}

func (a *bareCall) waits() bool { return a.Op == wire.OpAcquire && a.Req.Flags&wire.FlagWait != 0 }

func (a *bareCall) caller() engine.Caller {
	if a.Session == nil {
		return engine.Caller{}
	}
	return engine.Caller{Session: engine.Session(a.Session.ID), ID: a.ID}
}

// bareAsk is a request of a session.
func bareAsk(s *wire.Session, id uint64, req *wire.Request) *bareCall {
	a := &bareCall{Call: wire.Call{ID: id, Op: req.Op, Req: req, Session: s}}
	a.Body, a.NArgs = wire.AppendArgs(nil, req)
	return a
}

// command is the call as a batch has it.
func (b *bare) command(a *bareCall) *Command {
	c := &Command{
		Op: a.Op, NArgs: a.NArgs, Body: a.Body, Session: a.Session, ID: a.ID, Settled: a.Settled,
		Bound: a.Bound, Grace: a.Grace,
		Group: a.to, NSLen: len(a.ns), Sub: a.sub, Version: a.version,
	}
	switch subject := SubjectOf(a.Req); {
	case b.m.Shard == rows.SystemLog:
		c.Group = SystemGroup
	case a.Op == wire.OpDetach:
		c.Group = EveryGroup
	case subject == "":
		c.NSLen = 0
	case a.ns == "":
		c.NSLen = len(wire.NewRoutes(0, 1, nil).Resolve(subject))
	}
	return c
}

// batch encodes requests as an entry that says what the time is.
func (b *bare) batch(asks []*bareCall) []byte {
	var w BatchWriter
	w.Reset()
	for _, a := range asks {
		before := Attempts(0)
		switch {
		case a.tried:
			before = TriedByNode
		case a.Again:
			before = Attempted | Insisted
		}
		if a.waits() {
			b.attach(a)
		}
		w.Add(b.command(a), before)
	}
	b.number++
	head := BatchHead{
		Format: rows.NewestFormat, LeaderEpoch: b.own, Number: b.number, Next: true, Stamp: b.now, Wall: b.now,
	}
	return bytes.Clone(w.Entry(&head))
}

// attach makes a call the one that its wait is answered to. One that was asked on an earlier connection hears that.
func (b *bare) attach(a *bareCall) {
	if was := b.open[a.caller()]; was != nil && was.Session.Epoch < a.Session.Epoch {
		was.res = append(was.res, wire.Result{Code: wire.Aborted})
	}
	b.open[a.caller()] = a
}

// entry applies one entry.
func (b *bare) entry(entry []byte) {
	b.index++
	b.m.Lock()
	defer b.m.Unlock()
	b.m.Apply(b.index, entry)
}

// do applies requests in one entry, so many ms after the last.
func (b *bare) do(after int64, asks ...*bareCall) {
	b.t.Helper()
	for ; after > 2000; after -= 2000 {
		b.do(2000)
	}
	b.now += after
	entry := b.batch(asks)
	b.batches[b.number] = asks
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

// reload has the machine go on from what is on its disk.
func (b *bare) reload() {
	b.t.Helper()
	if err := b.m.Checkpoint(false); err != nil {
		b.t.Fatal(err)
	}
	if err := b.m.Load(); err != nil {
		b.t.Fatal(err)
	}
}

// session is what the machine remembers of one.
func (b *bare) session(s *wire.Session) *Session {
	b.m.Lock()
	defer b.m.Unlock()
	return b.m.Sessions.ByID[engine.Session(s.ID)]
}

// Requests and sessions of tests.
var (
	bareSession, later      = requests.Session, requests.Later
	write, waiting, release = requests.Write, requests.Waiting, requests.Release
)
