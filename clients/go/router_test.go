package pathlockd

import (
	"context"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

func TestRequestsGoToTheLeader(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFakeCluster(t, 3, 0, 1, 2, -1)
		c := f.client()
		for g := range groupsOfFakeCluster {
			f.goes(c, g) // by whichever node: the lanes are being opened
		}
		pass(0)
		for g, want := range []string{"n0", "n1", "n2", "n0"} {
			if n := f.goes(c, g); n != want {
				t.Fatalf("group %d went to %s, want %s", g, n, want)
			}
			if _, err := c.InspectPath(context.Background(), in(g)); err != nil ||
				f.last(wire.OpInspectPath).node != want {
				t.Fatalf("a read of group %d went to %s, %v", g, f.last(wire.OpInspectPath).node, err)
			}
		}
		// About several namespaces, or none.
		must(t, c.Release(context.Background(), "o", []wire.ReleaseRequest{{Path: in(1)}, {Path: in(2)}}, false, ""))
		if n := f.last(wire.OpRelease).node; n != "n0" {
			t.Fatalf("a release of two namespaces went to %s", n)
		}
		must(t, c.Release(context.Background(), "o", []wire.ReleaseRequest{{Path: in(1)}}, true, ""))
		if n := f.last(wire.OpRelease).node; n != "n0" {
			t.Fatalf("a release with a wait edge went to %s", n)
		}
		// A push moves them; an older one does not.
		f.lead(2, 2, 0, 1)
		f.tell()
		pass(0)
		for g, want := range []string{"n2", "n2", "n0", "n1"} {
			if n := f.goes(c, g); n != want {
				t.Fatalf("group %d went to %s, want %s", g, n, want)
			}
		}
		if len(f.hellos) != 3 {
			t.Fatalf("%d connections, want one for each node", len(f.hellos))
		}
	})
}

func TestOneConnectionStaysOne(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFakeCluster(t, 3, 1, 1, 2, 2)
		c := f.client(WithOneConnection())
		for g := range groupsOfFakeCluster {
			f.goes(c, g)
			pass(0)
			if n := f.goes(c, g); n != "n0" {
				t.Fatalf("group %d went to %s", g, n)
			}
		}
		if len(f.hellos) != 1 {
			t.Fatalf("%d connections", len(f.hellos))
		}
	})
}

// TestBadTopology: what does not fit together moves nothing, and breaks nothing.
func TestBadTopology(t *testing.T) {
	for name, spoil := range map[string]func(*wire.Topology){
		"no logs":         func(t *wire.Topology) { t.LogOf = nil },
		"fewer logs":      func(t *wire.Topology) { t.LogOf = t.LogOf[:1] },
		"a log too far":   func(t *wire.Topology) { t.LogOf = []uint64{9, 9, 9, 1 << 63} },
		"no groups":       func(t *wire.Topology) { t.GroupLogs, t.LogOf = 0, nil },
		"too many groups": func(t *wire.Topology) { t.GroupLogs = 1 << 60 },
		"no addresses":    func(t *wire.Topology) { t.Nodes = nil },
		"every interface": func(t *wire.Topology) {
			t.Nodes = []wire.NodeAddr{{NodeID: "n1", Native: "0.0.0.0:1"}, {NodeID: "n1", Native: "[::]:1"}}
		},
		"another node": func(t *wire.Topology) { t.Nodes[1].Native = "n2:1" },
		"no leaders":   func(t *wire.Topology) { t.Leaders = nil },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFakeCluster(t, 3, 1, 1, 1, 1)
				spoil(&f.top)
				c := f.client()
				for g := range groupsOfFakeCluster {
					f.goes(c, g)
					pass(0)
					if n := f.goes(c, g); n != "n0" {
						t.Fatalf("group %d went to %s", g, n)
					}
				}
			})
		})
	}
}

// TestBoundOwnersKeepToOneConnection: Bind sends everything home, and Unbind away.
func TestBoundOwnersKeepToOneConnection(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFakeCluster(t, 2, 1, 1, 1, 1)
		c := f.client()
		f.warm(c)
		if n := f.goes(c, 1); n != "n1" {
			t.Fatalf("went to %s", n)
		}
		_, err := c.Bind(context.Background(), "o", time.Second, 0)
		must(t, err)
		if n := f.goes(c, 1); n != "n0" || f.last(wire.OpBind).node != "n0" {
			t.Fatalf("bound at %s, went to %s", f.last(wire.OpBind).node, n)
		}
		must(t, c.Unbind(context.Background(), "o"))
		if n := f.goes(c, 1); n != "n1" {
			t.Fatalf("went to %s after it was unbound", n)
		}
	})
}

// TestLearnedNodesAreFallbacks: the client goes on at nodes it was never told of.
func TestLearnedNodesAreFallbacks(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFakeCluster(t, 3, 0, 0, 0, 0)
		c := f.client()
		f.goes(c, 0)
		f.kill("n0")
		f.kill("n1")
		f.lead(2, 2, 2, 2)
		if n := f.goes(c, 0); n != "n2" || c.Server() != "n2" {
			t.Fatalf("went to %s", n)
		}
		if a, b := f.hellos[0].hello, f.hellos[len(f.hellos)-1].hello; string(a.Session) != string(b.Session) ||
			b.Epoch <= a.Epoch {
			t.Fatalf("sessions %x and %x, epochs %d and %d", a.Session, b.Session, a.Epoch, b.Epoch)
		}
	})
}

// TestWhichTopologyIsTaken: of one connection the later, of several that of the last, as
// each node counts its own.
func TestWhichTopologyIsTaken(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFakeCluster(t, 2, 0, 0, 0, 0)
		c := f.client(WithOneConnection())
		pass(0)
		for _, one := range []struct {
			version, on uint64
			told, want  string
		}{
			{5, 10, "n1", "n1"},
			{4, 10, "n0", "n1"},
			{6, 10, "n0", "n0"},
			{7, 9, "n1", "n0"},
			{1, 11, "n1", "n1"},
		} {
			top := f.top
			top.Version, top.Leaders = one.version, []string{one.told}
			c.router.learn(&top, one.on)
			c.router.mu.Lock()
			got := c.router.mu.topology.Leaders[0]
			c.router.mu.Unlock()
			if got != one.want {
				t.Errorf("version %d of connection %d: led by %s, want %s", one.version, one.on, got, one.want)
			}
		}
	})
}
