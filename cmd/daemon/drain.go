package daemon

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

const (
	// drainAtMost bounds how long requests under way may keep a drain waiting. It
	// leaves room in the half minute that supervisors commonly give.
	drainAtMost = 20 * time.Second
	// partAtMost is how long clients may take to read their last answers.
	partAtMost = 2 * time.Second
	// partEvery is how often it is looked whether they have.
	partEvery = 2 * time.Millisecond
)

// Close drains the daemon and ends it, within ctx's deadline if that has one, and at
// once if it is over:
//
//  1. no native connection is taken any more; calls that would stay open on the other
//     interfaces are ended;
//  2. new requests are refused with UNAVAILABLE, those under way are finished and
//     answered, and the state is written to disk;
//  3. clients are told goodbye, behind the answers to all that was carried out, and
//     their connections are closed once that is written. From 2 on the node takes nothing from them for
//     being gone: leases tied to their connections and places in the queue stay.
//
// Calls after the first wait for its end.
func (d *Daemon) Close(ctx context.Context) error {
	d.closing.Do(func() { d.err = d.drain(ctx) })
	return d.err
}

func (d *Daemon) drain(ctx context.Context) error {
	close(d.stop)
	began := time.Now()
	within := min(d.cfg.RequestTimeout, drainAtMost)
	if deadline, ok := ctx.Deadline(); ok {
		within = max(min(within, time.Until(deadline)), 0)
	}
	if ctx.Err() != nil {
		within = 0
	}
	d.log.Info("draining", "connections", d.server.Connections(), "within_ms", within.Milliseconds())
	d.server.CloseListeners()
	d.faces.svc.Leave() // what waits there leaves the queue while the node still takes that
	err := d.node.Close(within)
	d.part(ctx)
	d.closeFaces()
	err = errors.Join(err, d.server.Close())
	d.unlock()
	d.log.Info("stopped", "took_ms", time.Since(began).Milliseconds())
	return err
}

// part lets the clients go.
func (d *Daemon) part(ctx context.Context) {
	d.server.Goodbye(wire.Errorf(wire.Unavailable, "the node is shutting down; connect again, here or to another one"))
	ctx, cancel := context.WithTimeout(ctx, partAtMost)
	defer cancel()
	var all sync.WaitGroup
	defer all.Wait()
	all.Go(func() { d.partFaces(ctx) })
	look := time.NewTicker(partEvery)
	defer look.Stop()
	for d.server.Connections() > 0 {
		select {
		case <-ctx.Done():
			return
		case <-look.C:
		}
	}
}
