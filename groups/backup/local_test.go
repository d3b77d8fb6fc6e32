package backup

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/wire"
)

// local makes a backup one that was taken with --local.
func local(t *testing.T, dir string) string {
	t.Helper()
	forge(t, dir, func(m *Manifest) { m.Local = true })
	return dir
}

// choose has the routes of the place give a namespace to itself, and no group knows.
func (p *place) choose(t *testing.T, root string) {
	t.Helper()
	var done []engine.Done
	for _, req := range []*wire.Request{
		{Op: wire.OpSetPolicy, Namespace: root, Algorithm: wire.RecursiveRW},
		{Op: wire.OpRouteCommit, Target: 1}, {Op: wire.OpRouteFinish, Target: 1},
	} {
		if res := p.system.Apply(engine.Clock{Now: p.now}, &engine.Command{Req: req}, &done); res.Code != wire.OK {
			t.Fatal(res.Message)
		}
	}
}

// restored are the groups of a restore that must succeed.
func restored(t *testing.T, dir string) (map[uint16]*engine.State, *engine.System, *Restored) {
	t.Helper()
	data := filepath.Join(t.TempDir(), "data")
	r, err := Restore(context.Background(), Options{From: dir, DataDir: data, NodeID: "pathlockd-0"})
	if err != nil {
		t.Fatal(err)
	}
	groups, _, system := loadDir(t, data)
	return groups, system, r
}

// TestLocalOfOneInstant: where all logs fit together a local backup is restored as any other.
func TestLocalOfOneInstant(t *testing.T) {
	p := full(t)
	p.choose(t, "h:/9/of/its/own")
	dir := p.save(t, nil)
	want, system, _ := restored(t, dir)
	got, same, r := restored(t, local(t, dir))
	if len(r.Report.Strays) > 0 || system.Digest() != same.Digest() {
		t.Errorf("it has %+v, and routes of version %d, want %d", r.Report.Strays, same.Version(), system.Version())
	}
	for number, g := range want {
		if g.View().Digest() != got[number].View().Digest() {
			t.Errorf("group %d is another one", number)
		}
	}
}

// TestLocalEndsStrays: what is held and waited for on paths that the routes put into another namespace ends, as verify
// says, and who waited for just that gets it; what is frozen is let go.
func TestLocalEndsStrays(t *testing.T) {
	const root = "h:/0/alone"
	p := newPlace()
	home := wire.GroupOf("h:/0", testGroups)
	p.write(t, "old", root+"/x")
	p.write(t, "stays", "h:/1/other")
	p.write(t, "waits", root+"/x")
	p.write(t, "both", root) // its path is the root itself
	p.write(t, "above", "h:/0")
	p.choose(t, root)
	var out engine.Output
	freeze := &engine.Command{NS: "h:/0", Req: &wire.Request{Op: wire.OpFreeze, Namespace: "h:/0/frozen", Target: 9}}
	if res := p.groups[home].Apply(engine.Clock{Now: p.now, Wall: p.now}, freeze, &out); res.Status != wire.StatusOK {
		t.Fatal(res)
	}
	groups, system, r := restored(t, local(t, p.save(t, nil)))
	if n := len(r.Report.Strays); n != 3 {
		t.Errorf("verify names %d: %+v", n, r.Report.Strays)
	}
	g := groups[home]
	if left := g.Strays(system.Routes(1).Resolve); len(left) > 0 || len(g.Freezing()) > 0 {
		t.Errorf("there are %+v left, and %v is frozen", left, g.Freezing())
	}
	if _, held := groups[wire.GroupOf("h:/1", testGroups)].View().List("stays", nil); len(held) != 1 {
		t.Errorf("who holds what is where it was has %+v", held)
	}
	if _, held := g.View().List("above", nil); len(held) != 1 || held[0].Path != "h:/0" || held[0].Fence <= r.Base {
		t.Errorf("who waited for what ended has %+v, with base %d", held, r.Base)
	}
	if system.Version() != 10 {
		t.Errorf("the routes have version %d; a group knows of 9", system.Version())
	}
}
