package backup

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/groups/rows"
	"github.com/pathlockd/pathlockd/wire"
)

// The cluster of these tests.
const (
	testGroups = 4
	testLogs   = 2
)

// place is a cluster's state without a cluster.
type place struct {
	groups [testGroups]*engine.State // nil for one that nobody ever used
	system *engine.System
	now    int64
}

func newPlace() *place {
	p := &place{system: engine.NewSystem(), now: 1000}
	for i := range p.groups {
		p.groups[i] = engine.New(engine.DefaultConfig(), nil, nil)
	}
	return p
}

// write has an owner ask for a path, in its namespace h:/<digit>.
func (p *place) write(t testing.TB, owner, path string) wire.Result {
	t.Helper()
	return p.writeAt(t, wire.GroupOf(path[:len("h:/0")], testGroups), owner, path)
}

// writeAt has a group take the path, whether or not that is where it lives.
func (p *place) writeAt(t testing.TB, group uint16, owner, path string) wire.Result {
	t.Helper()
	return p.ask(t, group, owner, path, 0)
}

// ask has an owner ask for a path with a token of its own, or with none.
func (p *place) ask(t testing.TB, group uint16, owner, path string, token int64) wire.Result {
	t.Helper()
	p.now++
	locks := []wire.LockRequest{{Path: path}}
	req := &wire.Request{Op: wire.OpAcquire, Owner: owner, TTLMillis: 60_000, Token: token, Locks: locks}
	var out engine.Output
	res := p.groups[group].Apply(engine.Clock{Now: p.now, Wall: p.now},
		&engine.Command{Req: req, NS: path[:len("h:/0")]}, &out)
	if res.Code != wire.OK {
		t.Fatal(res.Message)
	}
	return res
}

// full is a place with locks, waiters, fences and a policy.
func full(t testing.TB) *place {
	p := newPlace()
	for i := range 40 {
		p.write(t, fmt.Sprintf("o%d", i%3), fmt.Sprintf("h:/%d/%d", i%5, i))
	}
	p.write(t, "waits", "h:/0/0")
	p.write(t, "waits", "h:/1/1")
	var out engine.Output
	all := &wire.Request{Op: wire.OpReleaseAll, Owner: "o2"}
	for _, g := range p.groups {
		g.Apply(engine.Clock{Now: p.now, Wall: p.now}, &engine.Command{Req: all}, &out)
	}
	var done []engine.Done
	p.system.Apply(engine.Clock{Now: p.now}, &engine.Command{Req: &wire.Request{Op: wire.OpIncrToken}}, &done)
	return p
}

// stream is what a node answers of a log; change may alter its rows.
func (p *place) stream(t testing.TB, log uint64, change func(key, val []byte) ([]byte, []byte)) []byte {
	t.Helper()
	if change == nil {
		change = func(key, val []byte) ([]byte, []byte) { return key, val }
	}
	var b bytes.Buffer
	w := rows.NewWriter(&b, rows.NewestFormat)
	var sum rows.Sum
	for i, g := range p.groups {
		if g == nil || rows.Home(i, testLogs) != log {
			continue
		}
		v := g.View()
		err := v.Rows(0, func(row, val []byte) error {
			if key, val := change(rows.Group(nil, uint16(i), row), val); key != nil {
				w.Row(key, val)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		sum.Add(uint16(i), v.Digest())
	}
	if log == rows.SystemLog {
		for row, val := range p.system.AllRows() {
			w.Row(rows.System(nil, []byte(row)), val)
		}
		sum.Add(rows.SystemGroup, p.system.Digest())
	}
	state := rows.State{Applied: 77, Term: 3, Node: 1, Number: 9, Now: p.now, Wall: p.now}
	if key, val := change(rows.Log(log, rows.LogState, nil), state.Append(nil)); key != nil {
		w.Row(key, val)
	}
	if err := w.End(); err != nil {
		t.Fatal(err)
	}
	return sum.Append(b.Bytes())
}

func described(log uint64) *wire.Backup {
	return &wire.Backup{
		Log: log, AppliedIndex: 77, UnixMillis: 1_767_225_600_000, ClusterID: "old", GroupCount: testGroups,
		LogCount:       testLogs,
		PrefixSegments: 1, Replication: 3,
	}
}

// save writes a backup of the place.
func (p *place) save(t testing.TB, change func(key, val []byte) ([]byte, []byte)) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "backup")
	w, err := Create(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, log := range rows.LogsOf(testLogs) {
		l, err := w.Log(described(log))
		if err != nil {
			t.Fatal(err)
		}
		for b := p.stream(t, log, change); len(b) > 0; {
			n, err := l.Write(b[:min(len(b), 100)])
			if err != nil {
				t.Fatal(err)
			}
			b = b[n:]
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Commit("v1", false); err != nil {
		t.Fatal(err)
	}
	return dir
}

// verify must succeed.
func verify(t testing.TB, dir string) *Report {
	t.Helper()
	r, err := Verify(context.Background(), dir)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// edit changes a file of a backup.
func edit(t testing.TB, dir, file string, f func([]byte) []byte) {
	t.Helper()
	path := filepath.Join(dir, file)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, f(b), 0o600); err != nil {
		t.Fatal(err)
	}
}
