package pathlockd

import (
	"testing"
	"time"
)

// TestRaisedByAnEarlierWait: "me" waits for two paths, and takes one of them by another call meanwhile (an owner does
// not yield to its own waiters). Right after that the wait is granted, which raises the token of that path. Nobody gives
// anything back: both locks are held.
func TestRaisedByAnEarlierWait(t *testing.T) {
	addr, root := server(t), "raised:/b"
	c, e := dial(t, addr), dial(t, addr)
	other, err := e.Lock(t.Context(), root+"/d")
	mustLock(t, other, err)
	queued := make(chan struct{}, 9)
	got := make(chan *Lock, 1)
	go func() {
		l, err := c.LockAll(t.Context(), []Path{{Path: root + "/c"}, {Path: root + "/d"}}, Owner("me"),
			OnQueued(func(Queued) { queued <- struct{}{} }))
		if err != nil {
			t.Error(err)
		}
		got <- l
	}()
	<-queued
	one, err := c.TryLock(t.Context(), root+"/c", Owner("me"))
	mustLock(t, one, err)
	time.Sleep(300 * time.Millisecond)
	must(t, other.Unlock())
	both := <-got
	for range 30 {
		time.Sleep(100 * time.Millisecond)
		must(t, both.Err())
		if err := one.Err(); err != nil {
			held, _, _ := c.ListOwnerLocks(t.Context(), "me")
			t.Fatalf("nobody gave it back, and it was held all the time: %v (tokens %d, %d; %+v)",
				err, one.Token(), both.Token(), held)
		}
	}
}
