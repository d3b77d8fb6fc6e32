package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/pathlockd/pathlockd/bench/lab/cluster"
	"github.com/pathlockd/pathlockd/bench/lab/history"
	"github.com/pathlockd/pathlockd/wire"
)

// Nodes come and go for good between these two.
const (
	fewestNodes = 3
	mostNodes   = 5
)

// turned is the kind of fault that is meant: who cannot become more become fewer.
func (e *episode) turned(k faultKind) faultKind {
	switch n := e.cluster.Nodes(); {
	case k == join && n >= mostNodes:
		return leave
	case k == leave && n <= fewestNodes:
		return join
	}
	return k
}

// leave takes a node out for good. Either it is drained, which is done once it holds
// nothing, whatever happens to another one meanwhile; or it is lost with its disk, and what
// it held is made anew elsewhere.
func (e *episode) leave(b *fault) error {
	// it waits for the others, and moves or makes anew all that it held
	ctx, cancel := context.WithTimeout(e.ctx, 3*healWithin)
	defer cancel()
	c, other := e.cluster, (b.node+1)%e.cluster.Nodes()
	if b.lost {
		if err := cluster.Healthy(ctx, c, other); err != nil {
			return err
		}
		if err := c.Kill(b.node); err != nil {
			return err
		}
	} else if err := e.empty(ctx, b); err != nil {
		return err
	}
	if err := persist(ctx, func() error { return cluster.Remove(ctx, c, b.node) }); err != nil {
		return fmt.Errorf("remove %s: %w", c.NodeID(b.node), err)
	}
	c.Forget(b.node)
	if err := cluster.Healthy(ctx, c, b.node2%c.Nodes()); err != nil {
		return fmt.Errorf("a node was removed: %w", err)
	}
	return nil
}

// empty drains a node and ends it.
func (e *episode) empty(ctx context.Context, b *fault) error {
	c := e.cluster
	if err := persist(ctx, func() error { return cluster.Drain(ctx, c, b.node, wire.DrainReplicas) }); err != nil {
		return fmt.Errorf("drain %s: %w", c.NodeID(b.node), err)
	}
	if b.second && b.node2 != b.node {
		if err := c.Kill(b.node2); err != nil {
			return err
		}
		if err := c.Start(ctx, b.node2); err != nil {
			return err
		}
	}
	if err := cluster.Emptied(ctx, c, b.node); err != nil {
		return fmt.Errorf("%s is not emptied: %w", c.NodeID(b.node), err)
	}
	return c.Terminate(ctx, b.node)
}

// refound takes a backup, lets clients go on, abandons the cluster and founds another one
// with the backup. From then on clients ask that one, and nothing twice that they asked
// the old one.
func (e *episode) refound(b *fault) error {
	dir, err := os.MkdirTemp("", "lab-backup-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	var saved *cluster.Saved
	var from string
	var damaged error
	tries := 0
	err = persist(e.ctx, func() error {
		tries++
		from = filepath.Join(dir, fmt.Sprint(tries))
		var err error
		saved, err = cluster.Backup(e.ctx, e.cluster, b.node, from, e.rec.Now)
		if errors.Is(err, cluster.ErrBackup) {
			saved, damaged = nil, err
			return nil
		}
		return err
	})
	switch {
	case err != nil:
		return fmt.Errorf("no backup can be taken: %w", err)
	case saved == nil:
		return damaged
	}
	e.pass(b.lasts)
	for i := range e.cluster.Nodes() {
		if err := e.cluster.Kill(i); err != nil {
			return err
		}
	}
	e.rec.Restored(history.Restore{SaveFrom: saved.From, SaveTo: saved.To, Abandoned: e.rec.Now()})
	if e.ballast != nil {
		e.ballast.restores.Add(1)
	}
	if err := e.cluster.Restore(e.ctx, from, b.node2); err != nil {
		return err
	}
	return e.placed()
}

// placed waits until every log has its replicas where they belong.
func (e *episode) placed() error {
	ctx, cancel := context.WithTimeout(e.ctx, healWithin)
	defer cancel()
	if err := cluster.Placed(ctx, e.cluster, 0); err != nil {
		return fmt.Errorf("%d nodes: %w: %w", e.cluster.Nodes(), errNotPlaced, err)
	}
	return nil
}

var errNotPlaced = errors.New("the logs do not come to where they belong")
