package scale

import (
	"github.com/pathlockd/pathlockd/groups/place"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"
)

func TestTry(t *testing.T) {
	nodes, _ := strconv.Atoi(os.Getenv("N"))
	logs, _ := strconv.Atoi(os.Getenv("L"))
	for _, s := range Scenarios {
		if !s.Fits(nodes) || os.Getenv("S") != "" && os.Getenv("S") != s.Name {
			continue
		}
		b := time.Now()
		r := s.Play(Config{Nodes: nodes, Logs: logs, Factor: 3, Seed: 1})
		t.Logf("%v %s unsettled=%q %v", time.Since(b), r.String(), r.Unsettled, r.Violations)
	}
}

func TestDebug(t *testing.T) {
	for _, s := range Scenarios {
		if s.Name != os.Getenv("S") {
			continue
		}
		w := New(Config{Nodes: 50, Logs: 256, Factor: 3, Seed: 1}, 50)
		s.happen(w)
		t.Log(w.now, w.Stats.Added)
		w.Settle(20 * time.Minute)
		t.Log(w.Settled())
		for _, n := range w.nodes {
			miss := ""
			for _, o := range w.nodes {
				if n.sees[o.idx] == 0 {
					miss += " " + o.name
				}
			}
			np := ""
			for _, o := range w.nodes {
				if v := n.view.Nodes[o.name]; !v.Stable || !v.Steady {
					np += " " + o.name
				}
			}
			if miss != "" || np != "" {
				t.Logf("%s sees not%s; not stable/steady%s up %v due %v now %v next %v", n.name, miss, np, n.up, n.due, w.now, n.view.Next)
			}
		}
	}
}

func TestDebug2(t *testing.T) {
	w := New(Config{Nodes: 50, Logs: 256, Factor: 3, Seed: 1}, 50)
	for _, s := range Scenarios {
		if s.Name == "roll" {
			s.happen(w)
		}
	}
	w.Settle(20 * time.Minute)
	var names []string
	for _, n := range w.nodes {
		names = append(names, n.name)
	}
	lay := w.layout(sortedNames(names))
	for _, l := range w.logs {
		if l.leader.node.name == lay[l.id][0] {
			continue
		}
		n := l.leader.node
		s := place.Plan(l.seen(), n.layout[l.id], n.view.Nodes)
		t.Logf("log %d led by %s serving %v want %v; its layout %v: %v; placed %d due %v now %v; view %+v", l.id, n.name, l.serving, lay[l.id], n.layout[l.id], s, len(n.view.Placed), n.due, w.now, n.view.Nodes[lay[l.id][0]])
		a, b := n.sched.Open()
		t.Logf("open %d %d, leads %d", a, b, len(n.leads))
	}
}
func sortedNames(s []string) []string { slices.Sort(s); return s }
