package load

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/bench/ceiling"
	"github.com/pathlockd/pathlockd/wire"
)

// TestPath: paths are what the budgets are stated for, and distinct.
func TestPath(t *testing.T) {
	seen := make(map[string]bool)
	for _, i := range []int{0, 1, 63, 64, 3199, 3200, 999_999, 9_999_999} {
		want := fmt.Sprintf("bench:/ns%02d/a%02d/b%02d/c%07d", i%64, i/64%50, i/3200%50, i)
		if got := Path(i); got != want {
			t.Errorf("path %d is %s, want %s", i, got, want)
		}
		seen[Path(i)] = true
	}
	if len(seen) != 8 {
		t.Errorf("8 paths are %d different ones", len(seen))
	}
}

// TestFrame: a patched frame is the request that would have been encoded anew.
func TestFrame(t *testing.T) {
	lock := newFrame(&wire.Request{Op: wire.OpAcquire, Owner: "me", TTLMillis: 1000,
		Locks: []wire.LockRequest{{Path: pathForm}}})
	free := newFrame(&wire.Request{Op: wire.OpRelease, Owner: "me", Releases: []wire.ReleaseRequest{{Path: pathForm}}})
	for _, n := range []int{1, 70_000, 1 << 31} {
		for op, f := range map[wire.Op]frame{wire.OpAcquire: lock, wire.OpRelease: free} {
			payload, size, _, err := wire.NextFrame(f.appendPath([]byte("before")[:0], uint32(n), 123_456),
				wire.MaxFrameBytes)
			if err != nil || size != len(f) {
				t.Fatalf("frame of %v: %d bytes of %d, %v", op, size, len(f), err)
			}
			var req wire.Request
			id, _, _, refusal := wire.DecodeRequest(payload, &req)
			if refusal == nil {
				refusal = req.Validate()
			}
			if refusal != nil {
				t.Fatal(refusal)
			}
			path := ""
			switch {
			case len(req.Locks) == 1:
				path = req.Locks[0].Path
			case len(req.Releases) == 1:
				path = req.Releases[0].Path
			}
			if id != uint64(n) || req.Op != op || req.Owner != "me" || path != Path(123_456) {
				t.Errorf("request %d: got id %d, %v of %s by %s", n, id, req.Op, path, req.Owner)
			}
		}
	}
}

// TestInTurn: what makes hand-overs unfair is found.
func TestInTurn(t *testing.T) {
	for _, tt := range []struct {
		name   string
		grants []grant
		fair   bool
	}{
		{"in turn", []grant{{1, 0}, {2, 1}, {3, 2}, {4, 0}, {5, 1}, {6, 2}}, true},
		{"told in another order", []grant{{4, 0}, {1, 0}, {3, 2}, {2, 1}}, true},
		{"overtaken", []grant{{1, 0}, {2, 1}, {3, 0}, {4, 2}}, false},
		{"starved", []grant{{1, 0}, {2, 1}, {3, 0}, {4, 1}}, false},
		{"held by two", []grant{{1, 0}, {1, 1}}, false},
	} {
		if err := inTurn(tt.grants, 3); (err == nil) != tt.fair || err != nil && !errors.Is(err, ErrUnfair) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

// TestPairsOfEcho: the load comes and goes, is counted, and ends in time.
func TestPairsOfEcho(t *testing.T) {
	e, err := ceiling.NewEcho("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	res, err := Pairs{Addr: e.Addr(), Conns: 3, InFlight: 16, Pool: 1000, Echo: true,
		Measure: 50 * time.Millisecond}.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if res.Count < 48 || res.PerSecond() <= 0 || res.P50 <= 0 || res.P99 < res.P50 || res.Max < res.P99 {
		t.Errorf("measured %+v, %.0f/s", res, res.PerSecond())
	}
}

// TestPairsRefused: answers that are no grants are not counted as such. An echo sent
// back to who takes it for a node's answer is a refusal.
func TestPairsRefused(t *testing.T) {
	e, err := ceiling.NewEcho("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if _, err := (Pairs{Addr: e.Addr(), Conns: 1, InFlight: 1, Pool: 10,
		Measure: time.Minute}).Run(t.Context()); !errors.Is(err, errRefused) {
		t.Errorf("a server that grants nothing: %v", err)
	}
	if _, err := (Pairs{Addr: e.Addr(), Conns: 2, InFlight: 8, Pool: 15, Echo: true,
		Measure: time.Minute}).Run(t.Context()); err == nil {
		t.Error("a pool with fewer paths than requests in flight is taken")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := (Pairs{Addr: e.Addr(), Conns: 1, InFlight: 1, Pool: 10, Echo: true,
		Measure: time.Minute}).Run(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("a run that is given up: %v", err)
	}
}

// TestShare: no two requests in flight ever ask for the same path, and each target is
// asked for its own namespaces alone.
func TestShare(t *testing.T) {
	for _, p := range []Pairs{
		{Addr: "a", Conns: 3, InFlight: 5, Pool: 640},
		{Targets: []Target{{"a", []int{0, 7}}, {"b", []int{1, 2, 63}}}, Conns: 5, InFlight: 4, Pool: 640},
		{Targets: []Target{{"a", []int{0, 7}}, {"b", []int{1, 2, 63}}, {"c", []int{5}}}, Conns: 1,
			InFlight: 3, Pool: 640},
	} {
		owner := make(map[int]string)
		for i := range p.Conns {
			s, err := p.share(i)
			if err != nil {
				t.Fatal(err)
			}
			w := p.worker(nil, i, s, nil, nil)
			for j := range w.slots {
				first := w.slots[j].path
				for x := first; ; {
					path := w.share.path(x)
					if path < 0 || path >= p.Pool || s.namespaces != nil && !slices.Contains(s.namespaces,
						path%Namespaces) {
						t.Fatalf("%+v: connection %d at %s asks for %s", p, i, s.addr, Path(path))
					}
					me := fmt.Sprintf("%d.%d", i, j)
					if other, taken := owner[path]; taken {
						t.Fatalf("%+v: %s and %s ask for %s", p, other, me, Path(path))
					}
					owner[path] = me
					if x = (x + w.share.slots) % w.share.pool; x == first {
						break
					}
				}
			}
		}
	}
	for name, p := range map[string]Pairs{
		"no namespace":   {Targets: []Target{{"a", nil}}, Conns: 1, InFlight: 1, Pool: 640},
		"too small pool": {Targets: []Target{{"a", []int{3}}}, Conns: 1, InFlight: 11, Pool: 640},
	} {
		if _, err := p.share(0); err == nil {
			t.Errorf("%s: it is taken", name)
		}
	}
}
