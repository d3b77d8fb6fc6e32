package pathlockd

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestAdv8SupersededLockIsBelievedIn: another client of the owner gives the path back, a stranger has it and its token, and
// the other client takes it anew: what is asked of the server then says that the owner holds the path, though not under the
// lock's token, and the first lock is believed in for good. That breaks "the other is lost then, ... else within its TTL"
// (Owner, locking.md): its holder goes on through a time in which somebody else held the path, with a token that every resource refuses.
func TestAdv8SupersededLockIsBelievedIn(t *testing.T) {
	t.Parallel()
	ctx := within(t, patience)
	c, mate, stranger := dial(t, server(t)), dial(t, server(t)), dial(t, server(t))
	p := path(t, "/a/p")
	const ttl = 4 * time.Second
	mine, err := c.TryLock(ctx, p, Owner("me"), TTL(ttl))
	mustLock(t, mine, err)

	same, err := mate.TryLock(ctx, p, Owner("me"), TTL(ttl))
	mustLock(t, same, err)
	must(t, same.Unlock())
	theirs, err := stranger.TryLock(ctx, p)
	mustLock(t, theirs, err)
	must(t, theirs.Unlock())
	again, err := mate.TryLock(ctx, p, Owner("me"), TTL(ttl))
	mustLock(t, again, err)

	began := time.Now()
	for time.Since(began) < 3*ttl && mine.Err() == nil {
		time.Sleep(10 * time.Millisecond)
	}
	if mine.Err() != nil {
		return
	}
	must(t, again.Err())
	a, err := c.AssertFencing(ctx, "me", mine.Token(), p)
	must(t, err)
	if a.Status != wire.StatusOK {
		t.Fatalf("%v after it was given back the lock with token %d is believed in, for %v more: the path had token %d since, of %s, and has %d; assert says %v",
			time.Since(began).Round(time.Second), mine.Token(), time.Until(mine.Deadline()).Round(time.Second), theirs.Token(), theirs.Owner(), again.Token(), a.Reason)
	}
}
