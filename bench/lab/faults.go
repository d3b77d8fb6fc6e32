package lab

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/pathlockd/pathlockd/bench/lab/cluster"
	"github.com/pathlockd/pathlockd/bench/lab/history"
	"github.com/pathlockd/pathlockd/wire"
)

// healWithin is how long a cluster may take until every node serves again.
const healWithin = time.Minute

// diskNoticed is until a node has noticed that its disk is full: it looks every second.
const diskNoticed = 1200 * time.Millisecond

// kinds are those that the configuration asks for and the cluster can.
func (cfg *Config) kinds(c cluster.Cluster) (kinds []faultKind) {
	for k := range faultKinds {
		row := &faultTable[k]
		if c.Can(row.needs) && c.Nodes() >= row.nodes && (len(cfg.Faults) == 0 || cfg.asksFor(k)) {
			kinds = append(kinds, k)
		}
	}
	return kinds
}

func (cfg *Config) asksFor(k faultKind) bool {
	for _, f := range cfg.Faults {
		if f == k.String() {
			return true
		}
	}
	return false
}

// strike lets the episode's time pass, fault by fault.
func (e *episode) strike() error {
	until := time.Now().Add(e.cfg.Episode)
	kinds := e.cfg.kinds(e.cluster)
	logs := max(len(e.cluster.Leaders(e.ctx)), 1)
	if e.cfg.MaxFaults > 0 && e.struck >= e.cfg.MaxFaults { // more is to be done, and nothing struck
		e.pass(e.cfg.Episode)
	}
	for n := 0; time.Now().Before(until) && (e.cfg.MaxFaults == 0 || e.struck < e.cfg.MaxFaults); n++ {
		if len(kinds) == 0 {
			e.pass(time.Until(until))
			break
		}
		b := planFault(e.cfg.Seed, e.number, n, kinds, logs)
		e.pass(b.calm)
		if e.ctx.Err() != nil {
			return e.ctx.Err()
		}
		b.kind, b.node, b.node2 = e.turned(b.kind), b.node%e.cluster.Nodes(), b.node2%e.cluster.Nodes()
		if b.log >= 0 {
			if l := e.cluster.Leaders(e.ctx); b.log < len(l) && l[b.log] >= 0 {
				b.node = l[b.log]
			}
		}
		if b.kind == handBack {
			b.lasts = e.apart(&b)
		}
		f := history.Fault{
			Kind: b.kind.String(), What: fmt.Sprintf("%s for %v", e.cluster.NodeID(b.node),
				b.lasts.Round(time.Millisecond)),
			From: e.rec.Now(), Serving: faultTable[b.kind].serves,
		}
		e.calmed = 0
		err := e.fault(&b)
		e.beating.calmed = append(e.beating.calmed, cmp.Or(e.calmed, e.rec.Now()))
		if err == nil {
			ready, cancel := context.WithTimeout(e.ctx, healWithin)
			if err = e.cluster.Ready(ready); err != nil {
				err = fmt.Errorf("%w: %w", errNotHealed, err)
			}
			cancel()
		}
		e.rec.Fault(f)
		e.faultCounts[b.kind.String()]++
		e.struck++
		if err != nil {
			return fmt.Errorf("episode %d, fault %d (%v, %s): %w", e.number, n, b.kind, f.What, err)
		}
	}
	return e.ctx.Err()
}

// pass lets time pass.
func (e *episode) pass(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-e.ctx.Done():
	}
}

// fault strikes and heals.
func (e *episode) fault(b *fault) error { return faultTable[b.kind].do(e, b) }

// killAll kills every node, and starts all.
func (e *episode) killAll(*fault) error {
	for i := range e.cluster.Nodes() {
		if err := e.cluster.Kill(i); err != nil {
			return err
		}
	}
	return e.startAll()
}

