package status

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/groups/gossip"
	"github.com/pathlockd/pathlockd/groups/place"
	"github.com/pathlockd/pathlockd/wire"
)

// cluster0 is a survey of a settled cluster: three nodes n0 to n2, the system log and
// logs 2 to 4, each with a voter on every node; n0 leads the system log and log 4.
func cluster0() *Survey {
	s := &Survey{Format: 1, Marks: make(map[string]wire.Drain)}
	var ids []string
	for i := range 3 {
		id := fmt.Sprintf("n%d", i)
		ids = append(ids, id)
		s.Nodes = append(s.Nodes, Node{
			ID: id, Host: "disk-" + id, Alive: true, Since: time.Hour, Stable: true, Placed: true, Native: id +
				":50050", Formats: [2]uint32{1, 1},
		})
	}
	for i := range 4 {
		l := Log{
			Log:    place.Log{ID: uint64(1 + i), Version: 7, Self: uint64(1 + i%3), Applied: 5000},
			Leader: ids[i%3], Term: 3,
			Target: ids, Step: "settled: 3 voters where they belong", Since: time.Minute,
		}
		for r, id := range ids {
			l.Replicas = append(l.Replicas, place.Replica{ID: uint64(1 + r), Node: id, Disk: "disk-" + id, Voting: true,
				Applied: 5000})
		}
		s.Logs = append(s.Logs, l)
	}
	return s
}

// seen is what operators are told of a survey.
func (s *Survey) seen() *wire.ClusterStatus {
	return s.Report("", "", wire.ClusterSettings{ReplicationFactor: 3})
}

func (s *Survey) die(i int) { s.Nodes[i].Alive = false }

func (s *Survey) replica(log, i int) *place.Replica { return &s.Logs[log].Replicas[i] }

// join adds a node that has no replicas.
func (s *Survey) join(id string) *Node {
	s.Nodes = append(s.Nodes, Node{ID: id, Host: "disk-" + id, Alive: true, Since: time.Second,
		Formats: [2]uint32{1, 1}})
	return &s.Nodes[len(s.Nodes)-1]
}

// joined adds one that counts.
func (s *Survey) joined(id string) {
	n := s.join(id)
	n.Stable, n.Placed = true, true
}

