package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/pathlockd/pathlockd/groups/backup"
	"github.com/pathlockd/pathlockd/wire"
)

const backupLong = `Save what a cluster knows, look at what was saved, and found another cluster with it.

A backup is a directory: a file for each replicated log, and a manifest with their
checksums. Each log is as it was at one instant, while the cluster goes on.

A restore founds a new cluster. Who held a lock in the backup holds it there for as long
as was left; fencing tokens go on above every token of the old cluster, also those it
minted after the backup was taken, so that its holders are refused by whatever checks
tokens until they ask for their locks again.`

// backupCmd makes the command backup and those below it.
func (a *app) backupCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use: "backup", GroupID: groupServer, Short: "Save what the cluster knows, and restore it", Long: backupLong,
		Example: `  pathlock backup save /backups/monday
  pathlock backup verify /backups/monday
  pathlock backup restore --from /backups/monday --data-dir /var/lib/pathlockd`,
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return fmt.Errorf("backup: %q: must be save, verify or restore", args[0])
			}
			return fmt.Errorf("backup: say save, verify or restore")
		},
	}
	cmd.AddCommand(a.backupSaveCmd(), a.backupVerifyCmd(), a.backupRestoreCmd())
	return cmd
}

// savedData is the data of backup save.
type savedData struct {
	Directory  string `json:"directory"`
	ClusterID  string `json:"cluster_id"`
	Logs       int    `json:"logs"`
	Rows       int    `json:"rows"`
	Bytes      int64  `json:"bytes"`
	Local      bool   `json:"local"`
	TookMillis int64  `json:"took_ms"`
}

const backupSaveLong = `Save what the cluster knows to DIRECTORY, which must not exist. Each log is read from the
node that leads it. The directory appears when everything is in it and on disk.

--local takes every log from the node that --addr names, as that node has it, without
asking the others: for what is left of a cluster that lost its majority for good. What
the node had not heard of is missing.`

func (a *app) backupSaveCmd() *cobra.Command {
	var local bool
	cmd := &cobra.Command{
		Use: "save DIRECTORY", Short: "Save what the cluster knows", Long: backupSaveLong, Args: takes("DIRECTORY"),
		Example: `  pathlock backup save /backups/monday
  pathlock backup save /backups/monday --json | jq .data.bytes`,
		RunE: body(func(ctx context.Context, args []string) error {
			if err := checkTarget(args[0]); err != nil {
				return err
			}
			data, err := a.save(ctx, args[0], local)
			if err != nil {
				return backupFailure(err)
			}
			return a.answer(data, func(b *bytes.Buffer) {
				fmt.Fprintf(b, "saved %s of %s, %s, to %s in %s\n", count(uint64(data.Rows), "row", "rows"),
					count(uint64(data.Logs), "log", "logs"), size(data.Bytes), visible(data.Directory),
					short(time.Duration(data.TookMillis)*time.Millisecond))
			})
		}),
	}
	cmd.Flags().BoolVar(&local, "local", false, "take what this one node has, though it may lag behind")
	return cmd
}

// loggedData is what one log of a backup has in it.
type loggedData struct {
	Log          uint64 `json:"log"`
	File         string `json:"file"`
	Bytes        int64  `json:"bytes"`
	Rows         int    `json:"rows"`
	AppliedIndex uint64 `json:"applied_index"`
	MadeUnixMS   int64  `json:"made_unix_ms"`
	heldData
}

// heldData counts what is in a backup.
type heldData struct {
	Locks    int `json:"locks"`
	Leases   int `json:"leases"`
	Waiters  int `json:"waiters"`
	Fences   int `json:"fences"` // of paths that nobody holds
	Policies int `json:"policies"`
}

// verifiedData is the data of backup verify.
type verifiedData struct {
	Directory     string       `json:"directory"`
	ClusterID     string       `json:"cluster_id"`
	ServerVersion string       `json:"server_version"`
	Local         bool         `json:"local"`
	GroupCount    int          `json:"group_count"`
	LogCount      int          `json:"log_count"`
	Segments      int          `json:"routing_prefix_segments"`
	Algorithm     string       `json:"default_lock_algorithm"`
	Replication   int          `json:"replication_factor"`
	HighestToken  int64        `json:"highest_token"`
	Changes       int          `json:"policy_changes_under_way"`
	Logs          []loggedData `json:"logs"`
	Strays        []strayData  `json:"strays,omitempty"`
	heldData
}

// strayData is what somebody has in a local backup on a path that others would be given elsewhere.
type strayData struct {
	Owner     string `json:"owner"`
	Path      string `json:"path"`
	Namespace string `json:"namespace"`
	Waits     bool   `json:"waits"`
}

func straysOf(r *backup.Report) (all []strayData) {
	for i := range r.Strays {
		o := &r.Strays[i]
		all = append(all, strayData{o.Owner, o.Path, o.Namespace, o.Waits})
	}
	return all
}

// writeStrays says what is lost of a local backup, each by its name.
func writeStrays(b *bytes.Buffer, what string, all []strayData) {
	if len(all) == 0 {
		return
	}
	fmt.Fprintf(b, "\n%s, as its path, or one that is held with it, is in another namespace by the system log:\n\n",
		what)
	t := table{{"OWNER", "PATH", "NAMESPACE", ""}}
	for i := range all {
		o, how := &all[i], "holds"
		if o.Waits {
			how = "waits"
		}
		t.add(visible(o.Owner), visible(o.Path), visible(o.Namespace), how)
	}
	t.write(b)
}

