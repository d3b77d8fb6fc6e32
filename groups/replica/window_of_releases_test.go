package replica

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/groups/rows"
	"github.com/pathlockd/pathlockd/wire"
)

// TestWindowOfReleases: a client that never settles has a window of 4. It holds four locks for longer than its session
// is remembered, and gives them back by token and request, all four at once. The connection breaks before the answers
// come: asked again, all four are answered as before.
func TestWindowOfReleases(t *testing.T) {
	b := newBare(t, rows.FirstLog, DefaultLimits())
	s := bareSession(1)
	paths := []string{"h:/a/1", "h:/a/2", "h:/a/3", "h:/a/4"}
	var gives []*wire.Request
	for i, path := range paths {
		res := b.one(bareAsk(s, uint64(i+1), write("o", path, time.Hour)))
		if res.Code != wire.OK || res.Status != wire.StatusOK {
			t.Fatalf("%+v", res)
		}
		give := release("o", path)
		give.Target, give.Token = uint64(i+1), res.Token
		gives = append(gives, give)
	}
	b.do(rememberMillis + 1000)
	b.one(bareAsk(bareSession(2), 1, release("other", "h:/a/9"))) // somebody asks something
	ask := func() (asks []*bareCall) {
		for i, give := range gives {
			asks = append(asks, bareAsk(s, uint64(11+i), give))
		}
		return asks
	}
	b.do(1, ask()...) // not one answer comes
	s = later(s)
	s.First = 15
	again := ask()
	b.do(1, again...)
	for _, a := range again {
		if a.res[0].Code != wire.OK {
			t.Errorf("window %d, 4 requests unanswered: the repeat of release %d is answered %v", s.Window, a.ID,
				a.res[0].Err())
		}
	}
}

// TestLockOfTheWindow: likewise; the oldest of the four is an acquire, whose lock is held then.
func TestLockOfTheWindow(t *testing.T) {
	b := newBare(t, rows.FirstLog, DefaultLimits())
	s := bareSession(1)
	var asks []*bareCall
	for i, path := range []string{"h:/a/1", "h:/a/2", "h:/a/3"} {
		b.one(bareAsk(s, uint64(i+1), write("o", path, time.Hour)))
	}
	b.do(rememberMillis + 1000)
	ask := func() []*bareCall {
		asks = []*bareCall{bareAsk(s, 11, write("o", "h:/a/new", time.Hour))}
		for i, path := range []string{"h:/a/1", "h:/a/2", "h:/a/3"} {
			give := release("o", path)
			give.Target = uint64(i + 1)
			asks = append(asks, bareAsk(s, uint64(12+i), give))
		}
		return asks
	}
	b.do(1, ask()...)
	s = later(s)
	s.First = 15
	b.do(1, ask()...)
	if res := asks[0].res[0]; res.Code != wire.OK || res.Status != wire.StatusOK {
		t.Errorf("the acquire that holds its lock is answered %v when it is asked again, one of 4 that were not "+
			"answered, window 4", res.Err())
	}
}
