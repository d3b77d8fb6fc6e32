package gossip

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/memberlist"
)

// said is what memberlist hands over about a record at an address.
func said(r Record, port uint16) *memberlist.Node {
	return &memberlist.Node{Name: r.name(), Addr: net.IPv4(127, 0, 0, 1), Port: port, Meta: r.encode()}
}

// writtenDown is a table whose changes are written down.
func writtenDown() (*table, *[]string) {
	var all []string
	own := sample()
	own.NodeID, own.HostID = "node-1", hostID(1)
	return newTable(own, func(what string, s Sighting) { all = append(all, what+" "+s.NodeID) }), &all
}

// hear admits and takes over, as memberlist has it.
func (t *table) hear(r Record, port uint16) *refusal {
	n := said(r, port)
	why := t.admit(n)
	if why == nil {
		t.heard(n)
	}
	return why
}

// TestTable goes through the life of node-7, as it is heard of, in order and out of
// order.
func TestTable(t *testing.T) {
	tab, changes := writtenDown()
	first := sample()
	first.State = Member
	second, third, replaced := first, first, first
	second.Incarnation++
	third.Incarnation += 2
	replaced.HostID, replaced.Incarnation = hostID(8), 1
	updated := second
	updated.State = Draining
	stranger, ahead := first, first
	stranger.ClusterID = clusterB
	ahead.FormatMin, ahead.FormatMax = 3, 3
	for i, step := range []struct {
		do     func() *refusal
		want   error
		change string
	}{
		{func() *refusal { return tab.hear(stranger, 1) }, ErrCluster, ""},
		{func() *refusal { return tab.hear(ahead, 1) }, ErrFormat, ""},
		{func() *refusal { return tab.hear(Record{}, 1) }, errAsking, ""},
		{func() *refusal { return tab.hear(first, 1) }, nil, "joined"},
		{func() *refusal { return tab.admit(said(first, 1)) }, nil, ""},
		{func() *refusal { return tab.hear(replaced, 2) }, ErrNodeID, ""},
		{func() *refusal { return tab.hear(second, 3) }, nil, "restarted"},
		{func() *refusal { return tab.hear(first, 1) }, ErrStale, ""},
		{func() *refusal { tab.gone(said(first, 1)); return nil }, nil, ""}, // its former self
		{func() *refusal { return tab.hear(updated, 3) }, nil, "changed"},
		{func() *refusal { tab.gone(said(updated, 3)); return nil }, nil, "gone"},
		{func() *refusal { tab.gone(said(updated, 3)); return nil }, nil, ""},
		{func() *refusal { return tab.hear(first, 1) }, ErrStale, ""}, // a copy from before
		{func() *refusal { return tab.hear(updated, 3) }, nil, "back"},
		{func() *refusal { tab.gone(said(updated, 3)); return nil }, nil, "gone"},
		{func() *refusal { return tab.hear(third, 4) }, nil, "back"},
		{func() *refusal { tab.gone(said(third, 4)); return nil }, nil, "gone"},
		{func() *refusal { return tab.hear(replaced, 2) }, nil, "replaced"},
		{func() *refusal { return tab.hear(third, 4) }, ErrNodeID, ""},
	} {
		before, past := len(*changes), time.Now().Add(-time.Hour)
		if e := tab.mu.nodes["node-7"]; e != nil {
			e.since = past
		}
		why := step.do()
		if (why == nil) != (step.want == nil) || why != nil && !errors.Is(why, step.want) {
			t.Fatalf("step %d: refused for %v, want %v", i, why, step.want)
		}
		got := strings.Join((*changes)[before:], ", ")
		want := ""
		if step.change != "" {
			want = step.change + " node-7"
		}
		if got != want {
			t.Fatalf("step %d: changes %q, want %q", i, got, want)
		}
		// Only who was not there begins to be, or the other way round.
		begins := slices.Contains([]string{"joined", "gone", "back", "replaced"}, step.change)
		if e := tab.mu.nodes["node-7"]; e != nil && e.since.Equal(past) == begins {
			t.Fatalf("step %d: its time begins anew is %v, want %v", i, !begins, begins)
		}
	}
	list := tab.all()
	if len(list) != 1 || list[0].Record != replaced || list[0].GossipAddr != "127.0.0.1:2" || !list[0].Alive {
		t.Errorf("the table is %+v", list)
	}
}

