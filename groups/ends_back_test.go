package groups

import (
	"testing"

	"github.com/pathlockd/pathlockd/groups/rows"
)

// TestFirstComesBackFirst: ends that come first do so too when they come back behind something that is lost.
func TestFirstComesBackFirst(t *testing.T) {
	r := newRig(t, nil)
	l := r.node.logs[rows.FirstLog]
	a, b, c, d := &part{first: true}, &part{first: true}, &part{}, &part{}
	l.mu.Lock()
	defer l.mu.Unlock()
	was := l.mu.queue
	defer func() { l.mu.queue = was }()
	l.mu.queue = []*part{b, d}
	l.inFront([]*part{c, a})
	for i, p := range []*part{a, b, c, d} {
		if l.mu.queue[i] != p {
			t.Errorf("number %d is another", i)
		}
	}
}
