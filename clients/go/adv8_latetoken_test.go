package pathlockd

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestAdv8ALateGrantHasTheTokenItIsHeldUnder: a grant is told late, when its lease is over, a stranger has had the path, and another client
// of the owner has it now. That the owner holds the path does not say that it holds it by this grant: TryLock hands out a lock that is
// held under no such token. Fencing tokens go back for its caller: after the stranger's 2 it gets 1, which every resource refuses. That breaks
// contract.md section 5 (the answer of an OK is the token it is held under) and Lock.Token's "the lock's fencing token: give it to whatever the lock protects".
func TestAdv8ALateGrantHasTheTokenItIsHeldUnder(t *testing.T) {
	t.Parallel()
	ctx := within(t, patience)
	line := new(slowLine)
	c := dial(t, server(t), WithDialer(line.dial), WithGrace(patience))
	mate, stranger := dial(t, server(t)), dial(t, server(t))
	p := path(t, "/a/b")
	const ttl = 2 * time.Second

	line.held.Lock()
	told := make(chan takenLock, 1)
	go func() {
		l, err := c.TryLock(ctx, p, Owner("me"), TTL(ttl))
		told <- takenLock{l, err}
	}()
	eventually(t, "the grant", func() bool {
		i, err := stranger.InspectPath(ctx, p)
		must(t, err)
		return i.WriteOwner == "me"
	})
	theirs, err := stranger.Lock(ctx, p) // once the lease is over
	mustLock(t, theirs, err)
	must(t, theirs.Unlock())
	ours, err := mate.TryLock(ctx, p, Owner("me"))
	mustLock(t, ours, err)
	line.held.Unlock()

	late := <-told
	if late.err != nil {
		return
	}
	a, err := mate.AssertFencing(ctx, "me", late.l.Token(), p)
	must(t, err)
	if a.Status != wire.StatusOK {
		must(t, late.l.Err())
		t.Fatalf("TryLock answers a lock with token %d, though the path has had token %d of %s, and %d since: assert says %v",
			late.l.Token(), theirs.Token(), theirs.Owner(), ours.Token(), a.Reason)
	}
}
