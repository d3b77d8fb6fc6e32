package load

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Caller is a client of some interface, with one connection, that asks one request at
// a time.
type Caller interface {
	// Acquire takes a path that nobody else asks for; Release gives it back.
	Acquire(ctx context.Context, owner, path string) error
	Release(ctx context.Context, owner, path string) error
	Close()
}

// Calls is the workload of distinct paths through clients that wait for each answer:
// Pairs with one request in flight on a connection, for any interface.
type Calls struct {
	Dial    func() (Caller, error)
	Conns   int
	Pool    int // paths
	Warm    time.Duration
	Measure time.Duration
}

// callWorker is one connection of it.
type callWorker struct {
	Caller
	owner string
	path  int
	taken *hdrhistogram.Histogram
	done  atomic.Int64
}

// Run runs the workload and answers the pairs done and how long each took.
func (c Calls) Run(ctx context.Context) (Result, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	workers := make([]*callWorker, 0, c.Conns)
	defer func() {
		for _, w := range workers {
			w.Close()
		}
	}()
	for i := range c.Conns {
		caller, err := c.Dial()
		if err != nil {
			return Result{}, err
		}
		workers = append(workers, &callWorker{Caller: caller, owner: fmt.Sprintf("bench-%03d", i), path: i,
			taken: newHistogram()})
	}
	var stop, measuring atomic.Bool
	var running sync.WaitGroup
	for _, w := range workers {
		running.Go(func() {
			if err := c.run(ctx, w, &stop, &measuring); err != nil {
				cancel(err)
			}
		})
	}
	var res Result
	if pause(ctx, c.Warm) {
		measuring.Store(true)
		res.count(ctx, c.Measure, func() (sum int64) {
			for _, w := range workers {
				sum += w.done.Load()
			}
			return sum
		})
		measuring.Store(false)
	}
	stop.Store(true)
	running.Wait()
	if err := context.Cause(ctx); err != nil {
		return Result{}, err
	}
	all := make([]*hdrhistogram.Histogram, len(workers))
	for i, w := range workers {
		all[i] = w.taken
	}
	res.latencies(all)
	return res, nil
}

// run drives one connection until it is told to stop.
func (c Calls) run(ctx context.Context, w *callWorker, stop, measuring *atomic.Bool) error {
	for !stop.Load() {
		path, began := Path(w.path), time.Now()
		if err := w.Acquire(ctx, w.owner, path); err != nil {
			return err
		}
		if err := w.Release(ctx, w.owner, path); err != nil {
			return err
		}
		w.done.Add(1)
		if measuring.Load() {
			record(w.taken, time.Since(began))
		}
		w.path = (w.path + c.Conns) % c.Pool
	}
	return nil
}
