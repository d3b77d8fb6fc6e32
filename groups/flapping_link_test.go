package groups

import (
	"fmt"
	"io"
	"testing"
	"time"
)

// TestFlappingLink: the link between two nodes breaks every now and then, and is there again at once each time. What
// the leader keeps of the waits that came over it does not grow with how often that was.
func TestFlappingLink(t *testing.T) {
	t.Parallel()
	const path, many, flaps = "h:/x", 100, 5
	f := apart(t, nil)
	leader, via := f.nodes[0], f.nodes[1]
	f.rigOn(0).session().must(write("holder", path, time.Hour))
	r := f.rigOn(1)
	c := r.session()
	for i := range many {
		w := waiting(write(fmt.Sprint("w", i), path, time.Hour))
		w.QueueTTLMillis = 3_600_000
		<-c.start(r.next.Add(1), w).queued
	}
	attached := func() int {
		return len(leader.waits.those(func(p *part) bool {
			return p.from != nil && !p.from.closed.Load() &&
				p.told.Load()
		}))
	}
	eventually(t, "all wait", func() bool { return attached() == many })
	for range flaps {
		for _, ends := range [][2]*Node{{via, leader}, {leader, via}} {
			if p := ends[0].cluster.conn(ends[1].id.HostID); p != nil {
				p.Close(io.ErrUnexpectedEOF)
			}
		}
		eventually(t, "the link is gone", func() bool { return attached() < many })
		eventually(t, "the link is there again, and so are the waits", func() bool { return attached() == many })
	}
	left := &leader.forwards.left
	left.mu.Lock()
	defer left.mu.Unlock()
	if n := len(left.list); n > many {
		t.Errorf("after %d flaps the leader keeps %d waits without callers of %d that have theirs", flaps, n, many)
	}
}
