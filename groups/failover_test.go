package groups

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// three is a cluster of three nodes that each hold every log.
func three(t *testing.T) (*localCluster, *network) {
	w := new(network)
	f := newLocalCluster(t, 3, func(_ int, c *Config) { c.Faults, c.EvictionWindow = w, time.Hour })
	f.settle(3)
	return f, w
}

// book is what clients saw of some paths.
type book struct {
	mu     sync.Mutex
	holder map[string]string
	token  map[string]int64
	faults []string
	grants atomic.Int64
}

func newBook() *book { return &book{holder: make(map[string]string), token: make(map[string]int64)} }

// took notes a grant: nobody else may hold the path, and the token is a new one.
func (b *book) took(path, owner string, token int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if was := b.holder[path]; was != "" {
		b.faults = append(b.faults, fmt.Sprintf("%s: %s was granted what %s holds", path, owner, was))
	}
	if token <= b.token[path] {
		b.faults = append(b.faults, fmt.Sprintf("%s: token %d after %d", path, token, b.token[path]))
	}
	b.holder[path], b.token[path] = owner, token
	b.grants.Add(1)
}

// gives notes that an owner is about to release.
func (b *book) gives(path string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.holder[path] = ""
}

func (b *book) check(t *testing.T) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, f := range b.faults {
		if i < 10 {
			t.Error(f)
		}
	}
}

// TestFailoverUnderLoad kills leaders while clients of the other nodes take turns at few
// paths: nobody is granted what another holds, tokens grow, and all go on.
func TestFailoverUnderLoad(t *testing.T) {
	t.Parallel()
	f, w := three(t)
	victim := f.leader("h:/load0/x")
	var (
		b       = newBook()
		stop    = make(chan struct{})
		clients sync.WaitGroup
		unknown atomic.Int64
	)
	for i := range f.nodes {
		if i == victim {
			continue
		}
		r := f.rigOn(i)
		for k := range 8 {
			clients.Go(func() {
				c := r.session()
				path := fmt.Sprintf("h:/load%d/x", k%4)
				for round := 0; ; round++ {
					select {
					case <-stop:
						return
					default:
					}
					owner := fmt.Sprintf("o-%d-%d-%d", i, k, round)
					res := <-c.start(r.next.Add(1), waiting(write(owner, path, time.Hour))).done
					if res.Code != wire.OK || res.Status != wire.StatusOK {
						t.Errorf("acquire: %+v", res)
						return
					}
					b.took(path, owner, res.Token)
					b.gives(path)
					if res := <-c.start(r.next.Add(1), release(owner, path)).done; res.Code != wire.OK {
						unknown.Add(1)
						t.Errorf("release: %+v", res)
						return
					}
				}
			})
		}
	}
	f.until("the clients get on", func() bool { return b.grants.Load() > 500 })
	f.kill(w, victim)
	at := b.grants.Load()
	began := time.Now()
	f.until("the clients get on after the leader died", func() bool { return b.grants.Load() > at+500 })
	t.Logf("%d grants; 500 more %v after the leader died", b.grants.Load(), time.Since(began).Round(time.Millisecond))
	close(stop)
	clients.Wait()
	b.check(t)
}

// TestWaitersOutliveLeaders lets a row of clients of all nodes wait for one path while
// its leader dies: those of the others are granted in the order in which they came.
func TestWaitersOutliveLeaders(t *testing.T) {
	t.Parallel()
	const path = "h:/q/x"
	f, w := three(t)
	victim := f.leader(path)
	var rigs []*rig
	for i := range f.nodes {
		if i != victim {
			rigs = append(rigs, f.rigOn(i))
		}
	}
	holder := rigs[0].session()
	holder.must(write("holder", path, time.Hour))
	var row []*waiter
	for i := range 10 {
		row = append(row, rigs[i%2].queue(i, path))
	}
	f.kill(w, victim)
	holder.must(release("holder", path))
	served(t, row, path)
}