// TestVerdict: what is told of a cluster, and whether that is healthy.
func TestVerdict(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		change   func(s *Survey)
		problems []string // each names its problem, in order
		warnings []string
	}{
		{name: "settled", change: func(*Survey) {}},
		{"a node is not seen", func(s *Survey) { s.die(2) },
			[]string{"each of the logs system, 2, 3 and 4 has a voter on n2, which is not seen: start it, or give " +
				"it up for good with pathlock node remove n2"}, nil},
		{"no leader, a majority away", func(s *Survey) { s.die(1); s.die(2); s.Logs[2].Leader = "" },
			[]string{"system, 2 and 4 has a voter on n1",
				"log 3 has no leader, because most of its voters are away: start n1 and n2 with their data"}, nil},
		{"no leader, one away", func(s *Survey) { s.die(1); s.Logs[1].Leader = "" },
			[]string{"a voter on n1", "log 2 has no leader while n1 is away"}, nil},
		{"no leader, all there", func(s *Survey) { s.Logs[0].Leader = "" },
			[]string{"the system log has no leader known here"}, nil},
		{"a leader that has told nothing", func(s *Survey) { s.Logs[3].Target, s.Logs[3].Replicas = nil, nil },
			[]string{"log 4 has a leader that has not told of it yet"}, nil},
		{"a leader that is not seen, and told nobody who else votes", func(s *Survey) {
			s.die(0)
			s.Logs = s.Logs[:1]
			s.Logs[0].Target, s.Logs[0].Replicas = nil, nil
		}, []string{"the system log was led by n0, which is not seen, and nobody is known here to lead it since: if " +
			"most of its voters are left they elect one in a moment; if this lasts, ask another node (pathlock " +
			"status); if none knows better, start n0 with its data"}, nil},
		{"a leader that this node does not reach", func(s *Survey) {
			s.Logs = s.Logs[:1]
			s.Logs[0].Target, s.Logs[0].Replicas, s.Logs[0].Leader, s.Logs[0].Last = nil, nil, "", "n0"
		}, []string{"the system log was led by n0, which this node does not reach, and nobody is known here to " +
			"lead it since"}, nil},
		{"a leader whose writes do not pass", func(s *Survey) { s.Logs[2].Stalled = 4 * time.Second },
			[]string{"log 3 is led by n2, and what it proposed 4 s ago is not applied yet, so writes wait"}, nil},
		{"a voter behind", func(s *Survey) { s.replica(1, 2).Applied = 3999 },
			[]string{"log 2 has a voter on n2 that is behind"}, nil},
		{name: "a voter just not behind", change: func(s *Survey) { s.replica(1, 2).Applied = 4000 }},
		{"a voter that told nothing yet", func(s *Survey) { s.Logs[1].Applied, s.replica(1, 2).Applied = 10, 0 },
			[]string{"log 2 has a voter on n2 that is behind"}, nil},
		{"a voter on a disk that is gone", func(s *Survey) { s.Nodes[2].Host = "new-disk" },
			[]string{"each of the logs system, 2, 3 and 4 has a voter on n2 that is behind"}, nil},
		{"a voter too few", func(s *Survey) { s.Logs[1].Replicas = s.Logs[1].Replicas[:2] },
			[]string{"log 2 is to get a voter on n2"}, nil},
		{"a voter that catches up", func(s *Survey) { s.replica(1, 2).Voting, s.replica(1, 2).Applied = false, 7 },
			[]string{"log 2 gets a voter on n2, which is still catching up"}, nil},
		{"a voter due on a node not seen", func(s *Survey) {
			s.die(2)
			s.Logs = s.Logs[1:2]
			s.Logs[0].Replicas = s.Logs[0].Replicas[:2]
		},
			[]string{"log 2 should have a voter on n2, which is not seen"}, []string{"n2 is away and holds nothing"}},
		{"as many voters, and one elsewhere", func(s *Survey) {
			s.joined("n3")
			s.replica(1, 2).Node, s.replica(1, 2).Disk = "n3", "disk-n3"
		}, []string{"log 2 is to get a voter on n2"}, nil},
		{"a voter too many", func(s *Survey) {
			s.joined("n3")
			s.Logs[1].Replicas = append(s.Logs[1].Replicas, place.Replica{ID: 4, Node: "n3", Disk: "disk-n3",
				Voting: true, Applied: 5000})
		}, []string{"log 2 has a voter that belongs elsewhere"}, nil},
		{name: "a learner too many", change: func(s *Survey) {
			s.joined("n3")
			s.Logs[1].Replicas = append(s.Logs[1].Replicas,
				place.Replica{ID: 4, Node: "n3", Disk: "disk-n3", Applied: 5})
		}},
		{"a replica on a node nobody saw", func(s *Survey) { s.replica(1, 2).Node = "n9" },
			[]string{"log 2 has a voter on n9, which is not seen"}, nil},
		{"fewer nodes than voters", func(s *Survey) {
			s.Nodes = s.Nodes[:1]
			for i := range s.Logs {
				s.Logs[i].Leader, s.Logs[i].Target, s.Logs[i].Replicas = "n0", []string{"n0"}, s.Logs[i].Replicas[:1]
			}
		}, nil, []string{"replication_factor is 3 and logs can be placed on 1 node, so each has 1 voter: start 2 " +
			"more nodes with seed_nodes"}},
		{"nodes that will raise the voters", func(s *Survey) {
			for i := range s.Logs {
				s.Logs[i].Leader, s.Logs[i].Target, s.Logs[i].Replicas = "n0", []string{"n0"}, s.Logs[i].Replicas[:1]
			}
			s.Nodes[1].Stable, s.Nodes[2].Stable, s.Nodes[1].Placed, s.Nodes[2].Placed = false, false, false, false
		}, []string{"n1, n2 are joining, and each log will have 3 voters instead of 1: wait"}, nil},
		{"a node that will not raise the voters", func(s *Survey) {
			for i := range s.Logs {
				s.Logs[i].Leader, s.Logs[i].Target, s.Logs[i].Replicas = "n0", []string{"n0"}, s.Logs[i].Replicas[:1]
			}
			s.Nodes = s.Nodes[:2]
			s.Nodes[1].Stable, s.Nodes[1].Placed = false, false
		}, []string{"n1 is joining, and logs are not laid out with it yet: wait"}, nil},
		{"a fourth node joins", func(s *Survey) { s.join("n3") }, []string{"n3 is joining, and logs are not laid out"},
			nil},
		{"a leader that has not laid out with a node yet", func(s *Survey) {
			s.joined("n3")
			s.Logs[2].Placed = []string{"n0", "n1", "n2"}
		}, []string{"n3 is joining, and logs are not laid out"}, nil},
		{"a fourth node is placed", func(s *Survey) {
			s.joined("n3")
			s.Logs[2].Placed = []string{"n0", "n1", "n2", "n3"}
		}, nil, nil},
		{"drained and empty", func(s *Survey) { s.joined("n3"); s.Marks["n3"] = wire.DrainReplicas },
			nil, []string{"n3 is drained and holds nothing: stop it and say pathlock node remove n3, or take it back"}},
		{"drained and perhaps empty", func(s *Survey) {
			s.joined("n3")
			s.Marks["n3"] = wire.DrainReplicas
			s.Logs[3].Target, s.Logs[3].Replicas = nil, nil
		}, []string{"log 4 has a leader that has not told"}, nil},
		{"removed and alive", func(s *Survey) { s.join("n3"); s.Marks["n3"] = wire.DrainRemoved },
			nil, []string{"n3 was removed, holds nothing and still runs"}},
		{"removed and not empty", func(s *Survey) { s.Marks["n2"] = wire.DrainRemoved },
			nil, []string{"n2 was removed and still holds 4 replicas", "logs can be placed on 2 nodes"}},
		{"away and empty", func(s *Survey) { s.join("n3").Alive = false },
			nil, []string{"n3 is away and holds nothing: start it, or have it forgotten with pathlock node remove n3"}},
		{"two versions", func(s *Survey) { s.Nodes[1].Formats = [2]uint32{1, 2} },
			nil, []string{"n0 works with formats up to 1, others up to 2"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := cluster0()
			c.change(s)
			doc := s.seen()
			if doc.Healthy != (c.problems == nil) {
				t.Errorf("healthy %v", doc.Healthy)
			}
			say := func(what string, got, want []string) {
				t.Helper()
				if !slices.EqualFunc(got, want, strings.Contains) {
					t.Errorf("%s:\n got  %q\n want %q", what, got, want)
				}
			}
			say("problems", doc.Problems, c.problems)
			say("warnings", doc.Warnings, c.warnings)
			for _, sentence := range slices.Concat(doc.Problems, doc.Warnings) {
				if strings.Contains(sentence, "%") {
					t.Errorf("%q is not filled in", sentence)
				}
			}
		})
	}
}

