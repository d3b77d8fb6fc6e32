package groups

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/groups/backup"
	"github.com/pathlockd/pathlockd/groups/rows"
	"github.com/pathlockd/pathlockd/wire"
)

// Tests of what is left of a cluster that lost its majority for good: one node, some of whose replicas had not heard of
// what others had.

// saveLocal takes a backup as `pathlock backup save --local` does, of a node whose replica of one log lags behind the
// others: of that it has nothing of what between does.
func (r *rig) saveLocal(late uint64, between func()) string {
	r.t.Helper()
	dir := filepath.Join(r.t.TempDir(), "rescued")
	w, err := backup.Create(dir)
	if err != nil {
		r.t.Fatal(err)
	}
	c := r.session()
	behind := c.openImage(late, true)
	between()
	for _, log := range rows.LogsOf(r.cfg.LogCount) {
		b := behind
		if log != late {
			b = c.openImage(log, true)
		}
		c.saveImage(w, b)
	}
	if _, err := w.Commit("test", true); err != nil {
		r.t.Fatal(err)
	}
	return dir
}

// strays of a backup that must be whole.
func (r *rig) strays(dir string) (owners []string) {
	r.t.Helper()
	report, err := backup.Verify(context.Background(), dir)
	if err != nil {
		r.t.Fatal(err)
	}
	for i := range report.Strays {
		owners = append(owners, report.Strays[i].Owner)
	}
	return owners
}

// TestRescuedWithoutAMove: the system log does not know of a policy change that groups took part in. They take what is
// asked of them with the routes that there are, and the change can be made again.
func TestRescuedWithoutAMove(t *testing.T) {
	r := newRig(t, func(c *Config) { c.RequestTimeout = 2 * time.Second })
	c := r.session()
	c.must(write("o", "h:/a/y", time.Hour))
	dir := r.saveLocal(rows.SystemLog, func() {
		c.must(setPolicy("h:/a/b", wire.RecursiveRW))
		c.must(write("lost", "h:/a/b/p", time.Hour))
	})
	if owners := r.strays(dir); len(owners) != 1 || owners[0] != "lost" {
		t.Errorf("verify names what %v have, want that of the one in the namespace that is unknown", owners)
	}
	other, _ := r.restore(dir)
	c = other.session()
	renew := &wire.Request{Op: wire.OpRenew, Owner: "o", TTLMillis: 3_600_000, Domains: []string{"h:/a"}}
	if res := c.ask(renew); res.Code != wire.OK || res.Status != wire.StatusOK {
		t.Fatalf("a lock of the backup cannot be renewed: %v %s, status %v", res.Code, res.Message, res.Status)
	}
	if res := c.ask(&wire.Request{Op: wire.OpRenew, Owner: "lost",
		TTLMillis: 3_600_000}); res.Status != wire.RenewLost {
		t.Errorf("what is held where nobody is sent is renewed: %v", res.Status)
	}
	next := c.must(write("next", "h:/a/b/p", time.Hour))
	if next.Status != wire.StatusOK {
		t.Errorf("its path is not given to the next: %v", next.Status)
	}
	c.must(release("next", "h:/a/b/p"))
	if res := c.ask(setPolicy("h:/a/b", wire.RecursiveRW)); res.Code != wire.OK {
		t.Errorf("the change cannot be made again: %v %s", res.Code, res.Message)
	}
	if res := c.must(write("last", "h:/a/b/p", time.Hour)); res.Token <= next.Token || res.Namespace != "h:/a/b" {
		t.Errorf("in %s token %d comes after %d", res.Namespace, res.Token, next.Token)
	}
}

// TestRescuedWithAnOldHold: the log where x held a path knows nothing of its end, nor that the path came to a namespace
// of its own then. There others are granted it: so x does not hold it.
func TestRescuedWithAnOldHold(t *testing.T) {
	r := newRig(t, nil)
	c := r.session()
	c.must(write("x", "h:/a/b/p", time.Hour))
	c.must(write("x", "h:/a/beside", time.Hour))
	c.must(write("other", "h:/a/other", time.Hour))
	if res := c.ask(write("waits", "h:/a/b/p", time.Hour)); res.Status != wire.StatusQueued {
		t.Fatalf("%+v", res)
	}
	home := r.node.logOf(r.node.groupOf("h:/a")).shard
	dir := r.saveLocal(home, func() {
		c.must(&wire.Request{Op: wire.OpForceRelease, Owner: "x"})
		c.must(&wire.Request{Op: wire.OpForceRelease, Owner: "waits"})
		c.must(setPolicy("h:/a/b", wire.RecursiveRW))
	})
	if owners := r.strays(dir); len(owners) != 3 || owners[0] != "x" || owners[1] != "x" || owners[2] != "waits" {
		t.Errorf("verify names what %v have, want all of the lease of x, and the one that waits", owners)
	}
	other, _ := r.restore(dir)
	c = other.session()
	for owner, want := range map[string]int{"x": 0, "waits": 0, "other": 1} {
		if held := c.ask(&wire.Request{Op: wire.OpListLocks, Owner: owner}).List; held != nil &&
			len(held.Infos) != want {
			t.Errorf("%s holds %+v, want %d", owner, held.Infos, want)
		}
	}
	if res := c.ask(&wire.Request{Op: wire.OpRenew, Owner: "x", TTLMillis: 3_600_000}); res.Status != wire.RenewLost {
		t.Errorf("x lost a part of what it held and renews it: %v", res.Status)
	}
	if res := c.must(write("y", "h:/a/b/p", time.Hour)); res.Status != wire.StatusOK {
		t.Errorf("the path is not given to the next: %v", res.Status)
	}
}

// TestRescuedBetweenFreezeAndLeave: a log stopped between the steps of a policy change that the system log knows to be
// done. It is restored, and nothing stays frozen.
func TestRescuedBetweenFreezeAndLeave(t *testing.T) {
	r := newRig(t, nil)
	c := r.session()
	c.must(write("o", "h:/a/y", time.Hour))
	g := r.node.groupOf("h:/a")
	s := steps{n: r.node, c: &wire.Call{}, since: r.node.clock.Mono()} // as the change does it first
	if err := s.all([]command{{group: g, ns: "h:/a", req: &wire.Request{
		Op: wire.OpFreeze, Namespace: "h:/a/b", Attempt: 1, Target: r.node.routes.Load().Version + 1,
	}}}); err != nil {
		t.Fatal(err)
	}
	dir := r.saveLocal(r.node.logOf(g).shard, func() { c.must(setPolicy("h:/a/b", wire.RecursiveRW)) })
	if owners := r.strays(dir); len(owners) > 0 {
		t.Errorf("verify names what %v have", owners)
	}
	other, _ := r.restore(dir)
	c = other.session()
	for _, path := range []string{"h:/a/y", "h:/a/b/p", "h:/a/z"} {
		if res := c.must(write("o", path, time.Hour)); res.Status != wire.StatusOK {
			t.Errorf("%s is not given: %v", path, res.Status)
		}
	}
	m := other.node.logOf(g).local.Load()
	m.Lock()
	defer m.Unlock()
	for _, group := range m.Groups {
		if frozen := group.State.Freezing(); len(frozen) > 0 {
			t.Errorf("group %d has %v frozen", group.Number, frozen)
		}
	}
}
