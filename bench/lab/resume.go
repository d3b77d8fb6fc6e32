package lab

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/pathlockd/pathlockd/bench/session"
	"github.com/pathlockd/pathlockd/wire"
)

const (
	// pulses is how many namespaces are asked for a sign of life: so many that there is one
	// in every log.
	pulses = 32
	// resumeWithin is how long it may take before it is given up on.
	resumeWithin = 20 * time.Second
)

// Resumed is how long it took, from a fault on, until something was acknowledged in every
// log, by those who asked the nodes that were left.
type Resumed struct {
	Kind string
	Took time.Duration
}

// resume measures how long it takes from began on until every log serves again, asked
// through the nodes that are not the given one.
func (e *episode) resume(began time.Time, but int) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(e.ctx, resumeWithin)
	defer cancel()
	var all sync.WaitGroup
	errs := make(chan error, pulses)
	for i := range pulses {
		all.Go(func() { errs <- e.pulse(ctx, i, (but+1+i%(e.cluster.Nodes()-1))%e.cluster.Nodes()) })
	}
	all.Wait()
	took := time.Since(began)
	for range pulses {
		if err := <-errs; err != nil {
			return took, err
		}
	}
	return took, nil
}

// pulse takes a lock of its own, until it has it.
func (e *episode) pulse(ctx context.Context, i, node int) error {
	s := session.New()
	req := &wire.Request{
		Op: wire.OpAcquire, Owner: fmt.Sprintf("pulse%d.%d.%d", e.number, i, e.beats.Add(1)), TTLMillis: 1000,
		Locks: []wire.LockRequest{{Path: fmt.Sprintf("pulse:/%d.%d/p", e.number, i)}},
	}
	req.Locks[0].Path += req.Owner // nobody is in its way
	var last error
	for {
		conn, err := e.cluster.Dial(ctx, node, s)
		if err == nil {
			var res *wire.Result
			if res, err = conn.Ask(ctx, s.Next(), req, nil); err == nil && res.Err() != nil {
				err = res.Err()
			}
			conn.Close()
		}
		if err == nil {
			return nil
		}
		if ctx.Err() == nil {
			last = err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("node %d does not serve a log: %w", node, last)
		case <-time.After(reconnect):
		}
	}
}

// leads says that a node leads a log.
func (e *episode) leads(node int) bool { return slices.Contains(e.cluster.Leaders(e.ctx), node) }

// missed takes down how long a node that led something was missed.
func (e *episode) missed(b *fault, led bool, began time.Time) error {
	if e.cluster.Nodes() < 3 || !led {
		return nil
	}
	took, err := e.resume(began, b.node)
	if err != nil {
		return err
	}
	e.resumed = append(e.resumed, Resumed{b.kind.String(), took})
	return nil
}