// TestNodeStates: what a node is told to be in.
func TestNodeStates(t *testing.T) {
	t.Parallel()
	s := cluster0()
	s.Marks["n1"], s.Nodes[2].Drain = wire.DrainLeads, place.DrainLeads
	s.join("n3")
	s.Marks["n3"] = wire.DrainNone
	s.join("n4").Stable = true
	s.Marks["n4"] = wire.DrainReplicas
	s.join("n5").Alive = false
	s.join("n6").Alive = false
	s.Marks["n6"] = wire.DrainRemoved
	s.Marks["n7"] = wire.DrainRemoved
	s.Marks["n8"] = wire.DrainReplicas
	s.replica(0, 2).Node = "n9"
	got := make(map[string]string)
	for _, n := range s.seen().Nodes {
		got[n.NodeID] = n.State + " " + n.Drain
	}
	want := map[string]string{
		"n0": "member none", "n1": "draining leads", "n2": "draining leads", "n3": "joining none",
		"n4": "leaving replicas",
		"n5": "dead none", "n8": "unknown replicas", "n9": "unknown none", // n6 and n7 are forgotten
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("\n got  %v\n want %v", got, want)
	}
}

// TestReportCounts: replicas and leaderships are counted with their nodes, and a
// replica's lag is what it is behind.
func TestReportCounts(t *testing.T) {
	t.Parallel()
	s := cluster0()
	s.replica(1, 2).Applied, s.replica(1, 1).Voting = 4990, false
	s.replica(1, 0).Applied = 5001 // it told later than the leader
	doc := s.seen()
	for i, want := range []struct{ replicas, leads int }{{4, 2}, {4, 1}, {4, 1}} {
		if n := doc.Nodes[i]; n.Replicas != want.replicas || n.Leads != want.leads {
			t.Errorf("%s: %d replicas, %d leads, want %v", n.NodeID, n.Replicas, n.Leads, want)
		}
	}
	l := doc.Logs[1]
	if l.Name != "2" || doc.Logs[0].Name != "system" || len(l.Voters) != 2 || len(l.Learners) != 1 ||
		l.Voters[1].Lag != 10 || l.Voters[0].Lag != 0 {
		t.Errorf("log 2 is %+v", l)
	}
}

