package groups

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lni/dragonboat/v4/config"
	"github.com/lni/dragonboat/v4/raftpb"

	"github.com/pathlockd/pathlockd/groups/datadir"
	"github.com/pathlockd/pathlockd/groups/dragon"
	"github.com/pathlockd/pathlockd/groups/gossip"
	"github.com/pathlockd/pathlockd/groups/link"
	"github.com/pathlockd/pathlockd/groups/rows"
)

// TestFormatsOfOthers: those who are away count with what they told last, as do those
// whom only raft knows; not the disks that were replaced.
func TestFormatsOfOthers(t *testing.T) {
	dir := t.TempDir()
	c := &cluster{n: &Node{id: &datadir.Identity{HostID: "me"}, book: dragon.NewRegistry()}}
	if err := c.known.Load(dir); err != nil {
		t.Fatal(err)
	}
	expect := func(what string, want ...[2]uint32) {
		t.Helper()
		got := make(map[[2]uint32]int)
		for _, f := range c.formats() {
			got[f]++
		}
		for _, f := range want {
			got[f]--
		}
		for f, n := range got {
			if n != 0 {
				t.Errorf("%s: %v is told %d times too often", what, f, n)
			}
		}
	}
	take := func(host, node string, low, high uint32) {
		t.Helper()
		s := gossip.Sighting{Alive: true}
		s.HostID, s.NodeID, s.GossipAddr = host, node, node+":1"
		s.FormatMin, s.FormatMax = low, high
		f, err := c.known.Take([]gossip.Sighting{s}, "me")
		if err != nil || f == nil {
			t.Fatalf("what %s works with is no news: %v", node, err)
		}
		if err := f.Write(); err != nil {
			t.Fatal(err)
		}
	}
	take("host-1", "n-1", 1, 1)
	take("host-2", "n-2", 1, 2)
	take("host-1", "n-1", 1, 2)
	expect("two nodes", [2]uint32{1, 2}, [2]uint32{1, 2})
	take("host-1b", "n-1", 2, 2)
	expect("a disk was replaced", [2]uint32{2, 2}, [2]uint32{1, 2})
	c.known = datadir.Peers{}
	if err := c.known.Load(dir); err != nil {
		t.Fatal(err)
	}
	expect("after a restart", [2]uint32{2, 2}, [2]uint32{1, 2})
	for shard := range uint64(2) {
		for replica, host := range []string{"", "me", "host-1", "host-2", "host-3"} {
			c.n.book.Add(shard, uint64(replica), host)
		}
	}
	c.n.book.Remove(0, 0)
	c.n.book.Remove(1, 0)
	expect("a replica of an unknown node", [2]uint32{2, 2}, [2]uint32{1, 2}, [2]uint32{})
	c.known.Forget("n-2")
	c.n.book.Remove(0, 3)
	c.n.book.Remove(1, 3)
	expect("a node was removed", [2]uint32{2, 2}, [2]uint32{})
}

// TestWrittenFormat: entries, of both kinds, and snapshots are in the format that the
// node writes, and who does not read it says so and ends.
func TestWrittenFormat(t *testing.T) {
	const newer = rows.NewestFormat + 1
	want := fmt.Sprintf("format %d, this build reads %s: run a newer version", newer, rows.FormatsRead())
	said := make(chan error, 64)
	r := newRig(t, func(c *Config) {
		c.LogCount = 1
		c.Fatal = func(err error) {
			select {
			case said <- err:
			default:
			}
		}
	})
	c := r.session()
	c.must(write("a", "h:/a/1", time.Hour))
	r.clock.freeze() // nothing ticks
	l := r.node.logs[rows.FirstLog]
	m := l.local.Load()
	r.node.formats.Use(newer)
	r.node.formats.Write([][2]uint32{{newer, newer}})

	var b bytes.Buffer
	if err := m.SaveSnapshot(m.Freeze(false), &b, nil); err != nil {
		t.Fatal(err)
	}
	if err := m.RecoverFromSnapshot(&b, nil); err == nil || !strings.Contains(err.Error(), "rows: "+want) ||
		m.Installing.Load() {
		t.Errorf("a snapshot of a newer format: %v; it took the state away: %v", err, m.Installing.Load())
	}
	for what, propose := range map[string]func(){
		"a batch": func() { c.start(r.next.Add(1), write("b", "h:/a/2", time.Hour)) },
		"a leader epoch": func() {
			l.held.Store(0) // as if it were still to be taken
			l.kick()
		},
	} {
		eventually(t, "nothing is under way", func() bool {
			l.drive.Lock()
			defer l.drive.Unlock()
			return len(l.drive.under) == 0
		})
		// which one: what was tried may stand before it
		entry := fmt.Sprintf(" of log %d: groups: log entry of ", l.shard)
		propose()
		select {
		case err := <-said:
			if !strings.Contains(err.Error(), entry+want) {
				t.Errorf("%s of a newer format: %v", what, err)
			}
		case <-time.After(patience):
			t.Fatalf("%s of a newer format is read", what)
		}
		l.held.Store(l.lead.Load().term) // it goes on as if nothing were
	}
}

