package dragon

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/pathlockd/pathlockd/groups/datadir"
)

// followHostname makes a raft directory usable under this machine's name:
// dragonboat keeps its files below one called like the host, and refuses others.
// Who a node is stands in its data directory and not in its name.
func followHostname(dir string, log *slog.Logger) error {
	name, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("ask for the host's name: %w", err)
	}
	entries, err := os.ReadDir(dir)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return err
	}
	var old []string
	for _, e := range entries {
		if e.IsDir() {
			old = append(old, e.Name())
		}
	}
	if len(old) != 1 || old[0] == name {
		return nil
	}
	log.Info("the host was renamed, moving the raft log's directory along", "from", old[0], "to", name)
	if err := os.Remove(filepath.Join(dir, "dragonboat.ds")); err != nil && !os.IsNotExist(err) {
		return err
	}
	if err := os.Rename(filepath.Join(dir, old[0]), filepath.Join(dir, name)); err != nil {
		return err
	}
	return datadir.SyncDir(dir)
}
