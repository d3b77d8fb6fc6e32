package engine

import (
	"fmt"
	"testing"

	"github.com/pathlockd/pathlockd/wire"
)

// TestNoLeaseLivesAgain: a lease whose grace is over counts as over, though its departure has not come to it, and so a
// routing change may take its path away. That holds when its session, which comes and goes all the time, goes once
// more: no more of its ends are kept than maxDepartures, but each of them counts from its own time.
func TestNoLeaseLivesAgain(t *testing.T) {
	for _, before := range []int64{3, maxDepartures - 1} {
		t.Run(fmt.Sprint(before, " ends before"), func(t *testing.T) {
			g := slowGraces(t)
			for i := range 20 {
				g.do(1, 1, 1, 5, takes(fmt.Sprintf("a%02d", i), fmt.Sprintf("h:/a/a%02d", i)))
			}
			for i := range before {
				g.detach(10+i, 1, uint64(i)+1)
			}
			at, epoch := 10+before, uint64(before)+1
			g.do(at, 1, epoch, 5, takes("o", "h:/a/z/y"))
			g.detach(at+1, 1, epoch)
			if alive := g.s.View().Alive("o", nil); !alive {
				t.Fatal("within its grace")
			}
			if res := g.do(at+6, 9, 1, -1, &wire.Request{Op: wire.OpFreeze, Namespace: "h:/a/z", Attempt: 1,
				Target: 2}); res.Status != wire.StatusOK {
				t.Fatalf("%s is held by %q", res.Path, res.Owner)
			}
			g.detach(at+7, 1, epoch+1)
			if alive := g.s.View().Alive("o", nil); alive {
				t.Error("it is alive again")
			}
			if res := g.do(at+8, 1, epoch+2, 5, &wire.Request{Op: wire.OpRenew, Owner: "o",
				TTLMillis: hourMillis}); res.Status != wire.RenewLost {
				t.Errorf("its renewal is answered %v", res.Status)
			}
		})
	}
}

// TestEndToldOnceMore: an end that is told again, as nobody knew whether it was heard, leaves the grace what it was,
// also where a session has gone as often as its ends are kept apart.
func TestEndToldOnceMore(t *testing.T) {
	for _, ends := range []int64{4, maxDepartures} {
		t.Run(fmt.Sprint(ends, " ends"), func(t *testing.T) {
			bothGraces(t, func(t *testing.T, g *graces) {
				for i := range 2 * maxDepartures {
					g.do(1, 1, 1, 1000, takes(fmt.Sprintf("a%03d", i), fmt.Sprintf("h:/a/a%03d", i)))
				}
				for i := range ends - 1 {
					g.detach(2+i, 1, uint64(i)+1)
				}
				g.do(100, 1, uint64(ends), 1000, takes("o", "h:/a/o"))
				g.detach(101, 1, uint64(ends))
				g.detach(900, 1, uint64(ends))
				g.settles(900)
				g.ends(101 + 1000)
			})
		})
	}
}

// TestEarlierEndBehindLater: a client went on on another node, and died there; the first node sends an acquire that was
// held up, and ends its connection as well. What it took is tied to that, and ends with its grace.
func TestEarlierEndBehindLater(t *testing.T) {
	bothGraces(t, func(t *testing.T, g *graces) {
		g.do(1, 1, 1, 1000, takes("p", "h:/a/p"))
		g.do(2, 1, 1, 1000, takes("q", "h:/a/q"))
		g.detach(5, 1, 2)
		g.do(6, 1, 1, 1000, takes("o", "h:/a/o"))
		g.detach(7, 1, 1)
		g.settles(7)
		g.ends(7 + 1000)
		for _, of := range []string{"p", "q"} {
			if l := g.s.leases.Get(g.s.leaseKey(of, "h:/a")); l.deadline != 5+1000 || l.bind.spent != 3 {
				t.Errorf("the lease of %s lasts until %d", of, l.deadline)
			}
		}
	})
}

// TestKeptBeforeTheEnd: a session keeps its lease on its next connection before the end of the last one is heard. It is
// as if that had come first: the lease follows the new connection, with the grace that it had.
func TestKeptBeforeTheEnd(t *testing.T) {
	keeps := map[string]func(g *graces){
		"renews": func(g *graces) { g.renews(6, 1, 2) },
		"takes":  func(g *graces) { g.do(6, 1, 2, -1, takes("o", "h:/a/z")) },
		"waits": func(g *graces) {
			g.do(6, 9, 1, -1, takes("other", "h:/a/z"))
			g.do(6, 1, 2, -1, waitsOn("o", "h:/a/z"))
			back := []wire.ReleaseRequest{{Path: "h:/a/z"}}
			g.do(6, 9, 1, -1, &wire.Request{Op: wire.OpRelease, Owner: "other", Releases: back})
		},
	}
	for how, keep := range keeps {
		for _, other := range []bool{false, true} {
			for _, unbinds := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, beside another %v, unbinds %v", how, other, unbinds), func(t *testing.T) {
					bothGraces(t, func(t *testing.T, g *graces) {
						g.do(1, 1, 1, 1000, takes("a", "h:/a/w"))
						g.do(1, 1, 1, 1000, takes("o", "h:/a/x"))
						if other {
							g.do(2, 2, 1, 1000, takes("o", "h:/a/y"))
						}
						keep(g)
						if unbinds {
							g.do(7, 1, 2, -1, &wire.Request{Op: wire.OpUnbind, Owner: "o"})
						}
						g.detach(8, 1, 1)
						if other && !unbinds {
							g.detach(9, 2, 1)
						}
						g.settles(9)
						g.ends(6 + hourMillis)
						g.renews(9, 1, 1) // a late one of the first connection
						g.detach(10, 1, 2)
						g.settles(10)
						if unbinds {
							g.ends(9 + hourMillis)
						} else {
							g.ends(10 + 1000)
						}
					})
				})
			}
		}
	}
}

// TestTimeOverBehindDeparture: the connection of a wait ended before its time was over. Whichever is come to first, it
// is the end of the connection that it hears of.
func TestTimeOverBehindDeparture(t *testing.T) {
	bothGraces(t, func(t *testing.T, g *graces) {
		g.do(1, 2, 1, -1, takes("other", "h:/a/x"))
		for i := range int64(3) {
			wait := waitsOn(fmt.Sprint("w", i), "h:/a/x")
			wait.QueueTTLMillis = 100
			g.do(2+2*i, 1, 1, -1, wait)
			g.do(3+2*i, 1, 1, 1000, takes(fmt.Sprint("a", i), fmt.Sprint("h:/a/a", i)))
		}
		detach := &Command{Caller: Caller{Session: Session{1}}, Epoch: 1, Req: &wire.Request{Op: wire.OpDetach}}
		var out Output
		g.s.Apply(Clock{Now: 10}, detach, &out)
		g.s.Expire(Clock{Now: 200}, &out)
		if len(out.Answers) != 3 {
			t.Errorf("%d are answered", len(out.Answers))
		}
		for _, a := range out.Answers {
			if a.Result.Code != wire.Cancelled || !a.Left {
				t.Errorf("%v, left %v", a.Result.Code, a.Left)
			}
		}
	})
}