// restart has a node end in good order, and starts it.
func (e *episode) restart(b *fault) error {
	if err := e.cluster.Terminate(e.ctx, b.node); err != nil {
		return err
	}
	return e.cluster.Start(e.ctx, b.node)
}

// pause has a node stand still.
func (e *episode) pause(b *fault) error {
	if err := e.cluster.Pause(b.node, b.lasts); err != nil {
		return err
	}
	e.pass(b.lasts)
	return e.cluster.Resume(b.node)
}

// isolate cuts a node off from all others, and takes down how long what it led took to be served by others.
func (e *episode) isolate(b *fault) error {
	led, began := e.leads(b.node), time.Now()
	e.cut(b)
	if err := e.missed(b, led, began); err != nil {
		return err
	}
	e.pass(b.lasts)
	e.cluster.HealNetwork()
	return nil
}

// disturb has the network between nodes as the fault is about, for a time.
func (e *episode) disturb(b *fault) error {
	e.cut(b)
	e.pass(b.lasts)
	e.cluster.HealNetwork()
	return nil
}

// flap isolates a node again and again.
func (e *episode) flap(b *fault) error {
	for range b.rounds {
		e.cut(b)
		e.pass(b.lasts / 3)
		e.cluster.HealNetwork()
		e.pass(b.lasts / 6)
	}
	return nil
}

// stepClock sets a node's wall clock, and perhaps another's the other way. Nothing sets it back: no time is told by it.
func (e *episode) stepClock(b *fault) error {
	e.cluster.Step(b.node, b.by)
	e.pass(b.lasts)
	if b.second {
		e.cluster.Step(b.node2, -b.by)
	}
	return nil
}

// fullDisk leaves a node no room on its disk, until it has noticed and for a time after that.
func (e *episode) fullDisk(b *fault) error {
	if err := e.cluster.Fill(b.node); err != nil {
		return err
	}
	e.pass(diskNoticed + b.lasts)
	return e.cluster.Empty(b.node)
}

// failDisk has a node's disk fail, which ends it, and starts it with one that works.
func (e *episode) failDisk(b *fault) error {
	if err := e.cluster.BreakDisk(b.node); err != nil {
		return err
	}
	return e.cluster.Start(e.ctx, b.node)
}

// transfer hands logs to other nodes, one after the other.
func (e *episode) transfer(b *fault) error {
	for i := range b.rounds {
		log := uint64(1 + (b.node2+i)%(1+len(e.cluster.Leaders(e.ctx))))
		// It is refused when the node is not there yet, say.
		_ = cluster.Transfer(e.ctx, e.cluster, log, (b.node+i)%e.cluster.Nodes())
	}
	return nil
}

// drain takes a node its leaderships, and takes that back.
func (e *episode) drain(b *fault) error {
	if cluster.Drain(e.ctx, e.cluster, b.node, wire.DrainLeads) == nil {
		e.pass(b.lasts)
	}
	return persist(e.ctx, func() error { return cluster.Drain(e.ctx, e.cluster, b.node, wire.DrainNone) })
}

// join adds a node that there was not.
func (e *episode) join(*fault) error { return e.cluster.Join(e.ctx) }

// rollOut starts the nodes one after the other with other settings, which differ between them
// meanwhile, and stay different: what decides is what the log says.
func (e *episode) rollOut(b *fault) error {
	queued := b.queued
	for i := range e.cluster.Nodes() {
		node := (b.node + i) % e.cluster.Nodes()
		if err := e.cluster.Terminate(e.ctx, node); err != nil {
			return err
		}
		e.cluster.Configure(node, queued)
		if err := e.cluster.Start(e.ctx, node); err != nil {
			return err
		}
		if queued *= 8; queued > 65_536 {
			queued = 4
		}
	}
	return nil
}

// shortestApart and longestApart are how long a node is isolated that gets its logs back, unless
// Config.Apart says that it may be longer.
const (
	shortestApart = time.Second
	longestApart  = 9 * time.Second
)

