package groups

import (
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/groups/gossip"
	"github.com/pathlockd/pathlockd/wire"
)

const (
	testReserve = 128 << 20
	plenty      = 10 * testReserve
)

// TestTakeOverShort: a node that is short takes over only what is offered to it knowingly.
func TestTakeOverShort(t *testing.T) {
	t.Parallel()
	f := calm(t, nil)
	s := f.succession("h:/successors/x")
	s.to.room.mu.Lock()
	s.to.room.shortage = gossip.Shortage{Reserve: math.MaxUint64} // as it would be before the others hear of it
	s.to.room.mu.Unlock()
	order := s.order
	s.refused(t, "one that is short", "nearly full", s.from.id.HostID, order)
	order.Short = true
	order.Index-- // it stands, and is not elected beside a leader that goes on
	if err := s.to.takeOver(s.from.id.HostID, order); err == nil || strings.Contains(err.Error(), "nearly full") {
		t.Errorf("for want of anybody else: %v", err)
	}
}

// TestShortWhileAlone: a node without others tells that it is short, too.
func TestShortWhileAlone(t *testing.T) {
	t.Parallel()
	var free atomic.Uint64
	free.Store(testReserve / 2)
	r := &rig{t: t}
	cfg := Config{
		DataDir: t.TempDir(), Bootstrap: true, Segments: 1, GroupCount: 16, LogCount: 2, RaftAddr: freeAddr(t),
		DiskReserve: testReserve,
		Free:        func(string) (uint64, error) { return free.Load(), nil },
	}
	cfg.RaftFS, cfg.FS = memDisks()
	n, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close(0)
	r.node = n
	r.live.Store(n)
	problems := func() []string { return n.clusterStatus().Problems }
	if !within(clusterPatience, time.Millisecond, func() bool {
		return slices.Equal(problems(), []string{"pathlockd-0 has 64 MiB free in data_dir, below disk_reserve_bytes " +
			"(128 MiB), and what it leads (3 logs) takes no writes: make room there"})
	}) {
		t.Errorf("problems %q", problems())
	}
	if res := r.session().ask(write("a", "h:/a/2", time.Hour)); res.Code != wire.Unavailable {
		t.Errorf("an acquire: %+v", res)
	}
	free.Store(plenty)
	if !within(clusterPatience, 10*time.Millisecond, func() bool { ok, _ := n.Health(); return ok }) {
		t.Error("there is room, and it is not healthy")
	}
	r.session().must(write("a", "h:/a/2", time.Hour))
}

// TestRoom: when a node is short, when it has room again, and what of that is told.
func TestRoom(t *testing.T) {
	t.Parallel()
	const s, window = time.Second, 30 * time.Second
	var r room
	for _, c := range []struct {
		at      time.Duration
		free    uint64
		reserve uint64
		want    gossip.Shortage
		changed bool
	}{
		{0, 0, 0, gossip.Shortage{}, false}, // 0: never
		{1 * s, 1000, 1000, gossip.Shortage{}, false},
		{2 * s, 999, 1000, gossip.Shortage{Free: 999, Reserve: 1000}, true},
		{3 * s, 874, 1000, gossip.Shortage{Free: 999, Reserve: 1000}, false}, // not a step less
		{4 * s, 873, 1000, gossip.Shortage{Free: 873, Reserve: 1000}, false},
		{5 * s, 1000, 1000, gossip.Shortage{Free: 1000, Reserve: 1000}, false}, // not enough
		{90 * s, 1249, 1000, gossip.Shortage{Free: 1249, Reserve: 1000}, false},
		{91 * s, 1250, 1000, gossip.Shortage{Free: 1249, Reserve: 1000}, false}, // not for long enough
		{120 * s, 1250, 1000, gossip.Shortage{Free: 1249, Reserve: 1000}, false},
		{120*s + 1, 1249, 1000, gossip.Shortage{Free: 1249, Reserve: 1000}, false},
		{121 * s, 1250, 1000, gossip.Shortage{Free: 1249, Reserve: 1000}, false},
		{151*s - 1, 1250, 1000, gossip.Shortage{Free: 1249, Reserve: 1000}, false},
		{151 * s, 1250, 1000, gossip.Shortage{}, true},
		{152 * s, 1000, 1000, gossip.Shortage{}, false},
		{153 * s, 5, math.MaxUint64, gossip.Shortage{Free: 5, Reserve: math.MaxUint64}, true},
		{154 * s, 5, 0, gossip.Shortage{}, true},
	} {
		if changed := r.look(c.at, c.free, c.reserve, window); changed != c.changed || r.shortage != c.want {
			t.Errorf("after %v, with %d of %d: %+v, changed %v; want %+v, %v", c.at, c.free, c.reserve, r.shortage,
				changed, c.want, c.changed)
		}
	}
}
