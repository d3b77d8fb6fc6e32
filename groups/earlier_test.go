package groups

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/wire"
)

// TestDataOfEarlierBuild: a node goes on with a data directory of the builds in which every
// node hosted everything: its identity names no replicas.
func TestDataOfEarlierBuild(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	token := r.session().must(write("o", "h:/a/x", time.Hour)).Token
	r.close()
	path := filepath.Join(r.cfg.DataDir, identityFile)
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
	if err := writeFileSync(path, b); err != nil {
		t.Fatal(err)
	}
	r.open()
	res := r.session().must(&wire.Request{Op: wire.OpAssertFencing, Owner: "o", Token: token, Paths: []string{"h:/a/x"}})
	if res.Status != wire.StatusOK {
		t.Errorf("the lock is gone: %+v", res)
	}
}

// TestSessionOfEarlierBuild: the row of a session that ends before its epoch is one whose
// epoch was not kept.
func TestSessionOfEarlierBuild(t *testing.T) {
	s := session{last: 7, window: windowOf(16)}
	s.add(answered{id: 3, op: wire.OpAcquire, token: 9})
	row := s.row(nil)
	if row[len(row)-1] != 0 {
		t.Fatalf("the row % x does not end with the epoch 0", row)
	}
	all := sessions{byID: make(map[engine.Session]*session)}
	if err := all.load(engine.Session{1}, row[:len(row)-1]); err != nil {
		t.Fatal(err)
	}
	got := all.byID[engine.Session{1}]
	if got.last != 7 || got.epoch != 0 || got.find(3, 0) == nil || got.find(3, 0).token != 9 {
		t.Errorf("loaded %+v", got)
	}
}
