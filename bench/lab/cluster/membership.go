package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/pathlockd/pathlockd/groups/backup"
	"github.com/pathlockd/pathlockd/groups/rows"
)

// Join implements Cluster.
func (n *Nodes) Join(ctx context.Context) error {
	if err := n.add(); err != nil {
		return err
	}
	return n.Start(ctx, n.Nodes()-1)
}

// Forget implements Cluster.
func (n *Nodes) Forget(node int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	_ = os.RemoveAll(n.list[node].cfg.DataDir) // nobody comes back to it
	n.list = slices.Delete(slices.Clone(n.list), node, node+1)
}

// Restore implements Cluster. What the restore writes to the real disk, the state, moves to
// the node's disk in memory.
func (n *Nodes) Restore(ctx context.Context, from string, node int) error {
	for i, m := range n.members() {
		if up, _ := m.up(); up != nil {
			return fmt.Errorf("restore: node %d is up", i)
		}
		if err := n.blank(m); err != nil {
			return fmt.Errorf("restore: %w", err)
		}
	}
	m := n.members()[node]
	m.cfg.Seeds = nil
	if _, err := backup.Restore(ctx, backup.Options{From: from, DataDir: m.cfg.DataDir,
		NodeID: m.cfg.NodeID}); err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	state := filepath.Join(m.cfg.DataDir, rows.StateDir)
	if err := errors.Join(clone(state, m.state), os.RemoveAll(state)); err != nil {
		return fmt.Errorf("restore: move the state: %w", err)
	}
	if err := n.Start(ctx, node); err != nil {
		return err
	}
	for i := range n.Nodes() {
		if i == node {
			continue
		}
		if err := n.Start(ctx, i); err != nil {
			return err
		}
	}
	return nil
}

// clone copies a directory of the real disk to the same place on one in memory, with all
// that is above it, for good.
func clone(dir string, to *vfs.MemFS) error {
	if there, err := vfs.Clone(vfs.Default, to, dir, dir, vfs.CloneSync); err != nil || !there {
		return errors.Join(err, fmt.Errorf("copy %s: there is %v", dir, there))
	}
	for dir != filepath.Dir(dir) {
		dir = filepath.Dir(dir)
		d, err := to.OpenDir(dir)
		if err != nil {
			return err
		}
		if err := errors.Join(d.Sync(), d.Close()); err != nil {
			return err
		}
	}
	return nil
}

// What follows processes cannot.

// NodeID implements Cluster.
func (c *Processes) NodeID(node int) string { return nodeID(node) }

// Join implements Cluster: it cannot.
func (c *Processes) Join(context.Context) error { return errCannot }

// Forget implements Cluster: it cannot.
func (c *Processes) Forget(int) {}

// Restore implements Cluster: it cannot.
func (c *Processes) Restore(context.Context, string, int) error { return errCannot }
