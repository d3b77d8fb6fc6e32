package engine

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/pathlockd/pathlockd/wire"
)

// TestMovingAgainstAWalk: what a routing change looks at (eachMoving) is what a plain walk over everything says that it
// moves: whatever the policies, names that begin alike, bare handlers, segments.
func TestMovingAgainstAWalk(t *testing.T) {
	names := []string{"a", "ab", "a-", "a.", "a0", "\xff", "a\xff", "\x01", "a\x01", "b"}
	for seed := range uint64(6000) {
		r := rand.New(rand.NewPCG(seed, 7))
		cfg := DefaultConfig()
		cfg.Segments = int(seed % 4)
		handlers := []string{"h", "hx", "h-"}
		path := func(max int) string {
			p := handlers[min(r.IntN(6), 2)*(r.IntN(3)/2)] + ":"
			n := r.IntN(max + 1)
			for range n {
				p += "/" + names[min(r.IntN(len(names)), r.IntN(len(names)))]
			}
			if n == 0 {
				p += "/"
			}
			return p
		}
		root := func() string {
			p := path(3)
			if strings.HasSuffix(p, ":/") && r.IntN(2) == 0 {
				p = strings.TrimSuffix(p, ":/")
			}
			return p
		}
		var roots []string
		for range r.IntN(6) {
			roots = append(roots, root())
		}
		slices.Sort(roots)
		roots = slices.Compact(roots)
		routes := wire.NewRoutes(0, cfg.Segments, roots)
		s := New(cfg, nil, nil)
		var out Output
		algs := []wire.Algorithm{wire.RecursiveRW, wire.PointRW, wire.Semaphore}
		for _, ns := range roots {
			if r.IntN(5) > 0 {
				s.Apply(Clock{Now: 1}, &Command{Req: &wire.Request{Op: wire.OpSetRow, Namespace: ns,
					Algorithm: algs[r.IntN(3)], Explicit: true}}, &out)
			}
		}
		for i := range 60 {
			p := path(4)
			old := routes
			if r.IntN(4) == 0 { // also of namespaces that are no roots
				old = wire.NewRoutes(0, r.IntN(4), roots[:len(roots)/2])
			}
			req := &wire.Request{Op: wire.OpAcquire, Owner: fmt.Sprint("o", r.IntN(4)),
				TTLMillis: uint64(1 + r.IntN(3)*100000),
				Locks:     []wire.LockRequest{{Path: p, Permits: 1, Mode: wire.Mode(r.IntN(2))}}}
			if r.IntN(2) == 0 {
				req.Flags = wire.FlagWait
			}
			c := &Command{Req: req, NS: old.Resolve(p)}
			c.Caller.ID, c.Caller.Session, c.Epoch = uint64(i+1), Session{1}, 1
			s.Apply(Clock{Now: 1}, c, &out)
		}
		s.now = 2
		for range 8 {
			move := root()
			var want, got []string
			s.holds.All().AscendClass(liveHolds, func(k string, _ *hold) bool {
				if s.moves(move, k) {
					want = append(want, k)
				}
				return true
			})
			eachMoving(s, &s.holds, liveHolds, move, func(k string, _ *hold) bool { got = append(got, k); return true })
			if !slices.Equal(want, got) {
				t.Fatalf("seed %d root %q roots %q: holds\n%q\n%q", seed, move, roots, want, got)
			}
			want, got = nil, nil
			s.queue.All().Ascend(func(k string, _ *place) bool {
				if s.moves(move, k) {
					want = append(want, k)
				}
				return true
			})
			eachMoving(s, &s.queue, classWait.Mask(), move,
				func(k string, _ *place) bool { got = append(got, k); return true })
			if !slices.Equal(want, got) {
				t.Fatalf("seed %d root %q roots %q: waits\n%q\n%q", seed, move, roots, want, got)
			}
		}
		if seed == 100 {
			t.Log(s.holds.Sum(), s.queue.Sum())
		}
	}
}
