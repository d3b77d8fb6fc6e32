package pathlockd

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestLanesAtRandom: leaders move, and connections break, seldom or never. No lock is lost, and who believes in one has
// it. In half of the seeds the program ties and binds itself, too.
func TestLanesAtRandom(t *testing.T) {
	for seed := range simNumber(t, seedsVar, 8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				rnd := rand.New(rand.NewPCG(uint64(seed), 7))
				f := newFakeCluster(t, 4, 1, 2, 3, 0)
				f.tells = rnd.IntN(2) == 0
				e := newEngineCluster(t, f)
				cuts, mixes := rnd.IntN(2) == 0, rnd.IntN(2) == 0
				c := f.client(WithGrace([]time.Duration{time.Second, 15 * time.Second}[rnd.IntN(2)]))
				f.warm(c)
				ctx := context.Background()
				var held []*Lock
				check := func() bool {
					for _, l := range held {
						if err := l.Err(); err != nil {
							t.Errorf("lost: %v", err)
						}
						for _, p := range l.Paths() {
							e.mu.Lock()
							e.tick()
							if !holdsPath(e.state, e.routes, l.Owner(), p) {
								t.Errorf("believed in and not held: %v of %s", p, l.Owner())
							}
							e.mu.Unlock()
						}
					}
					if t.Failed() {
						e.mu.Lock()
						t.Log(strings.Join(e.notes[max(0, len(e.notes)-40):], "\n"))
						e.mu.Unlock()
					}
					return !t.Failed()
				}
				n := 0
				for range 60 {
					switch rnd.IntN(10) {
					case 0, 1, 2:
						n++
						path := strings.TrimSuffix(in(rnd.IntN(4)), "x") + fmt.Sprint("p", n)
						opts := []LockOption{TTL([]time.Duration{3 * time.Second, 30 * time.Second, 10 * time.Minute,
							time.Hour}[rnd.IntN(4)])}
						if rnd.IntN(2) == 0 {
							opts = append(opts, Owner(fmt.Sprint("o", rnd.IntN(3))))
						}
						var l *Lock
						var err error
						switch rnd.IntN(3) {
						case 0:
							l, err = c.TryLock(ctx, path, opts...)
						case 1:
							l, err = c.RLock(ctx, path, opts...)
						default:
							l, err = c.LockAll(ctx, []Path{{Path: path}, {Path: path + "q", Mode: Read}}, opts...)
						}
						held = append(held, mustLock(t, l, err))
					case 3:
						if len(held) > 0 {
							i := rnd.IntN(len(held))
							l := held[i]
							held = append(held[:i], held[i+1:]...)
							if err := l.Unlock(); err != nil {
								t.Errorf("unlock: %v", err)
							}
							e.mu.Lock()
							for _, p := range l.Paths() {
								if holdsPath(e.state, e.routes, l.Owner(), p) {
									t.Errorf("given back and held: %v", p)
								}
							}
							e.mu.Unlock()
						}
					case 4, 5, 6:
						f.lead(rnd.IntN(4), rnd.IntN(4), rnd.IntN(4), rnd.IntN(4))
						f.tell()
					case 8, 9:
						if cuts {
							f.cut(fmt.Sprint("n", rnd.IntN(4)))
						}
					case 7:
						if !mixes {
							break
						}
						o := fmt.Sprint("o", rnd.IntN(3))
						switch rnd.IntN(4) {
						case 0:
							c.Go(takesFor(o, strings.TrimSuffix(in(rnd.IntN(4)), "x")+"own", time.Minute,
								wire.FlagNoQueue|wire.FlagBind), nil)
						case 1:
							_, err := c.Renew(ctx, o, time.Hour, "", wire.FlagBind|wire.FlagExtend)
							must(t, err)
						case 2:
							_, err := c.Bind(ctx, o, 20*time.Second, 0)
							must(t, err)
						default:
							must(t, c.Unbind(ctx, o))
						}
					}
					pass([]time.Duration{0, time.Millisecond, time.Second, 36 * time.Second, 69 * time.Second,
						71 * time.Second, 150 * time.Second}[rnd.IntN(7)])
					if !check() {
						return
					}
				}
				for range 30 {
					pass(10 * time.Second)
					if !check() {
						return
					}
				}
			})
		})
		if t.Failed() {
			return
		}
	}
}
