package load

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// watchPause is between two requests for a path: what is watched must have time for
// other things. It bounds how exactly a Watch sees.
const watchPause = 2 * time.Millisecond

// Watch asks for paths and gives them back, over and over, each over a connection of
// its own to one server, whatever is answered: to see when a service that fails is
// there again.
type Watch struct {
	mu struct {
		sync.Mutex
		since time.Time     // requests sent before do not count
		found map[int]bool  // paths with an answer
		done  chan struct{} // closed when all have one
		asks  []watchAsk    // by path: what is under way
	}
	paths    []int
	answered []time.Time // by path; read when done is closed
	conns    []*conn
	running  sync.WaitGroup
	failed   chan error // the first error that ends a connection
	stop     chan struct{}
}

// watchAsk is what a connection waits for, and how it fared before.
type watchAsk struct {
	since time.Time
	last  error
}

// StartWatch connects and begins to ask for the paths of these numbers (Path).
func StartWatch(addr string, paths []int) (*Watch, error) {
	w := &Watch{paths: paths, answered: make([]time.Time, len(paths)), failed: make(chan error, 1),
		stop: make(chan struct{})}
	w.mu.asks = make([]watchAsk, len(paths))
	for range paths {
		c, err := dial(addr, true)
		if err != nil {
			w.Stop()
			return nil, err
		}
		w.conns = append(w.conns, c)
	}
	for i, c := range w.conns {
		w.running.Go(func() {
			if err := w.ask(c, i, paths[i]); err != nil {
				select {
				case w.failed <- err:
				default:
				}
			}
		})
	}
	return w, nil
}

// ask asks for one path until the watch ends.
func (w *Watch) ask(c *conn, i, path int) error {
	owner := fmt.Sprintf("watch-%03d", i)
	take := newFrame(&wire.Request{
		Op: wire.OpAcquire, Owner: owner, TTLMillis: leaseMillis, Locks: []wire.LockRequest{{Path: Path(path)}},
	})
	free := newFrame(&wire.Request{Op: wire.OpRelease, Owner: owner,
		Releases: []wire.ReleaseRequest{{Path: Path(path)}}})
	pause := time.NewTicker(watchPause)
	defer pause.Stop()
	for {
		sent := w.asks(i)
		err := c.ask(take)
		if err == nil {
			w.saw(i, sent)
			err = c.ask(free)
		}
		w.fared(i, err)
		select {
		case <-w.stop:
			return nil
		case <-pause.C:
		}
		if err != nil && !errors.Is(err, errRefused) {
			return fmt.Errorf("watch %s: %w", Path(path), err)
		}
	}
}

// asks takes note that a request is sent.
func (w *Watch) asks(i int) time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.asks[i].since = time.Now()
	return w.mu.asks[i].since
}

// fared takes note of how it ended.
func (w *Watch) fared(i int, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.asks[i].last = err
}

// saw takes note of a grant.
func (w *Watch) saw(i int, sent time.Time) {
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.mu.done == nil || sent.Before(w.mu.since) || w.mu.found[i] {
		return
	}
	w.mu.found[i], w.answered[i] = true, now
	if len(w.mu.found) == len(w.answered) {
		close(w.mu.done)
		w.mu.done = nil
	}
}

// Next waits until a request for each path that is sent from now on was granted, and
// answers when that was the first time, by path.
func (w *Watch) Next(ctx context.Context) ([]time.Time, error) {
	done := make(chan struct{})
	w.mu.Lock()
	w.mu.since, w.mu.found, w.mu.done = time.Now(), make(map[int]bool), done
	w.mu.Unlock()
	select {
	case <-done:
		return w.answered, nil
	case err := <-w.failed:
		return nil, err
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %s", context.Cause(ctx), w.missing())
	}
}

// missing tells of the paths that are not granted again.
func (w *Watch) missing() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var b strings.Builder
	fmt.Fprintf(&b, "%d of %d watched paths are granted again", len(w.mu.found), len(w.answered))
	for i, ask := range w.mu.asks {
		if !w.mu.found[i] {
			fmt.Fprintf(&b, "; %s: asked %v ago, before: %v", Path(w.paths[i]),
				time.Since(ask.since).Round(time.Millisecond), ask.last)
		}
	}
	return b.String()
}

// Stop ends the watch.
func (w *Watch) Stop() {
	close(w.stop)
	for _, c := range w.conns {
		_ = c.nc.Close() // ends what it waits for
	}
	w.running.Wait()
}
