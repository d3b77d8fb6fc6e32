package pathlockd

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestLongLocksAreKept: a lock of many long paths with a long owner and long labels, all within the limits of
// PROTOCOL.md. What its owner holds fits into no answer, and a page of it (512 entries) does not either. The server
// keeps the lock.
func TestLongLocksAreKept(t *testing.T) {
	t.Parallel()
	c, other := dial(t, server(t)), dial(t, server(t))
	ctx := within(t, patience)
	paths := make([]Path, 512)
	for i := range paths {
		paths[i].Path = path(t, "/a/") + fmt.Sprint(1000+i) + strings.Repeat("x", 3900)
	}
	const ttl = 3 * time.Second
	l, err := c.LockAll(ctx, paths, TTL(ttl), Owner(strings.Repeat("o", 1000)),
		Labels(map[string]string{"why": strings.Repeat("l", 3500)}))
	must(t, err)
	defer l.Unlock()
	select {
	case <-l.Context().Done():
		t.Errorf("%v; the server says that who holds the first path is %.3s...", l.Err(),
			ownerOf(t, other, paths[0].Path))
	case <-time.After(2 * ttl):
	}
	n := 0
	for _, err := range other.ScanLocks(ctx, path(t, "/a")) {
		if err != nil {
			t.Fatalf("ScanLocks, after %d locks: %.300v", n, err)
		}
		n++
	}
}
