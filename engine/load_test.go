package engine

import (
	"fmt"
	"strings"
	"testing"

	"github.com/pathlockd/pathlockd/wire"
)

// TestLoadRefuses: rows that no state could have written stop a start instead of
// making a state that breaks the rules later.
func TestLoadRefuses(t *testing.T) {
	key := string(appendKey(nil, "h:/a", "h:/a/x"))
	hold := hold{owner: "A", token: 1}
	_, holdRow := hold.row(nil)
	w := waiter{owner: "B", ns: "h:/a", wants: []want{{key: key}}}
	for _, c := range []struct {
		name string
		row  string
		val  []byte
		want string // in the error
	}{
		{"no table", "", nil, "without a table"},
		{"unknown table", "?", wire.AppendArray(nil, 0), "unknown table"},
		{"cut short", string(tableHold) + key, holdRow[:len(holdRow)-3], "row"},
		{"a hold without a lease", string(tableHold) + key, holdRow, `"h:/a/x" is held by "A", which has no lease`},
		{"a waiter without an ownership record", string(tableWaiter) + string(appendSeq(nil, 7)), w.row(nil),
			`waiter 7 of "B" has no ownership record`},
	} {
		s := New(DefaultConfig(), nil, nil)
		err := s.Load([]byte(c.row), c.val)
		if err == nil {
			err = s.Loaded()
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want an error with %q", c.name, err, c.want)
		}
	}
}

// TestFloorsMerge: over their limit the floors of moved subtrees become one for
// the whole group, which is at least every one of them.
func TestFloorsMerge(t *testing.T) {
	s := New(DefaultConfig(), nil, nil)
	var out Output
	for i := range maxFloors + 1 {
		req := wire.Request{Op: wire.OpOpen, Namespace: fmt.Sprintf("h:/a/%d", i), Token: int64(10 + i)}
		s.Apply(Clock{Now: 1}, &Command{Req: &req}, &out)
		if len(s.floors) > maxFloors {
			t.Fatalf("%d floors after %d moves, at most %d are allowed", len(s.floors), i+1, maxFloors)
		}
	}
	for _, path := range []string{"h:/a/0/x", "h:/a/4096", "g:/never/moved"} {
		if res := s.View().Inspect("", path); !res.Flag || res.Token != 10+maxFloors {
			t.Errorf("the fence of %s is %d %v, want %d", path, res.Token, res.Flag, 10+maxFloors)
		}
	}
}

// TestLoadNarrowHandlerRoot: a policy on "h:/" that an early build wrote held that one
// path. Read as one on the whole handler it would take all paths out of the namespaces
// that they are locked in.
func TestLoadNarrowHandlerRoot(t *testing.T) {
	err := NewSystem().Load([]byte(rowRoot+"h:/"), wire.AppendArray(nil, 0))
	if err == nil || !strings.Contains(err.Error(), "delete the policy") {
		t.Errorf("the row of an early build: %v", err)
	}
	s := NewSystem()
	s.roots["h:/"], s.roots["h:/a"] = true, true
	again := NewSystem()
	for row, val := range s.AllRows() {
		if err := again.Load([]byte(row), val); err != nil {
			t.Fatal(err)
		}
	}
	if got := again.Routes(1).Resolve("h:/b"); got != "h:/" {
		t.Errorf("loaded again, h:/b is in %s", got)
	}
}