// TestChecks: what operators may ask of which cluster, and what they are told.
func TestChecks(t *testing.T) {
	t.Parallel()
	drain := func(node string, d wire.Drain) func(*wire.ClusterStatus) (string, *wire.Error) {
		return func(doc *wire.ClusterStatus) (string, *wire.Error) { return MayDrain(doc, node, d) }
	}
	remove := func(node string, force bool) func(*wire.ClusterStatus) (string, *wire.Error) {
		return func(doc *wire.ClusterStatus) (string, *wire.Error) { return MayRemove(doc, node, force) }
	}
	transfer := func(log uint64, node string) func(*wire.ClusterStatus) (string, *wire.Error) {
		return func(doc *wire.ClusterStatus) (string, *wire.Error) { return "", MayTransfer(doc, log, node) }
	}
	for _, c := range []struct {
		name    string
		change  func(s *Survey)
		ask     func(*wire.ClusterStatus) (string, *wire.Error)
		refusal string // "" for none
		note    string
	}{
		{"drain leads", nil, drain("n1", wire.DrainLeads), "", ""},
		{"drain replicas", nil, drain("n1", wire.DrainReplicas), "", "each log will have 1 voter instead of 3"},
		{"drain replicas of four", func(s *Survey) { s.joined("n3") }, drain("n1", wire.DrainReplicas), "", ""},
		{"drain one that is drained", func(s *Survey) { s.Marks["n1"] = wire.DrainReplicas },
			drain("n1", wire.DrainReplicas), "", ""},
		{"drain nobody", nil, drain("n9", wire.DrainLeads),
			`node "n9": there is none of that name; there are n0, n1, n2`, ""},
		{"drain the last to lead", func(s *Survey) {
			s.Marks["n0"], s.Nodes[2].Drain = wire.DrainLeads,
				place.DrainLeads
		},
			drain("n1", wire.DrainLeads), "node n1: no other node is alive that could lead its logs: start another " +
				"one first, or take back what is asked of n0, n2", ""},
		{"drain the replicas though the others lead nothing",
			func(s *Survey) { s.Marks["n0"], s.Marks["n2"] = wire.DrainLeads, wire.DrainLeads },
			drain("n1", wire.DrainReplicas), "", "1 voter"},
		{"drain the last to hold", func(s *Survey) { s.Marks["n0"] = wire.DrainReplicas; s.die(2) },
			drain("n1", wire.DrainReplicas),
			"node n1: no other node is alive that could hold its logs: start another one first, or take back what " +
				"is asked of n0 (node_resume)", ""},
		{"remove one alive", nil, remove("n1", false), "node n1: is alive and holds 4 replicas: drain it first", ""},
		{"remove one alive by force", nil, remove("n1", true), "",
			"it is still alive: stop it once it holds nothing; its 4 replicas are given to other nodes now; each " +
				"log will have 1 voter"},
		{"remove one half drained", func(s *Survey) { s.Marks["n1"] = wire.DrainReplicas }, remove("n1", false),
			"is alive and holds 4 replicas", ""},
		{"remove one that only leads nothing", func(s *Survey) { s.join("n3"); s.Marks["n3"] = wire.DrainLeads },
			remove("n3", false), "is alive and holds 0 replicas", ""},
		{"remove one drained", func(s *Survey) { s.join("n3"); s.Marks["n3"] = wire.DrainReplicas },
			remove("n3", false), "", "it is still alive: stop it"},
		{"remove one perhaps drained", func(s *Survey) {
			s.join("n3")
			s.Marks["n3"], s.Logs[3].Replicas = wire.DrainReplicas, nil
		}, remove("n3", false), "no leader has told yet whether it holds a replica of log 4", ""},
		{"remove one perhaps drained by force", func(s *Survey) {
			s.join("n3")
			s.Marks["n3"], s.Logs[3].Replicas = wire.DrainReplicas, nil
		}, remove("n3", true), "", "it is still alive"},
		{"remove one dead", func(s *Survey) { s.die(2); s.Nodes[2].Stable = false }, remove("n2", false), "",
			"its 4 replicas are given to other nodes now"},
		{"remove nobody", nil, remove("n9", true), "there is none of that name", ""},
		{"remove the last by force", func(s *Survey) { s.die(1); s.die(2) }, remove("n0", true),
			"no other node is alive that could hold its logs", ""},
		{"transfer", nil, transfer(2, "n2"), "", ""},
		{"transfer the system log", nil, transfer(1, "n2"), "", ""},
		{"transfer to its leader, drained", func(s *Survey) { s.Marks["n1"] = wire.DrainLeads },
			transfer(2, "n1"), "", ""},
		{"transfer no log", nil, transfer(5, "n2"),
			"log 5: there is none of that number; there are 1 (the system log) to 4", ""},
		{"transfer to nobody", nil, transfer(2, "n9"), "there is none of that name", ""},
		{"transfer to a node without a voter", func(s *Survey) { s.join("n3") }, transfer(2, "n3"),
			"node n3: holds no voter of log 2; its voters are on n0, n1, n2", ""},
		{"transfer to one away", func(s *Survey) { s.die(2) }, transfer(2, "n2"),
			"node n2: is not seen: start it first", ""},
		{"transfer to one drained", func(s *Survey) { s.Nodes[2].Drain = place.DrainLeads }, transfer(2, "n2"),
			"node n2: is drained", ""},
		{"transfer to one behind", func(s *Survey) { s.replica(1, 2).Applied = 10 }, transfer(2, "n2"),
			"node n2: its voter of log 2 is 4990 entries behind", ""},
		{"transfer what is not known", func(s *Survey) { s.Logs[1].Replicas = nil }, transfer(2, "n2"),
			"log 2: its leader has not told yet", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := cluster0()
			if c.change != nil {
				c.change(s)
			}
			note, err := c.ask(s.seen())
			switch {
			case c.refusal == "" && err != nil:
				t.Fatalf("refused: %v", err)
			case c.refusal != "" && (err == nil || err.Code != wire.FailedPrecondition ||
				!strings.Contains(err.Message, c.refusal)):
				t.Errorf("got %v, want %q", err, c.refusal)
			}
			if !strings.Contains(note, c.note) || (note == "") != (c.note == "") {
				t.Errorf("note %q, want %q", note, c.note)
			}
		})
	}
}