// apart is how long a node is isolated that gets its logs back: any order of magnitude is as likely.
func (e *episode) apart(b *fault) time.Duration {
	most := cmp.Or(e.cfg.Apart, longestApart)
	return time.Duration(float64(shortestApart) * math.Pow(most.Seconds()/shortestApart.Seconds(), b.apart))
}

// handBack isolates a node, gives it back what it led once it is heard again, and takes down
// how long every log took to serve from then on.
func (e *episode) handBack(b *fault) error {
	was := e.cluster.Leaders(e.ctx)
	e.cut(b)
	e.pass(b.lasts)
	e.cluster.HealNetwork()
	e.calmed = e.rec.Now()
	began := time.Now()
	for i, leader := range was {
		if leader == b.node {
			// It is refused when the node is not there yet, say; balancing does it later.
			_ = cluster.Transfer(e.ctx, e.cluster, uint64(1+i), b.node)
		}
	}
	return e.missed(b, true, began)
}

// replace gives a node an empty disk once all logs have all their replicas, and waits
// until they have them again.
func (e *episode) replace(b *fault) error {
	ctx, cancel := context.WithTimeout(e.ctx, healWithin)
	defer cancel()
	other := (b.node + 1) % e.cluster.Nodes()
	if err := cluster.Healthy(ctx, e.cluster, other); err != nil {
		return err
	}
	if err := e.cluster.Replace(b.node); err != nil {
		return err
	}
	e.pass(b.lasts)
	if err := e.cluster.Start(ctx, b.node); err != nil {
		return err
	}
	return cluster.Healthy(ctx, e.cluster, other)
}

// save takes a backup, when it can be had: only one that is wrong is an error.
func (e *episode) save(b *fault) error {
	dir, err := os.MkdirTemp("", "lab-backup-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if _, err := cluster.Backup(e.ctx, e.cluster, b.node, filepath.Join(dir, "backup"), e.rec.Now); errors.Is(err,
		cluster.ErrBackup) {
		return err
	}
	return nil
}

// persist does something until it can be done.
func persist(ctx context.Context, do func() error) error {
	ctx, cancel := context.WithTimeout(ctx, healWithin)
	defer cancel()
	for refused := error(nil); ; {
		err := do()
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return errors.Join(err, refused)
		}
		refused = err
		select {
		case <-ctx.Done():
		case <-time.After(reconnect):
		}
	}
}

// kill kills a node, and perhaps a second one when it is back.
func (e *episode) kill(b *fault) error {
	led, began := e.leads(b.node), time.Now()
	if err := e.cluster.Kill(b.node); err != nil {
		return err
	}
	if err := e.missed(b, led, began); err != nil {
		return err
	}
	if e.cluster.Nodes() > 1 {
		e.pass(b.lasts)
	}
	if err := e.cluster.Start(e.ctx, b.node); err != nil {
		return err
	}
	if !b.second || b.node2 == b.node {
		return nil
	}
	if err := e.cluster.Kill(b.node2); err != nil {
		return err
	}
	return e.cluster.Start(e.ctx, b.node2)
}

// startAll starts all nodes at once: none of several can serve alone.
func (e *episode) startAll() error {
	errs := make(chan error, e.cluster.Nodes())
	for i := range e.cluster.Nodes() {
		go func() { errs <- e.cluster.Start(e.ctx, i) }()
	}
	var first error
	for range e.cluster.Nodes() {
		if err := <-errs; err != nil && first == nil {
			first = err
		}
	}
	return first
}

// cut sets between which nodes nothing passes, or what befalls that which does.
func (e *episode) cut(b *fault) {
	for from := range e.cluster.Nodes() {
		for to := range e.cluster.Nodes() {
			if from != to && faultTable[b.kind].between(b.node, from, to) {
				e.cluster.Between(from, to, faultTable[b.kind].network)
			}
		}
	}
}
