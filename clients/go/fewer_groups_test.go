package pathlockd

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"
)

// TestAClusterWithFewerGroups: a cluster is founded anew behind the address that a program has dialled, with fewer
// groups (group_count is fixed when a cluster is founded, and is another one's here). The client connects to it: the
// user has named its address (Client.recognize). What "does not fit together moves nothing, and breaks nothing"
// (TestBadTopology); so a lock is taken, in whatever namespace, and the program goes on.
func TestAClusterWithFewerGroups(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFakeCluster(t, 2, 0, 0, 1, 1)
		c := f.client()
		pass(0)
		f.goes(c, 2) // by whichever node: it opens the lane to n1, and the ways of other groups are not there yet
		pass(0)
		if n := f.goes(c, 2); n != "n1" {
			t.Fatalf("went to %s", n)
		}
		f.mu.Lock()
		f.top.GroupLogs, f.top.LogOf, f.top.Version = 2, f.top.LogOf[:2], 1
		f.foreign = "n0" // it has another id
		f.mu.Unlock()
		f.cut("n0")
		f.cut("n1")
		pass(5 * time.Second) // it is connected again
		must(t, c.Ping(within(t, time.Minute)))
		for g := range groupsOfFakeCluster {
			if err := tryLockOr(c, in(g)); err != nil {
				t.Errorf("TryLock in group %d: %v", g, err)
			}
		}
	})
}

// tryLockOr takes and gives back a lock, and answers a panic as an error.
func tryLockOr(c *Client, path string) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = errors.Join(err, fmt.Errorf("it panics: %v", p))
		}
	}()
	l, err := c.TryLock(context.Background(), path)
	if err != nil {
		return err
	}
	return l.Unlock()
}
