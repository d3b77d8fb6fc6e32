package cost

import (
	"fmt"
	"runtime"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

const (
	mutexNS   = "bench:/hot"
	mutexPath = mutexNS + "/a/b/mutex"
)

// Mutex is one path that many wait for.
type Mutex struct {
	g      *Group
	owners []string
	holder uint64 // the id under which who holds it waited for it
}

// NewMutex makes one that n wait for.
func NewMutex(n int) *Mutex {
	m := &Mutex{g: NewGroup(), owners: make([]string, n+1)}
	for i := range m.owners {
		m.owners[i] = fmt.Sprintf("client-%06d", i)
	}
	if m.g.acquire(m.owners[0], mutexPath, len(mutexNS)) != wire.StatusOK {
		panic("cost: a path that nobody holds is not granted")
	}
	for _, owner := range m.owners[1:] {
		m.g.wait(owner, mutexPath, len(mutexNS))
	}
	m.g.out.Reset()
	m.g.written()
	return m
}

// pass hands it over once: its holder releases it, which grants it to the next, and
// waits for it again.
func (m *Mutex) pass() {
	who := m.owners[m.holder%uint64(len(m.owners))]
	m.g.out.Reset()
	m.g.release(who, mutexPath, len(mutexNS))
	if len(m.g.out.Answers) != 1 || m.g.out.Answers[0].Caller.ID != m.holder+1 {
		panic("cost: the mutex does not go to who waits longest")
	}
	m.holder++
	m.g.wait(who, mutexPath, len(mutexNS))
}

// Compare measures a hand-over of two mutexes in turns, rounds of n each, and
// answers the medians in ns.
func Compare(few, many *Mutex, n, rounds int) (fewNanos, manyNanos float64) {
	runtime.GC() // of what was made before
	var a, b []float64
	for range rounds {
		a, b = append(a, few.passes(n)), append(b, many.passes(n))
	}
	return median(a), median(b)
}

func (m *Mutex) passes(n int) float64 {
	began := time.Now()
	for range n {
		m.pass()
	}
	return float64(time.Since(began).Nanoseconds()) / float64(n)
}
