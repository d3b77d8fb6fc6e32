package groups

import (
	"testing"
	"time"
)

// TestDrainWaitsForSteps: a call that is carried out in steps, of a client or of an operator, is finished before its
// node ends.
func TestDrainWaitsForSteps(t *testing.T) {
	t.Parallel()
	for name, places := range map[string]func(*Node) chan struct{}{
		"of a client":    func(n *Node) chan struct{} { return n.slow },
		"of an operator": func(n *Node) chan struct{} { return n.tended },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newLocalCluster(t, 1, nil)
			f.settle(1)
			n := f.nodes[0]
			places(n) <- struct{}{}
			closed := make(chan error, 1)
			go func() { closed <- n.Close(clusterPatience) }()
			f.until("it drains", n.draining.Load)
			select {
			case err := <-closed:
				t.Fatalf("it has ended before the call did: %v", err)
			case <-time.After(500 * time.Millisecond):
			}
			<-places(n)
			if err := <-closed; err != nil {
				t.Error(err)
			}
			f.nodes[0] = nil
		})
	}
}
