package engine

import (
	"testing"

	"github.com/pathlockd/pathlockd/wire"
)

// adriftWait has session 1 wait for a path on its first connection, to be tied with a grace of 5 s, and that end.
func (g *graces) adriftWait() (token int64) {
	g.t.Helper()
	g.do(1, 9, 1, -1, takes("holder", "h:/a/x"))
	res := g.do(2, 1, 1, 5000, waitsOn("o", "h:/a/x"))
	if res.Status != wire.StatusQueued {
		g.t.Fatalf("%+v", res)
	}
	g.detach(10, 1, 1)
	return res.Token
}

// repeats has session 1 ask for its wait again, which had its place with a token.
func (g *graces) repeats(now int64, epoch uint64, grace, token int64) {
	g.t.Helper()
	cmd := &Command{
		NS: "h:/a", Caller: Caller{Session{1}, 2}, Epoch: epoch, Bound: grace >= 0, Grace: max(grace, 0),
		Req: waitsOn("o", "h:/a/x"),
	}
	first := wire.Result{Status: wire.StatusQueued, Token: token}
	if !g.s.Awaits(cmd.Caller) {
		if res := g.s.Repeat(Clock{Now: now}, cmd, &first, new(Output)); res.Status != wire.StatusOK {
			g.t.Errorf("what was granted is answered %+v", res)
		}
	} else if res := g.s.Apply(Clock{Now: now}, cmd, new(Output)); res.Status != wire.StatusQueued {
		g.t.Errorf("the repeat of the wait is answered %+v", res)
	}
}

// granted has the path that is waited for given back.
func (g *graces) granted(now int64) {
	g.t.Helper()
	back := []wire.ReleaseRequest{{Path: "h:/a/x"}}
	g.do(now, 9, 1, -1, &wire.Request{Op: wire.OpRelease, Owner: "holder", Releases: back})
}

func unbinds() *wire.Request { return &wire.Request{Op: wire.OpUnbind, Owner: "o"} }

// binds ties the owner on a connection of session 1.
func (g *graces) binds(now int64, epoch uint64, grace int64) {
	g.t.Helper()
	g.do(now, 1, epoch, grace, &wire.Request{Op: wire.OpBind, Owner: "o"})
}

// TestUnboundWhileAdrift: a wait that is to be tied loses its connection and keeps its place for the grace. Its client
// comes back, and binds or unbinds the owner before its repeat of the wait has come to the log (it was refused with
// code 14, say), and is gone as well, at once or when the path is granted. What is granted within the grace is granted
// to nobody: it lasts for that grace, and neither for the TTL nor for another one.
func TestUnboundWhileAdrift(t *testing.T) {
	for name, does := range map[string]func(g *graces){
		"does nothing":      func(*graces) {},
		"unbinds":           func(g *graces) { g.do(20, 1, 2, -1, unbinds()) },
		"unbinds twice":     func(g *graces) { g.do(20, 1, 2, -1, unbinds()); g.do(21, 1, 2, -1, unbinds()) },
		"binds for longer":  func(g *graces) { g.binds(20, 2, hourMillis) },
		"binds for shorter": func(g *graces) { g.binds(20, 2, 1000) },
		"unbinds and binds": func(g *graces) { g.do(20, 1, 2, -1, unbinds()); g.binds(21, 2, hourMillis) },
	} {
		for _, first := range []bool{true, false} {
			t.Run(name, func(t *testing.T) {
				bothGraces(t, func(t *testing.T, g *graces) {
					g.adriftWait()
					does(g)
					if first {
						g.detach(30, 1, 2)
					}
					g.granted(40)
					if !first {
						g.detach(40, 1, 2)
					}
					g.ends(40 + 5000)
					// another session, which keeps nothing of the first one's
					g.do(60, 2, 1, 1000, takes("o", "h:/a/y"))
					g.detach(70, 2, 1)
					g.ends(40 + 5000)
				})
			})
		}
	}
}

// TestUnboundAndRepeated: a client that unbinds the owner of such a wait, and then repeats it, has it for its TTL: what
// it is granted, before the repeat or after, hangs on no connection. If the repeat ties it, it does.
func TestUnboundAndRepeated(t *testing.T) {
	for name, before := range map[string]bool{"granted before": true, "granted after": false} {
		for _, ties := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				bothGraces(t, func(t *testing.T, g *graces) {
					token := g.adriftWait()
					g.do(20, 1, 2, -1, unbinds())
					grace, until := int64(-1), int64(30+hourMillis)
					if ties {
						grace, until = 1000, 60+1000
					}
					if before {
						g.granted(30)
					}
					g.repeats(30, 2, grace, token)
					if !before {
						g.granted(30)
					}
					g.detach(60, 1, 2)
					g.ends(until)
				})
			})
		}
	}
}

// TestBoundWhileAdrift: a client that binds the owner of such a wait, and then renews what that was granted, has it for
// as long as its new connection stands, though it has not repeated the wait.
func TestBoundWhileAdrift(t *testing.T) {
	bothGraces(t, func(t *testing.T, g *graces) {
		g.adriftWait()
		g.binds(20, 2, 7000)
		g.granted(30)
		g.renews(40, 1, 2)
		g.ends(40 + hourMillis)
		g.detach(60, 1, 2)
		g.ends(60 + 5000)
	})
}

// TestBoundBeforeTheEnd: a client comes back and binds the owner of its wait with another grace, and goes again. The
// end of its first connection is heard after that. What it is granted lasts for no more than that grace.
func TestBoundBeforeTheEnd(t *testing.T) {
	for _, order := range [][]uint64{{1, 2}, {2, 1}} {
		bothGraces(t, func(t *testing.T, g *graces) {
			g.do(1, 9, 1, -1, takes("holder", "h:/a/x"))
			g.do(2, 1, 1, 5000, waitsOn("o", "h:/a/x"))
			g.binds(5, 2, 7000)
			for i, epoch := range order {
				g.detach(10+int64(i), 1, epoch)
			}
			g.granted(40)
			g.do(60, 2, 1, 1000, takes("o", "h:/a/y"))
			g.detach(70, 2, 1)
			g.ends(40 + 7000)
		})
	}
}

// TestUnboundBeforeTheEnd: as TestUnboundAndRepeated, and the end of the first connection is heard before the unbind on
// the second, or after it. The place in the queue is kept either way.
func TestUnboundBeforeTheEnd(t *testing.T) {
	for name, endFirst := range map[string]bool{"end first": true, "unbind first": false} {
		t.Run(name, func(t *testing.T) {
			bothGraces(t, func(t *testing.T, g *graces) {
				g.do(1, 9, 1, -1, takes("holder", "h:/a/x"))
				token := g.do(2, 1, 1, 5000, waitsOn("o", "h:/a/x")).Token
				g.do(3, 3, 1, 5000, waitsOn("p", "h:/a/x"))
				if endFirst {
					g.detach(10, 1, 1)
				}
				g.do(11, 1, 2, -1, unbinds())
				if !endFirst {
					g.detach(12, 1, 1)
				}
				g.repeats(20, 2, 5000, token)
				g.granted(30)
				if l := g.s.leases.Get(g.s.leaseKey("o", "h:/a")); l == nil || !l.held() {
					t.Error("the path goes to who waits behind it")
				}
			})
		})
	}
}
