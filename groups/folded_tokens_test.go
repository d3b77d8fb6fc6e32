package groups

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/groups/replica"
	"github.com/pathlockd/pathlockd/groups/rows"
	"github.com/pathlockd/pathlockd/wire"
)

// TestFoldedTokens: a caller's own token meets a floor, and never what is held; the server's
// own tokens do not notice.
func TestFoldedTokens(t *testing.T) {
	r := newRig(t, func(c *Config) {
		c.GroupCount, c.LogCount = 1, 1
		c.folding = replica.FoldBounds{
			Age: 4 * time.Second, Many: 8, Most: 1 << 20, Slice: 5, Every: math.MaxInt64, Pause: time.Microsecond,
		}
	})
	r.clock.freeze()
	c := r.session()
	held := c.must(write("holder", "h:/a/held", 24*time.Hour))
	highest := int64(0)
	for i := range 20 {
		path := fmt.Sprintf("h:/a/%d", i)
		highest = c.must(write("o", path, time.Hour)).Token
		c.must(release("o", path))
	}
	for range 40 { // the lease clock goes at most 2 s an entry
		r.clock.advance(2 * time.Second)
		c.must(write("tick", "t:/t/t", time.Hour))
	}
	m := r.node.logs[rows.FirstLog].local.Load()
	for range 3 { // it is counted, proposed and on disk, deleted
		if err := m.Checkpoint(false); err != nil {
			t.Fatal(err)
		}
		r.node.foldFences()
	}
	token := func(path string, token int64) *wire.Request {
		req := write("own", path, time.Hour)
		req.Token, req.Flags = token, wire.FlagNoQueue
		return req
	}
	for _, path := range []string{"h:/a/3", "h:/a/never"} {
		if res := c.inspect(path); !res.Flag || res.Token != highest {
			t.Errorf("the fence of %s is %d, want %d", path, res.Token, highest)
		}
		res := c.ask(token(path, highest))
		if res.Status != wire.StatusConflict || res.Reason != wire.ReasonStaleFencingToken || res.Current != highest {
			t.Errorf("the token %d for %s: %+v", highest, path, res)
		}
		if res := c.must(token(path, highest+1)); res.Token != highest+1 {
			t.Errorf("the token %d for %s: %+v", highest+1, path, res)
		}
	}
	if res := c.inspect("h:/a/held"); res.Token != held.Token {
		t.Errorf("the fence of what is held is %d, want %d", res.Token, held.Token)
	}
	mine := write("holder", "h:/a/held", 24*time.Hour)
	mine.Token = held.Token
	if res := c.must(mine); res.Token != held.Token {
		t.Errorf("what is held, once more with its token: %+v", res)
	}
	c.must(&wire.Request{Op: wire.OpAssertFencing, Owner: "holder", Token: held.Token, Paths: []string{"h:/a/held"}})
	c.must(release("holder", "h:/a/held"))
	if res := c.inspect("h:/a/held"); res.Token != highest {
		t.Errorf("the fence of what was let go is %d, want %d", res.Token, highest)
	}
	if res := c.inspect("h:/b/x"); res.Flag {
		t.Errorf("another namespace has the fence %d", res.Token)
	}
	digests := r.digests()
	r.restart()
	if got := r.digests(); fmt.Sprint(got) != fmt.Sprint(digests) {
		t.Errorf("after a start the digests are %v, want %v", got, digests)
	}
	if res := r.session().inspect("h:/a/3"); res.Token != highest+1 {
		t.Errorf("after a start the fence of h:/a/3 is %d, want %d", res.Token, highest+1)
	}
}
