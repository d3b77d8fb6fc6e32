package groups

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/groups/datadir"
	"github.com/pathlockd/pathlockd/groups/rows"
	"github.com/pathlockd/pathlockd/wire"
)

// TestDataOfEarlierBuild: a node goes on with a data directory of the builds in which every
// node hosted everything: its identity names no replicas.
func TestDataOfEarlierBuild(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	token := r.session().must(write("o", "h:/a/x", time.Hour)).Token
	r.close()
	path := filepath.Join(r.cfg.DataDir, rows.IdentityFile)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var id map[string]any
	if err := json.Unmarshal(b, &id); err != nil {
		t.Fatal(err)
	}
	for _, later := range []string{"starts", "joined", "began", "seats"} {
		delete(id, later)
	}
	id["replica"] = 1
	if b, err = json.Marshal(id); err != nil {
		t.Fatal(err)
	}
	if err := datadir.WriteFileSync(path, b); err != nil {
		t.Fatal(err)
	}
	r.open()
	res := r.session().must(&wire.Request{Op: wire.OpAssertFencing, Owner: "o", Token: token,
		Paths: []string{"h:/a/x"}})
	if res.Status != wire.StatusOK {
		t.Errorf("the lock is gone: %+v", res)
	}
}
