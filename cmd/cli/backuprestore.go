package cli

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/pathlockd/pathlockd/groups/backup"
	"github.com/pathlockd/pathlockd/wire"
)

// restoredData is the data of backup restore.
type restoredData struct {
	DataDir     string `json:"data_dir"`
	NodeID      string `json:"node_id"`
	ClusterID   string `json:"cluster_id"`
	From        string `json:"from_cluster_id"`
	TokensAbove int64  `json:"tokens_above"`
	heldData
	Ended       []strayData `json:"ended,omitempty"`
	GroupCount  int         `json:"group_count"`
	LogCount    int         `json:"log_count"`
	Segments    int         `json:"routing_prefix_segments"`
	Algorithm   string      `json:"default_lock_algorithm"`
	Replication int         `json:"replication_factor"`
}

const backupRestoreLong = `Found a new cluster of one node with a backup: it writes the data directory of a pathlockd
that is not running, and needs no server. The directory must not exist, or be empty. Then
start pathlockd on it, with the settings that the answer tells; other nodes join it once
it runs, and get everything from it.

Locks, queues and policies are as in the backup, and leases have as long left as they had.
Clients that held locks keep them if they renew in time, and their tokens do not count any
more: to ask for the same lock again answers the new one. What was acquired after the
backup is not held in the new cluster, and its tokens are refused there.`

func (a *app) backupRestoreCmd() *cobra.Command {
	o := backup.Options{Jump: backup.DefaultJump}
	cmd := &cobra.Command{
		Use: "restore --from DIRECTORY --data-dir DIRECTORY", Short: "Found a new cluster with a backup",
		Long: backupRestoreLong, Args: takes(),
		Example: `  pathlock backup restore --from /backups/monday --data-dir /var/lib/pathlockd`,
		RunE: body(func(ctx context.Context, _ []string) error {
			switch {
			case o.From == "":
				return usage("restore: say which backup, with --from DIRECTORY")
			case o.DataDir == "":
				return usage("restore: say where to, with --data-dir DIRECTORY")
			}
			ask := wire.Request{Op: wire.OpNodeResume, Node: o.NodeID}
			if bad := ask.Validate(); bad != nil {
				return usage("--node-id: %s", bad.Message)
			}
			if info, err := os.Stat(o.DataDir); err == nil && !info.IsDir() {
				return usage("--data-dir %s: is no directory",
					quote(o.DataDir)).hinted("name a directory that does not exist, or is empty")
			}
			dir, err := filepath.Abs(o.DataDir)
			if err != nil {
				return err
			}
			o.DataDir = dir
			r, err := backup.Restore(ctx, o)
			if err != nil {
				return backupFailure(err)
			}
			return a.restored(&o, r)
		}),
	}
	fs := cmd.Flags()
	fs.StringVar(&o.From, "from", "", "the backup: the `DIRECTORY` that save wrote")
	fs.StringVar(&o.DataDir, "data-dir", "", "data_dir of the new node: a `DIRECTORY` that does not exist, or is empty")
	fs.StringVar(&o.NodeID, "node-id", "pathlockd-0", "node_id of the new node: a `NAME` that ends in a digit")
	fs.Var(&number[int64]{&o.Jump, 1, 1 << 61, "how far to raise tokens"}, "token-jump",
		"raise tokens by `N` above all in the backup: more than the old cluster minted after it")
	return cmd
}

// restored answers what a restore made.
func (a *app) restored(o *backup.Options, r *backup.Restored) error {
	m, t := r.Report.Manifest, r.Report.Total()
	data := &restoredData{
		DataDir: o.DataDir, NodeID: o.NodeID, ClusterID: r.ClusterID, From: m.ClusterID, TokensAbove: r.Base,
		heldData: heldData{t.Writes + t.Shared, t.Leases, t.Waiters, t.Fences, t.Policies}, Ended: straysOf(r.Report),
		GroupCount: m.GroupCount, LogCount: m.LogCount, Segments: m.Segments, Algorithm: m.Algorithm,
		Replication: m.Replication,
	}
	return a.answer(data, func(b *bytes.Buffer) {
		fmt.Fprintf(b, "restored %s and %s to %s, as cluster %s\n", count(uint64(data.Locks), "lock", "locks"),
			count(uint64(data.Waiters), "waiter", "waiters"), visible(data.DataDir), data.ClusterID)
		fmt.Fprintf(b, "fencing tokens go on above %d\n\nStart pathlockd on it with these settings:\n\n",
			data.TokensAbove)
		t := table{
			{"  node_id", "= " + fmt.Sprintf("%q", data.NodeID)},
			{"  data_dir", "= " + fmt.Sprintf("%q", data.DataDir)},
			{"  group_count", fmt.Sprintf("= %d", data.GroupCount)},
			{"  log_count", fmt.Sprintf("= %d", data.LogCount)},
			{"  routing_prefix_segments", fmt.Sprintf("= %d", data.Segments)},
			{"  default_lock_algorithm", fmt.Sprintf("= %q", data.Algorithm)},
			{"  replication_factor", fmt.Sprintf("= %d", data.Replication)},
		}
		t.write(b)
		writeStrays(b, "This of the backup was ended", data.Ended)
	})
}
