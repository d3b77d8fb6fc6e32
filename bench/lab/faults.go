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
		needs, nodes := k.needs()
		if c.Can(needs) && c.Nodes() >= nodes && (len(cfg.Faults) == 0 || cfg.asksFor(k)) {
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
			Kind: b.kind.String(), What: fmt.Sprintf("%s for %v", e.cluster.NodeID(b.node), b.lasts.Round(time.Millisecond)),
			From: e.rec.Now(), Serving: b.kind == stepClock || b.kind == save,
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
func (e *episode) fault(b *fault) error {
	c, ctx, nodes := e.cluster, e.ctx, e.cluster.Nodes()
	switch b.kind {
	case killOne:
		return e.kill(b)
	case killAll:
		for i := range nodes {
			if err := c.Kill(i); err != nil {
				return err
			}
		}
		return e.startAll()
	case terminate:
		if err := c.Terminate(ctx, b.node); err != nil {
			return err
		}
		return c.Start(ctx, b.node)
	case pause:
		if err := c.Pause(b.node, b.lasts); err != nil {
			return err
		}
		e.pass(b.lasts)
		return c.Resume(b.node)
	case isolate, bridge, deafen, mute, storm:
		led, began := e.leads(b.node), time.Now()
		e.weather(b, cluster.Weather{Block: true})
		if b.kind == isolate {
			if err := e.missed(b, led, began); err != nil {
				return err
			}
		}
		e.pass(b.lasts)
		c.Calm()
	case flap:
		for range b.rounds {
			e.weather(b, cluster.Weather{Block: true})
			e.pass(b.lasts / 3)
			c.Calm()
			e.pass(b.lasts / 6)
		}
	case stepClock:
		c.Step(b.node, b.by)
		e.pass(b.lasts)
		if b.second {
			c.Step(b.node2, -b.by)
		}
	case fullDisk:
		if err := c.Fill(b.node); err != nil {
			return err
		}
		e.pass(diskNoticed + b.lasts)
		return c.Empty(b.node)
	case failDisk:
		if err := c.BreakDisk(b.node); err != nil {
			return err
		}
		return c.Start(ctx, b.node)
	case newDisk:
		return e.replace(b)
	case transfer:
		for i := range b.rounds {
			// It is refused when the node is not there yet, say.
			_ = cluster.Transfer(ctx, c, uint64(1+(b.node2+i)%(1+len(c.Leaders(ctx)))), (b.node+i)%nodes)
		}
	case drain:
		if cluster.Drain(ctx, c, b.node, wire.DrainLeads) == nil {
			e.pass(b.lasts)
		}
		return persist(ctx, func() error { return cluster.Drain(ctx, c, b.node, wire.DrainNone) })
	case save:
		return e.save(b)
	case join:
		return c.Join(ctx)
	case leave:
		return e.leave(b)
	case restore:
		return e.refound(b)
	case rollOut:
		return e.rollOut(b)
	case handBack:
		return e.handBack(b)
	case faultKinds:
	}
	return nil
}

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
	e.weather(b, cluster.Weather{Block: true})
	e.pass(b.lasts)
	e.cluster.Calm()
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
	if _, err := cluster.Backup(e.ctx, e.cluster, b.node, filepath.Join(dir, "backup"), e.rec.Now); errors.Is(err, cluster.ErrBackup) {
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

// weather sets the weather that a fault is about.
func (e *episode) weather(b *fault, block cluster.Weather) {
	nodes := e.cluster.Nodes()
	each := func(f func(from, to int)) {
		for from := range nodes {
			for to := range nodes {
				if from != to {
					f(from, to)
				}
			}
		}
	}
	switch b.kind {
	case isolate, flap, handBack:
		each(func(from, to int) {
			if from == b.node || to == b.node {
				e.cluster.Between(from, to, block)
			}
		})
	case bridge:
		each(func(from, to int) {
			if from != b.node && to != b.node {
				e.cluster.Between(from, to, block)
			}
		})
	case deafen:
		each(func(from, to int) {
			if to == b.node {
				e.cluster.Between(from, to, block)
			}
		})
	case mute:
		each(func(from, to int) {
			if from == b.node {
				e.cluster.Between(from, to, block)
			}
		})
	case storm:
		each(func(from, to int) {
			e.cluster.Between(from, to, cluster.Weather{
				Drop: 0.05, Cut: 0.01, Duplicate: 0.1, Delay: 0.2, DelayMin: time.Millisecond, DelayMax: 200 * time.Millisecond,
			})
		})
	case killOne, killAll, terminate, pause, stepClock, fullDisk, failDisk, newDisk, transfer, drain, save, join, leave,
		restore, rollOut, faultKinds:
	}
}