func verified(dir string, r *backup.Report) *verifiedData {
	m, t := r.Manifest, r.Total()
	data := &verifiedData{
		Directory: dir, ClusterID: m.ClusterID, ServerVersion: m.ServerVersion, Local: m.Local,
		GroupCount: m.GroupCount,
		LogCount:   m.LogCount, Segments: m.Segments, Algorithm: m.Algorithm, Replication: m.Replication,
		HighestToken: r.Highest, Changes: r.Changes, Strays: straysOf(r),
		heldData: heldData{t.Writes + t.Shared, t.Leases, t.Waiters, t.Fences, t.Policies},
	}
	for i := range r.Logs {
		l := &r.Logs[i]
		data.Logs = append(data.Logs, loggedData{
			Log: l.Log, File: l.File, Bytes: l.Bytes, Rows: l.Rows, AppliedIndex: l.AppliedIndex,
			MadeUnixMS: l.UnixMillis,
			heldData:   heldData{l.Writes + l.Shared, l.Leases, l.Waiters, l.Fences, l.Tally.Policies},
		})
	}
	return data
}

const backupVerifyLong = `Read the whole of a backup and say what is in it. Everything is checked: the checksums of
the files, every row, and that the rows make the state that the nodes had in memory. It
needs no server. A backup that is damaged, or not whole, ends with exit code 1.`

func (a *app) backupVerifyCmd() *cobra.Command {
	return &cobra.Command{
		Use: "verify DIRECTORY", Short: "Check a backup and say what is in it", Long: backupVerifyLong,
		Args:    takes("DIRECTORY"),
		Example: `  pathlock backup verify /backups/monday`,
		RunE: body(func(ctx context.Context, args []string) error {
			r, err := backup.Verify(ctx, args[0])
			if err != nil {
				return backupFailure(err)
			}
			data := verified(args[0], r)
			return a.answer(data, func(b *bytes.Buffer) { data.write(b) })
		}),
	}
}

func (d *verifiedData) write(b *bytes.Buffer) {
	fmt.Fprintf(b, "%s is a whole backup of cluster %s, by pathlockd %s\n", visible(d.Directory), visible(d.ClusterID),
		visible(d.ServerVersion))
	if d.Local {
		b.WriteString("It has what one node had, which may have lagged behind the cluster.\n")
	}
	b.WriteByte('\n')
	t := table{{"LOG", "MADE", "ENTRY", "BYTES", "LOCKS", "WAITERS", "FENCES", "POLICIES"}}
	for i := range d.Logs {
		l := &d.Logs[i]
		name := fmt.Sprint(l.Log)
		if l.Log == wire.SystemLog {
			name = "system"
		}
		t.add(name, stamp(time.UnixMilli(l.MadeUnixMS)), fmt.Sprint(l.AppliedIndex), size(l.Bytes),
			fmt.Sprint(l.Locks), fmt.Sprint(l.Waiters), fmt.Sprint(l.Fences), fmt.Sprint(l.Policies))
	}
	t.add("all", "", "", size(d.bytes()), fmt.Sprint(d.Locks), fmt.Sprint(d.Waiters), fmt.Sprint(d.Fences),
		fmt.Sprint(d.Policies))
	t.write(b)
	writeStrays(b, "A restore ends this", d.Strays)
}

func (d *verifiedData) bytes() (n int64) {
	for i := range d.Logs {
		n += d.Logs[i].Bytes
	}
	return n
}

// backupFailure is what went wrong with a backup's files.
func backupFailure(err error) error {
	f := &failure{exit: ExitFailed, message: plain(err)}
	switch {
	case errors.Is(err, backup.ErrDamaged):
		f.code = codeDamaged
		return f.hinted("take another backup; nothing was written")
	case errors.Is(err, backup.ErrFormat):
		f.code = codeFormat
		return f
	case errors.Is(err, backup.ErrExists):
		return usage("%s", plain(err)).hinted("nothing was overwritten; name another directory")
	case errors.Is(err, backup.ErrNone):
		f.code = codeNoBackup
		return f.hinted("name a directory that pathlock backup save wrote; an interrupted one writes none")
	}
	return err
}

// checkTarget says what is wrong with a directory to save to, as far as that can be
// told before the cluster is asked.
func checkTarget(dir string) error {
	if dir == "" {
		return usage("DIRECTORY: must not be empty")
	}
	within := filepath.Dir(filepath.Clean(dir)) // a slash at the end names nothing within it
	if info, err := os.Stat(within); errors.Is(err, fs.ErrNotExist) || err == nil && !info.IsDir() {
		return usage("DIRECTORY %s: there is no directory %s to make it in", quote(dir), quote(within)).
			hinted("make that first: mkdir -p %s", quote(within))
	}
	return nil
}

// size is a number of bytes for people.
func size(n int64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	v, i := float64(n), 0
	for v >= 1024 && i < len(units)-1 {
		v, i = v/1024, i+1
	}
	if i == 0 {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %s", v, units[i])
}
