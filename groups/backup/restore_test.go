package backup

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/groups/rows"
	"github.com/pathlockd/pathlockd/wire"
)

// loadDir reads the database of a restored node.
func loadDir(t *testing.T, data string) (groups map[uint16]*engine.State, states map[uint64]rows.State,
	system *engine.System) {
	t.Helper()
	db, err := pebble.Open(filepath.Join(data, rows.StateDir),
		&pebble.Options{Logger: silent{}, ErrorIfNotExists: true})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	groups, states, system = make(map[uint16]*engine.State), make(map[uint64]rows.State), engine.NewSystem()
	it, err := db.NewIter(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer it.Close()
	for it.First(); it.Valid(); it.Next() {
		k, err := rows.Parse(it.Key())
		switch {
		case err != nil:
		case k.Space == rows.SpaceGroup:
			if groups[k.Group] == nil {
				groups[k.Group] = engine.New(engine.DefaultConfig(), nil, nil)
			}
			err = groups[k.Group].Load(k.Row, it.Value())
		case k.Space == rows.SpaceSystem:
			err = system.Load(k.Row, it.Value())
		default:
			states[k.Log], err = rows.ParseState(it.Value())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for number, g := range groups {
		if err := g.Loaded(); err != nil {
			t.Fatalf("group %d: %v", number, err)
		}
	}
	return groups, states, system
}

func TestRestore(t *testing.T) {
	p := full(t)
	dir, data := p.save(t, nil), filepath.Join(t.TempDir(), "data")
	r, err := Restore(context.Background(), Options{From: dir, DataDir: data, NodeID: "pathlockd-3"})
	if err != nil {
		t.Fatal(err)
	}
	if r.Base != r.Report.Highest+DefaultJump {
		t.Errorf("the base is %d, the highest token was %d", r.Base, r.Report.Highest)
	}
	groups, states, system := loadDir(t, data)
	if len(groups) != testGroups {
		t.Errorf("it has groups %v, want all %d", groups, testGroups)
	}
	for number, g := range groups {
		if g.Counter() < r.Base {
			t.Errorf("group %d counts from %d, below the base %d", number, g.Counter(), r.Base)
		}
		was := engine.New(engine.DefaultConfig(), nil, nil)
		err := p.groups[number].View().Rows(0, func(row, val []byte) error {
			if engine.IsFenceRow(row) {
				return nil
			}
			return was.Load(row, val)
		})
		if err != nil || was.Loaded() != nil {
			t.Fatal(err)
		}
		if was.Raise(r.Base); was.View().Digest() != g.View().Digest() {
			t.Errorf("group %d is not what the backup's becomes when it is raised", number)
		}
	}
	for _, log := range rows.LogsOf(testLogs) {
		if s := states[log]; s != (rows.State{Now: p.now, Wall: p.now}) {
			t.Errorf("log %d begins as %+v: want nothing applied, no leader epoch, and the clock at %d", log, s, p.now)
		}
	}
	if system.Counter() < r.Base {
		t.Errorf("IncrFencingToken counts from %d, below the base %d", system.Counter(), r.Base)
	}
	var id map[string]any
	b, err := os.ReadFile(filepath.Join(data, rows.IdentityFile))
	if err == nil {
		err = json.Unmarshal(b, &id)
	}
	if err != nil {
		t.Fatal(err)
	}
	if id["cluster_id"] != r.ClusterID || id["cluster_id"] == "old" || id["node_id"] != "pathlockd-3" ||
		id["restored"] != true {
		t.Errorf("identity %s", b)
	}
	again, err := Restore(context.Background(), Options{From: dir, DataDir: filepath.Join(t.TempDir(), "2"),
		NodeID: "pathlockd-3"})
	if err != nil || again.ClusterID == r.ClusterID {
		t.Errorf("a second restore founds cluster %+v, %v", again, err)
	}
}

// TestRestoreRaisesAll: groups that the backup says nothing about may have minted tokens
// after it was taken.
func TestRestoreRaisesAll(t *testing.T) {
	p := newPlace()
	p.write(t, "o", "h:/0/x")
	for i := range p.groups {
		if i != int(wire.GroupOf("h:/0", testGroups)) {
			p.groups[i] = nil
		}
	}
	data := filepath.Join(t.TempDir(), "data")
	r, err := Restore(context.Background(), Options{From: p.save(t, nil), DataDir: data, NodeID: "pathlockd-0"})
	if err != nil {
		t.Fatal(err)
	}
	groups, _, _ := loadDir(t, data)
	if len(groups) != testGroups {
		t.Errorf("%d groups are written, want %d", len(groups), testGroups)
	}
	for number, g := range groups {
		if g.Counter() < r.Base {
			t.Errorf("group %d counts from %d, below the base %d", number, g.Counter(), r.Base)
		}
	}
}

// TestRestoreWhere: only where nothing is.
func TestRestoreWhere(t *testing.T) {
	dir := full(t).save(t, nil)
	restore := func(data string) error {
		_, err := Restore(context.Background(), Options{From: dir, DataDir: data, NodeID: "pathlockd-0"})
		return err
	}
	root := t.TempDir()
	for _, name := range []string{"empty", "used", "hidden"} {
		if err := os.Mkdir(filepath.Join(root, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range []string{"used/identity.json", "hidden/.x", "file"} {
		if err := os.WriteFile(filepath.Join(root, file), []byte("mine"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"used", "hidden"} {
		if err := restore(filepath.Join(root, name)); !errors.Is(err, ErrExists) {
			t.Errorf("into %s: %v", name, err)
		}
		if left, err := os.ReadDir(filepath.Join(root, name)); err != nil || len(left) != 1 {
			t.Errorf("%s has %v now, %v", name, left, err)
		}
	}
	if err := restore(filepath.Join(root, "file")); err == nil {
		t.Error("into a file")
	}
	for _, name := range []string{"empty", "new/and/deep"} {
		if err := restore(filepath.Join(root, name)); err != nil {
			t.Errorf("into %s: %v", name, err)
		}
		if err := restore(filepath.Join(root, name)); !errors.Is(err, ErrExists) {
			t.Errorf("into %s again: %v", name, err)
		}
	}
}

// TestRestoreJump: tokens are raised as far as it is told, and never so far that they
// could run out.
func TestRestoreJump(t *testing.T) {
	dir := full(t).save(t, nil)
	restore := func(jump int64) (*Restored, error) {
		return Restore(context.Background(), Options{From: dir, DataDir: filepath.Join(t.TempDir(), "data"),
			NodeID: "pathlockd-0", Jump: jump})
	}
	r, err := restore(10)
	if err != nil || r.Base != r.Report.Highest+10 {
		t.Errorf("raised by 10: %+v, %v", r, err)
	}
	for _, jump := range []int64{-1, maxBase, 1<<63 - 1} {
		if _, err := restore(jump); err == nil || !strings.Contains(err.Error(), "cannot be raised") {
			t.Errorf("raised by %d: %v", jump, err)
		}
	}
}
