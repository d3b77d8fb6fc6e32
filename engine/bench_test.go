package engine

import (
	"fmt"
	"testing"

	"github.com/pathlockd/pathlockd/wire"
)

// player plays requests against a state, as a log does.
type player struct {
	s      *State
	routes *wire.Routes
	out    Output
	now    int64
	acq    wire.Request
	rel    wire.Request
}

func newPlayer(cfg Config) *player {
	return &player{
		s: New(cfg, nil, nil), routes: wire.NewRoutes(0, 1, nil), now: 1,
		acq: wire.Request{Op: wire.OpAcquire, TTLMillis: wire.MaxTTLMillis, Locks: make([]wire.LockRequest, 1)},
		rel: wire.Request{Op: wire.OpRelease, Releases: make([]wire.ReleaseRequest, 1)},
	}
}

func (p *player) acquire(owner, path string) wire.Result {
	p.acq.Owner, p.acq.Locks[0].Path = owner, path
	return p.s.Apply(Clock{Now: p.now}, &Command{Req: &p.acq, NS: p.routes.Resolve(path)}, &p.out)
}

func (p *player) release(owner, path string) {
	p.rel.Owner, p.rel.Releases[0].Path = owner, path
	p.s.Apply(Clock{Now: p.now}, &Command{Req: &p.rel, NS: p.routes.Resolve(path)}, &p.out)
}

func benchPath(i int) string {
	return fmt.Sprintf("bench:/ns%02d/a%02d/b%02d/c%07d", i%64, i/64%50, i/3200%50, i)
}

// full is a state with n locks of 10 000 owners.
func full(b *testing.B, n int) *player {
	p := newPlayer(DefaultConfig())
	for i := range n {
		if res := p.acquire(fmt.Sprintf("owner-%d", i%10_000), benchPath(i)); res.Status != wire.StatusOK {
			b.Fatal(res)
		}
	}
	return p
}

// BenchmarkAcquireRelease is one acquire and one release of a path that nobody
// else wants, among 1 M held ones, in batches of 100.
func BenchmarkAcquireRelease(b *testing.B) {
	const held, pool = 1_000_000, 1 << 17
	p := full(b, held)
	paths, owners := make([]string, pool), make([]string, pool)
	for i := range paths {
		paths[i], owners[i] = benchPath(held+i), fmt.Sprintf("worker-%d", i%1024)
	}
	next := 0
	run := func(b *testing.B, snapshot bool) {
		b.ReportAllocs()
		for i := 0; i < b.N; i += 100 {
			p.now++
			p.out.Reset()
			if snapshot {
				p.s.View()
			}
			from := next
			for range 100 {
				p.acquire(owners[next%pool], paths[next%pool])
				next++
			}
			for j := from; j < next; j++ {
				p.release(owners[j%pool], paths[j%pool])
			}
			if next%pool < 100 { // as a checkpoint does, now and then
				v := p.s.Checkpoint()
				p.s.Written(v.Mark())
				for !p.s.EvictFences(1 << 20) {
				}
			}
		}
	}
	b.Run("plain", func(b *testing.B) { run(b, false) })
	b.Run("view-per-batch", func(b *testing.B) { run(b, true) })
}
