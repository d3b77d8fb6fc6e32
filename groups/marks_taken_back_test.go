package groups

import (
	"fmt"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/groups/replica"
	"github.com/pathlockd/pathlockd/wire"
)

// TestReleaseBehindOneTakenBack: an owner has a lock (1). Its release (2) is refused with code 14, as the group is
// full. It takes the lock anew (3, OK), and takes that back by its id (4): the lock stays, as (1) has it. Then the
// release (2) is asked again and answered OK. Nobody believes in the lock: in the order of the ids, as in that in which
// they came, nothing of it is left.
func TestReleaseBehindOneTakenBack(t *testing.T) {
	for name, others := range map[string]int{"alone": 0, "with more than are told apart": replica.MaxSessionMarks} {
		t.Run(name, func(t *testing.T) { releaseBehindOneTakenBack(t, others) })
	}
}

func releaseBehindOneTakenBack(t *testing.T, others int) {
	const path = "h:/a/x"
	r := newRig(t, fewGroups)
	c := r.session()
	c.must(write("o", path, time.Hour))
	give, take, back := r.next.Add(1), r.next.Add(1), r.next.Add(1)
	fullOf(t, r, "h:/a", func() {
		if res := c.start(give, release("o", path)).get(t, "the release"); res.Code != wire.Unavailable {
			t.Fatalf("%+v", res)
		}
	})
	if res := c.start(take, write("o", path, time.Hour)).get(t, "the acquire"); res.Code != wire.OK ||
		res.Status != wire.StatusOK {
		t.Fatalf("%+v", res)
	}
	req := release("o", path)
	for i := range others {
		req.Releases = append(req.Releases, wire.ReleaseRequest{Path: fmt.Sprint("h:/a/y", i)})
	}
	req.Target = take
	if res := c.start(back, req).get(t, "the release that takes it back"); res.Code != wire.OK {
		t.Fatalf("%+v", res)
	}
	if res := askAgain(c, give, release("o", path)).get(t, "the release, asked again"); res.Code != wire.OK {
		t.Fatalf("%+v", res)
	}
	if owner := c.inspect(path).Owner; owner != "" {
		t.Errorf("both releases are answered OK, and %s is held by %q for an hour", path, owner)
	}
}
