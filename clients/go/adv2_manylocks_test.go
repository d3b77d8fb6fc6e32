package pathlockd

import (
	"fmt"
	"testing"
	"time"
)

// TestAdv2OwnerOfManyLocks: an owner that holds so much that a listing of it does not fit into a
// frame keeps its locks, which are renewed all the time.
func TestAdv2OwnerOfManyLocks(t *testing.T) {
	t.Parallel()
	const (
		many = 60_000
		ttl  = 10 * time.Second
	)
	ctx := within(t, 2*patience)
	c, look := dial(t, server(t)), dial(t, server(t))
	owner := Owner(t.Name())
	paths := make([]Path, many)
	for i := range paths {
		paths[i] = Path{Path: path(t, fmt.Sprintf("/a/all/%06d", i))}
	}
	all, err := c.LockAll(ctx, paths, owner, TTL(ttl))
	mustLock(t, all, err)
	time.Sleep(ttl + ttl/2)
	must(t, all.Err()) // renewed
	one, err := c.Lock(ctx, path(t, "/a/one"), owner, TTL(ttl))
	mustLock(t, one, err)
	for end := time.Now().Add(2 * ttl); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if all.Err() != nil || one.Err() != nil {
			break
		}
	}
	info, err := look.InspectPath(ctx, paths[0].Path)
	must(t, err)
	if all.Err() != nil || one.Err() != nil {
		t.Errorf("%d locks: %v; one lock: %v; and the server says that the owner is %q", many, all.Err(), one.Err(), info.WriteOwner)
	}
	_ = one.Unlock()
	_ = all.Unlock()
}
