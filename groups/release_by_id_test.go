package groups

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/groups/replica"
	"github.com/pathlockd/pathlockd/wire"
)

// releasedApart is a release of two paths in one log, with a key that another log looks after, or with none.
type releasedApart struct {
	*rig
	key  string
	x, y string
	ns   string // that they are in
	near string // a namespace in the log that looks after the key
	c    *caller
	id   uint64
}

func newReleasedApart(t *testing.T, key string, adjust func(*Config)) *releasedApart {
	t.Helper()
	a := &releasedApart{rig: newRig(t, adjust), key: key, near: "h:/a"}
	for _, ns := range a.apart("g", 8) {
		if a.node.logOf(a.node.groupOf(ns)) != a.node.logOf(a.node.groupOf(a.near)) {
			a.ns = ns
		}
	}
	for key != "" && a.node.logOf(wire.HomeOf(a.key, a.node.cfg.GroupCount)) != a.node.logOf(a.node.groupOf(a.near)) {
		a.key += "x"
	}
	a.c, a.x, a.y = a.session(), a.ns+"/x", a.ns+"/y"
	a.c.must(write("o", a.x, time.Hour))
	a.c.must(write("o", a.y, time.Hour))
	if a.id = a.next.Add(1); a.asks(t).Code != wire.OK {
		t.Fatal("it is not carried out")
	}
	return a
}

func (a *releasedApart) asks(t *testing.T) wire.Result {
	return a.c.start(a.id, &wire.Request{
		Op: wire.OpRelease, Owner: "o", Key: a.key, Releases: []wire.ReleaseRequest{{Path: a.x}, {Path: a.y}},
	}).get(t, "the release")
}

// again has it be asked under its id, on a later connection, when the owner has taken a path anew, and the key's time
// is over.
func (a *releasedApart) again(t *testing.T, over func(other *caller)) wire.Result {
	t.Helper()
	other := a.session()
	other.must(write("o", a.x, time.Hour))
	over(other)
	a.nextConnection(a.c)
	res := a.asks(t)
	if owner := other.inspect(a.x).Owner; owner != "o" {
		t.Errorf("the repeat is answered %v %s; what was taken after the first was answered is held by %q",
			res.Code, res.Message, owner)
	}
	return res
}

// TestReleaseOfASessionSilentAtItsKey: the session goes on, but asks nothing in the log that looks after the key, which
// forgets it. The log of the paths remembers that the release was carried out, and what was taken since stays.
func TestReleaseOfASessionSilentAtItsKey(t *testing.T) {
	for _, key := range []string{"", "k"} {
		t.Run("with key "+key, func(t *testing.T) {
			a := newReleasedApart(t, key, func(c *Config) {
				briefKeys(c)
				c.stated = func(l *replica.Limits) { l.KeptMillis, l.RememberMillis = 3000, 1500 }
			})
			a.again(t, func(other *caller) {
				for range 10 {
					a.clock.hurry(400 * time.Millisecond)
					a.c.must(write("p", a.ns+"/p", time.Hour))
					other.must(write("q", a.near+"/q", time.Hour))
				}
			})
		})
	}
}

// TestForgottenReleaseWithKey: TestForgottenWithKey of a release of two paths: what is not kept any more is refused,
// and never run. The log of the key does not know of the later connection yet.
func TestForgottenReleaseWithKey(t *testing.T) {
	for _, key := range []string{"", "k"} {
		t.Run("with key "+key, func(t *testing.T) {
			a := newReleasedApart(t, key, func(c *Config) {
				briefKeys(c)
				brief := c.stated
				c.stated = func(l *replica.Limits) { brief(l); l.MaxWindow = 4 }
			})
			at := a.near
			if key == "" {
				at = a.ns
			}
			res := a.again(t, func(*caller) {
				for range 8 {
					a.c.must(write("p", at+"/p", time.Hour))
				}
				a.clock.hurry(time.Second)
			})
			if res.Code != wire.Forgotten {
				t.Errorf("answered %v %s", res.Code, res.Message)
			}
		})
	}
}