// TestShortVerdict: a node that is short is a problem, and the cluster as healthy as its
// logs are.
func TestShortVerdict(t *testing.T) {
	t.Parallel()
	const reserve = 128 << 20
	s := cluster0() // n0 leads two logs, n1 and n2 one each
	s.Nodes[0].Shortage = gossip.Shortage{Free: 60 << 20, Reserve: reserve}
	s.Nodes[1].Shortage = gossip.Shortage{Free: 200 << 20, Reserve: reserve}
	s.Nodes[2].Shortage = gossip.Shortage{Free: 1 << 20, Reserve: reserve}
	s.Logs[2].Leader = "n1"
	doc := s.seen()
	problems := []string{
		"n0 has 60 MiB free in data_dir, below disk_reserve_bytes (128 MiB), and what it leads (2 logs) takes no " +
			"writes: make room there",
		"n2 has 1 MiB free in data_dir, below disk_reserve_bytes (128 MiB), and others lead in its place: " +
			"make room there",
	}
	notes := []string{"n1 has 200 MiB free in data_dir again, and disk_reserve_bytes is 128 MiB: it leads logs " +
		"again once a quarter more than that has been free for stability_window_secs"}
	if !doc.Healthy || !slices.Equal(doc.Problems, problems) || !slices.Equal(doc.Warnings, notes) {
		t.Errorf("healthy %v\nproblems %q\nwarnings %q", doc.Healthy, doc.Problems, doc.Warnings)
	}
	if n := doc.Nodes[0]; n.DiskFree != 60<<20 || n.DiskReserve != reserve {
		t.Errorf("told of n0: %d of %d", n.DiskFree, n.DiskReserve)
	}
	s.Nodes[0].Alive = false
	if doc := s.seen(); doc.Healthy || len(doc.Problems) != 2 || !strings.Contains(doc.Problems[0], "not seen") ||
		doc.Problems[1] != problems[1] {
		t.Errorf("with n0 away: healthy %v, problems %q", doc.Healthy, doc.Problems)
	}
}
