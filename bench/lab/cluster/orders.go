package cluster

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/pathlockd/pathlockd/groups/backup"
	"github.com/pathlockd/pathlockd/wire"
)

// What operators ask of a cluster.

// Status is the cluster as a node sees it.
func Status(ctx context.Context, c Cluster, node int) (*wire.ClusterStatus, error) {
	res, err := once(ctx, c, node, &wire.Request{Op: wire.OpClusterStatus})
	if err != nil {
		return nil, err
	}
	return wire.DecodeClusterStatus(res.Message)
}

// Healthy waits until the cluster says so of itself.
func Healthy(ctx context.Context, c Cluster, node int) error {
	again := time.NewTicker(5 * askEvery)
	defer again.Stop()
	for {
		s, err := Status(ctx, c, node)
		if err == nil && s.Healthy {
			return nil
		}
		select {
		case <-ctx.Done():
			if s != nil {
				err = errors.Join(err, fmt.Errorf("it says %q", s.Problems))
			}
			return fmt.Errorf("the cluster is not healthy: %w", errors.Join(err, ctx.Err()))
		case <-again.C:
		}
	}
}

// Transfer gives the leadership of a log to a node.
func Transfer(ctx context.Context, c Cluster, log uint64, to int) error {
	_, err := once(ctx, c, to, &wire.Request{Op: wire.OpClusterTransfer, Target: log, Node: nodeID(to)})
	return err
}

// Drain wants a node emptied so far, DrainNone for not at all; another node is asked.
func Drain(ctx context.Context, c Cluster, node int, d wire.Drain) error {
	req := &wire.Request{Op: wire.OpNodeDrain, Node: nodeID(node), Drain: d}
	if d == wire.DrainNone {
		req = &wire.Request{Op: wire.OpNodeResume, Node: nodeID(node)}
	}
	_, err := once(ctx, c, (node+1)%c.Nodes(), req)
	return err
}

// Backup saves the cluster below dir through a node and verifies what it saved, of which
// it answers the number of locks. It fails while leaders change.
func Backup(ctx context.Context, c Cluster, node int, dir string) (locks int, err error) {
	s := NewSession()
	conn, err := c.Dial(ctx, node, s)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	dir = filepath.Join(dir, fmt.Sprintf("backup-%d", time.Now().UnixNano()))
	w, err := backup.Create(dir)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, w.Abort()) }()
	ask := func(req *wire.Request) (*wire.Result, error) {
		res, err := conn.Ask(ctx, s.Next(), req, nil)
		if err == nil && res.Err() != nil {
			err = res.Err()
		}
		return res, err
	}
	var images []*wire.Backup
	count := logs
	for log := uint64(1); log <= uint64(count)+1; log++ {
		res, err := ask(&wire.Request{Op: wire.OpBackupOpen, Target: log})
		if err != nil {
			return 0, err
		}
		images, count = append(images, res.List.Backup), int(res.List.Backup.LogCount)
	}
	for _, b := range images {
		l, err := w.Log(b)
		if err != nil {
			return 0, err
		}
		for cursor, done := []byte(nil), false; !done; {
			res, err := ask(&wire.Request{Op: wire.OpBackupRead, Target: b.ID, Cursor: cursor})
			if err == nil {
				_, err = l.Write(res.List.Rows)
			}
			if err != nil {
				return 0, errors.Join(err, l.Close())
			}
			cursor, done = res.List.Cursor, res.Done
		}
		if err := l.Close(); err != nil {
			return 0, err
		}
	}
	if _, err := w.Commit("lab", false); err != nil {
		return 0, err
	}
	r, err := backup.Verify(ctx, dir)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrBackup, err)
	}
	t := r.Total()
	return t.Writes + t.Shared, nil
}

// ErrBackup says that a backup is not what it must be.
var ErrBackup = errors.New("a backup that was saved is damaged")

// once asks one thing of a node.
func once(ctx context.Context, c Cluster, node int, req *wire.Request) (*wire.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*requestTimeout)
	defer cancel()
	s := NewSession()
	conn, err := c.Dial(ctx, node, s)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	res, err := conn.Ask(ctx, s.Next(), req, nil)
	if err == nil && res.Err() != nil {
		err = res.Err()
	}
	return res, err
}
