package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"slices"
	"testing"

	"github.com/pathlockd/pathlockd/bench/load"
	"github.com/pathlockd/pathlockd/wire"
)

// TestCluster runs every part for a moment: each must have figures, and nothing may stay.
func TestCluster(t *testing.T) {
	dir := t.TempDir()
	var out, log bytes.Buffer
	if code := do(t.Context(), []string{"cluster", "--short", "--json", "--dir", dir}, &out, &log); code != exitOK {
		t.Fatalf("exit code %d\n%s", code, log.String())
	}
	var r clusterReport
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	var rows []string
	for _, row := range r.Rows {
		rows = append(rows, row.Workload+", "+row.Where)
		if row.PerSecond <= 0 || row.OfOne <= 0 || row.P50 <= 0 || row.P99 < row.P50 || row.P999 < row.P99 ||
			row.Max < row.P999 {
			t.Errorf("%+v", row)
		}
	}
	want := []string{
		"pairs 1x1, one node", "pairs 1x1, three, leader", "pairs 1x1, three, forwarded",
		"pairs 4x4, one node", "pairs 4x4, three, leader", "pairs 4x4, three, forwarded",
		"hot mutex, one node", "hot mutex, three, all",
	}
	if !slices.Equal(rows, want) {
		t.Errorf("rows %q", rows)
	}
	if len(r.Detours) != 2 {
		t.Errorf("%d comparisons of forwarded requests", len(r.Detours))
	}
	if f := r.Failover; f == nil || f.Rounds != 1 || f.Logs < 1 || f.Median <= 0 || f.Max < f.Median {
		t.Errorf("fail-over %+v", f)
	}
	if i := r.Idle; i == nil || len(i.One) != 1 || len(i.Three) != 3 {
		t.Errorf("idle %+v", i)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("it left %v, %v", left, err)
	}
}

// TestClusterUsage: what makes no sense is refused before anything starts.
func TestClusterUsage(t *testing.T) {
	for _, args := range [][]string{
		{"--shapes", "0x1"}, {"--shapes", "16"}, {"--shapes", "1x1,"}, {"--shapes", "4096x4096"}, {"--turns", "0"},
		{"--rounds", "0"}, {"--only", "("},
	} {
		if code := do(t.Context(), append([]string{"cluster"}, args...), io.Discard, io.Discard); code != exitUsage {
			t.Errorf("%q: exit code %d", args, code)
		}
	}
}

// TestClusterVerdict: budgets decide, and a short run judges none.
func TestClusterVerdict(t *testing.T) {
	short, ok := statusShort, statusOK
	for _, tt := range []struct {
		r    clusterReport
		well bool
	}{
		{clusterReport{}, true},
		{clusterReport{Failover: &failover{Status: ok}, Idle: &idleNodes{Status: ok}}, true},
		{clusterReport{Failover: &failover{Status: short}, Idle: &idleNodes{Status: ok}}, false},
		{clusterReport{Failover: &failover{Status: ok}, Idle: &idleNodes{Status: short}}, false},
		{clusterReport{Failover: &failover{Status: statusFigure}, Idle: &idleNodes{Status: statusFigure}, Short: true},
			true},
	} {
		if got := tt.r.well(); got != tt.well {
			t.Errorf("%+v: well is %t", tt.r, got)
		}
	}
}

// TestClusterStatus: what is said of a budget.
func TestClusterStatus(t *testing.T) {
	b := &clusterBench{report: &clusterReport{}}
	if got := b.verdict(true); got != statusOK {
		t.Errorf("a budget that is kept: %s", got)
	}
	if got := b.verdict(false); got != statusShort {
		t.Errorf("a budget that is not kept: %s", got)
	}
	b.report.Short = true
	if got := b.verdict(false); got != statusFigure {
		t.Errorf("in a short run: %s", got)
	}
}

// TestLayout: who is asked for what. Direct targets lead their namespaces, forwarded ones
// none of them, and no namespace is asked for twice.
func TestLayout(t *testing.T) {
	l := layout{leaders: []int{0, 2, 1, 2}}
	for ns := range load.Namespaces {
		l.logs = append(l.logs, ns%4)
	}
	addrs := []string{"a", "b", "c"}
	for away, forwarded := range []bool{false, true, true} {
		asked := make(map[int]bool)
		for _, target := range l.targets(addrs, away) {
			for _, ns := range target.Namespaces {
				if asked[ns] {
					t.Errorf("%d away: namespace %d is asked for twice", away, ns)
				}
				asked[ns] = true
				if leader := addrs[l.leaders[l.logs[ns]]]; (leader != target.Addr) != forwarded {
					t.Errorf("%d away: namespace %d is led by %s and asked from %s", away, ns, leader, target.Addr)
				}
			}
		}
		if len(asked) != load.Namespaces {
			t.Errorf("%d away: %d namespaces are asked for", away, len(asked))
		}
	}
	if got := l.busiest(); got != 2 {
		t.Errorf("node %d leads most", got)
	}
	if l.pathIn(3) != failoverPaths+3 || l.pathIn(9) != -1 {
		t.Errorf("paths %d, %d", l.pathIn(3), l.pathIn(9))
	}
}

// TestMisplaced: a cluster is in place when all of it is.
func TestMisplaced(t *testing.T) {
	status := func(change func(*wire.ClusterStatus)) *wire.ClusterStatus {
		s := &wire.ClusterStatus{Healthy: true, Nodes: make([]wire.NodeStatus, 3),
			Settings: wire.ClusterSettings{ReplicationFactor: 3}, Logs: []wire.LogStatus{
				{Name: "1", Leader: "a", Target: []string{"a", "b", "c"}, Voters: make([]wire.ReplicaStatus, 3)},
			}}
		change(s)
		return s
	}
	for name, change := range map[string]func(*wire.ClusterStatus){
		"a node is missing":     func(s *wire.ClusterStatus) { s.Nodes = s.Nodes[1:] },
		"it is not healthy":     func(s *wire.ClusterStatus) { s.Healthy = false },
		"another node leads":    func(s *wire.ClusterStatus) { s.Logs[0].Leader = "b" },
		"nobody leads":          func(s *wire.ClusterStatus) { s.Logs[0].Leader = "" },
		"a replica is missing":  func(s *wire.ClusterStatus) { s.Logs[0].Voters = s.Logs[0].Voters[1:] },
		"the target is unknown": func(s *wire.ClusterStatus) { s.Logs[0].Target = nil },
	} {
		if misplaced(status(change), 3) == "" {
			t.Errorf("%s, and it counts as in place", name)
		}
	}
	if why := misplaced(status(func(*wire.ClusterStatus) {}), 3); why != "" {
		t.Errorf("in place, and: %s", why)
	}
}