// TestTableOfOneself hears of its own node id.
func TestTableOfOneself(t *testing.T) {
	tab, changes := writtenDown()
	own := tab.self()
	later, former, other := own, own, own
	later.Incarnation++
	former.Incarnation--
	other.HostID = hostID(9)
	for _, c := range []struct {
		rec  Record
		want error
	}{{own, nil}, {later, ErrStale}, {former, ErrStale}, {other, ErrNodeID}} {
		if why := tab.hear(c.rec, 1); (why == nil) != (c.want == nil) || why != nil && !errors.Is(why, c.want) {
			t.Errorf("%+v: %v, want %v", c.rec, why, c.want)
		}
	}
	if len(*changes) > 0 || len(tab.all()) > 0 {
		t.Errorf("it took itself in: %q", *changes)
	}
}

// TestTableIsBounded fills the table. Who has been gone longest makes room; nobody
// does when all are there.
func TestTableIsBounded(t *testing.T) {
	tab, _ := writtenDown()
	rec := func(i int) Record {
		r := sample()
		r.NodeID, r.HostID = fmt.Sprintf("n-%d", i), hostID(i)
		return r
	}
	for i := range maxMembers {
		if why := tab.hear(rec(i), uint16(i+1)); why != nil {
			t.Fatal(why)
		}
	}
	if why := tab.hear(rec(maxMembers), 1); !errors.Is(why, ErrFull) {
		t.Fatalf("one more than the limit: %v", why)
	}
	for _, i := range []int{5, 3, 9, 8, 7, 1, 2, 30, 20, 10} {
		tab.gone(said(rec(i), uint16(i+1)))
	}
	if why := tab.hear(rec(maxMembers), maxMembers+1); why != nil {
		t.Fatal(why)
	}
	if tab.mu.nodes["n-5"] != nil || len(tab.mu.nodes) != maxMembers {
		t.Error("not the one that was gone longest is forgotten")
	}
	alive, missed := tab.addresses()
	if len(alive) != maxMembers-9 || len(missed) != 9 {
		t.Errorf("%d alive, missed %v, want 9", len(alive), missed)
	}
}

// TestOwnAddresses decides which seeds are the node itself.
func TestOwnAddresses(t *testing.T) {
	at := netip.MustParseAddrPort
	one := newOwnAddresses(at("127.0.0.1:7"), at("192.0.2.1:70"))
	everywhere := newOwnAddresses(at("[::]:7"), at("192.0.2.1:70"))
	everywhere.machine = append(everywhere.machine, netip.MustParseAddr("192.0.2.9"))
	for addr, want := range map[string][2]bool{
		"127.0.0.1:7":  {true, true},
		"127.0.0.1:8":  {false, false},
		"127.0.0.2:7":  {false, true}, // another node of this machine may be there
		"[::1]:7":      {false, true},
		"192.0.2.1:70": {true, true},
		"192.0.2.1:7":  {false, false},
		"192.0.2.9:7":  {false, true},
		"192.0.2.9:70": {false, false},
	} {
		if got := [2]bool{one.is(at(addr)), everywhere.is(at(addr))}; got != want {
			t.Errorf("%s: own %v, want %v", addr, got, want)
		}
	}
}

// TestLimiter lets each key through once in a while.
func TestLimiter(t *testing.T) {
	l := NewLimiter(time.Hour)
	if !l.Allow("a") || !l.Allow("b") || l.Allow("a") {
		t.Error("not once for each key")
	}
	for i := range 2 * maxKept {
		l.Allow(fmt.Sprint(i))
	}
	if len(l.mu.last) != maxKept {
		t.Errorf("%d keys are kept, the limit is %d", len(l.mu.last), maxKept)
	}
	now := NewLimiter(0)
	for i := range 2 * maxKept {
		if !now.Allow(fmt.Sprint(i)) {
			t.Fatal("what is long ago counts")
		}
	}
}

// TestSender finds the host in memberlist's messages.
func TestSender(t *testing.T) {
	for line, want := range map[string]string{
		"Decrypt packet failed: no installed keys could decrypt the message from=10.0.0.1:5": "10.0.0.1",
		"failed to receive: EOF from=[::1]:5 more":                                           "::1",
		"from=<unknown address>":                                                             "<unknown",
		"nothing":                                                                            "unknown",
	} {
		if got := sender(line); got != want {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
}
