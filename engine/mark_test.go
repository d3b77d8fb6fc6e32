package engine

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/pathlockd/pathlockd/wire"
)

// markNode asks something of a node, under a name whose memory is used again.
func markNode(s *System, node string, d wire.Drain) wire.Result {
	name := []byte(node)
	body, nargs := wire.AppendArgs(nil, &wire.Request{Op: wire.OpMarkNode, Node: string(name), Drain: d})
	var req wire.Request
	if err := wire.DecodeArgs(wire.OpMarkNode, body, nargs, &req); err != nil {
		panic(err)
	}
	var done []Done
	res := s.Apply(Clock{Now: 1}, &Command{Req: &req}, &done)
	for i := range body {
		body[i] = 0xc1 // an entry's memory is used again once it is applied
	}
	return res
}

// reloaded is the state that rows make.
func reloaded(t testing.TB, rows map[string][]byte) *System {
	t.Helper()
	s := NewSystem()
	for row, val := range rows {
		if err := s.Load([]byte(row), val); err != nil {
			t.Fatal(err)
		}
	}
	s.Loaded()
	return s
}

// TestMarks: what operators want of nodes is a map, and stays one through rows
// written one by one and all at once.
func TestMarks(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		s, model, disk := NewSystem(), make(map[string]wire.Drain), make(map[string][]byte)
		for range rapid.IntRange(1, 40).Draw(rt, "steps") {
			node := fmt.Sprintf("pathlockd-%d", rapid.IntRange(0, 5).Draw(rt, "node"))
			d := wire.Drain(rapid.IntRange(0, 3).Draw(rt, "drain"))
			if res := markNode(s, node, d); res.Code != wire.OK {
				rt.Fatalf("mark %s %v: %+v", node, d, res)
			}
			if delete(model, node); d != wire.DrainNone {
				model[node] = d
			}
			if rapid.Bool().Draw(rt, "write") {
				for row, val := range s.TakeChanged() {
					if delete(disk, row); val != nil {
						disk[row] = val
					}
				}
				if got := reloaded(t, disk); got.Digest() != s.Digest() || !maps.Equal(got.Marks(), model) {
					rt.Fatalf("from the rows written: %v, want %v", got.Marks(), model)
				}
			}
			if got := s.Marks(); !maps.Equal(got, model) {
				rt.Fatalf("marks %v, want %v", got, model)
			}
			if got := reloaded(t, s.AllRows()); got.Digest() != s.Digest() || !maps.Equal(got.Marks(), model) {
				rt.Fatalf("from all rows: %v, want %v", got.Marks(), model)
			}
		}
	})
}

// TestMarksAgain: to ask for what is wanted already writes no row.
func TestMarksAgain(t *testing.T) {
	t.Parallel()
	s := NewSystem()
	// The first step writes the clock too.
	for _, step := range []struct {
		d    wire.Drain
		rows int
	}{{wire.DrainNone, 1}, {wire.DrainLeads, 1}, {wire.DrainLeads, 0}, {wire.DrainReplicas, 1}, {wire.DrainNone, 1},
		{wire.DrainNone, 0}} {
		markNode(s, "n1", step.d)
		if rows := s.TakeChanged(); len(rows) != step.rows {
			t.Errorf("%v: writes %d rows, want %d", step.d, len(rows), step.rows)
		}
	}
}

// TestMarksAreTheCallers: what is answered is a copy.
func TestMarksAreTheCallers(t *testing.T) {
	t.Parallel()
	s := NewSystem()
	markNode(s, "n1", wire.DrainLeads)
	clear(s.Marks())
	if len(s.Marks()) != 1 {
		t.Error("a caller changed the state")
	}
}

func TestMarksLimit(t *testing.T) {
	t.Parallel()
	s := NewSystem()
	for i := range MaxMarks {
		if res := markNode(s, fmt.Sprintf("n%d", i), wire.DrainRemoved); res.Code != wire.OK {
			t.Fatalf("mark %d: %+v", i, res)
		}
	}
	before := s.Digest()
	res := markNode(s, "one-more-1", wire.DrainLeads)
	if res.Code != wire.ResourceExhausted || !strings.Contains(res.Message, "4096 nodes") || s.Digest() != before {
		t.Errorf("one more: %+v", res)
	}
	if res := markNode(s, "n7", wire.DrainLeads); res.Code != wire.OK {
		t.Errorf("another mark for a node that has one: %+v", res)
	}
	markNode(s, "n8", wire.DrainNone)
	if res := markNode(s, "one-more-1", wire.DrainLeads); res.Code != wire.OK {
		t.Errorf("after one was taken back: %+v", res)
	}
}