// TestUseFormat: a directory says which format is in use before anything else does, and
// who does not read that leaves it alone.
func TestUseFormat(t *testing.T) {
	const newer = rows.NewestFormat + 1
	r := newRig(t, nil)
	path := filepath.Join(r.cfg.DataDir, rows.IdentityFile)
	if err := os.Mkdir(path+".new", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := r.node.useFormat(newer); err == nil ||
		!strings.Contains(err.Error(), "cannot take note in identity.json that format") {
		t.Errorf("nothing can be written: %v", err)
	}
	if used := r.node.formats.InUse(); used != rows.NewestFormat || r.node.id.Format != used {
		t.Errorf("format %d is in use, and that is not on disk", used)
	}
	if err := os.Remove(path + ".new"); err != nil {
		t.Fatal(err)
	}
	for _, format := range []uint32{newer, rows.OldestFormat} { // which goes back no more
		if err := r.node.useFormat(format); err != nil {
			t.Fatal(err)
		}
		if used := r.node.formats.InUse(); used != newer || r.node.id.Format != newer {
			t.Errorf("format %d is in use, want %d", used, newer)
		}
	}
	r.close()
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	n, err := Open(r.cfg)
	if err == nil {
		n.Close(0)
		t.Fatal("it starts on a directory of a newer format")
	}
	if want := fmt.Sprintf("has format %d, this build reads %s: run a newer version, or use another data_dir", newer,
		rows.FormatsRead()); !strings.Contains(err.Error(), want) {
		t.Errorf("a directory of a newer format: %v", err)
	}
	if after, err := os.ReadFile(path); err != nil || !bytes.Equal(before, after) {
		t.Errorf("identity.json was changed: %s, %v", after, err)
	}
	if err := rows.CheckFormat(rows.OldestFormat - 1); err == nil ||
		!strings.Contains(err.Error(), "go through a version that reads both") {
		t.Errorf("what is too old: %v", err)
	}
}

// TestFormatAtTheDoors: who comes with raft's messages or with requests is told which
// format is in use, and has this node use a newer one.
func TestFormatAtTheDoors(t *testing.T) {
	t.Parallel()
	f := newLocalCluster(t, 1, nil)
	n := f.nodes[0]
	l, err := link.New(link.Config{
		Cluster: n.id.ClusterID, Node: "n-9", Host: "host-9", Token: testToken, Log: n.log,
		FormatMin: rows.NewestFormat, FormatMax: rows.NewestFormat,
	})
	if err != nil {
		t.Fatal(err)
	}
	door, err := l.OpenDoor("", func(*link.Conn) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	defer door.Close()
	raft := l.Create(config.NodeHostConfig{}, func(raftpb.MessageBatch) {}, func(raftpb.Chunk) bool { return false })
	defer raft.Close()
	for name, dial := range map[string]func() error{
		"raft_addr": func() error {
			c, err := raft.GetConnection(short(t), n.cfg.RaftAddr)
			if err == nil {
				c.Close()
			}
			return err
		},
		"link_addr": func() error {
			c, err := door.Dial(short(t), "", n.cluster.mesh.Addr())
			if err == nil {
				c.Close()
			}
			return err
		},
	} {
		begin := func(format uint32) {
			n.idLock.Lock()
			defer n.idLock.Unlock()
			n.id.Format = format
			n.formats.Begin(format)
		}
		begin(rows.NewestFormat - 1) // as if the directory were older
		if err := dial(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if id, err := datadir.Load(n.cfg.DataDir); err != nil || n.formats.InUse() != rows.NewestFormat ||
			id.Format != rows.NewestFormat {
			t.Errorf("%s: a peer has format %d in use, this node %d: %v", name, rows.NewestFormat,
				n.formats.InUse(), err)
		}
		begin(rows.NewestFormat + 1) // as if another build had written there
		if err := dial(); err == nil || !strings.Contains(err.Error(), "it is node n-9 that needs a newer version") {
			t.Errorf("%s: a peer that does not read what is in use: %v", name, err)
		}
		begin(rows.NewestFormat)
	}
}
