package conformance_test

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
)

// sights are what the scenarios saw, by interface.
var sights = make(map[string]*seen)

// runs counts the runs of scenarios, so that each has names of its own.
var runs atomic.Int64

// TestScenarios runs every scenario through every interface that has what it needs.
func TestScenarios(t *testing.T) {
	all := load(t)
	reach := make(map[string]face)
	for _, f := range faces {
		s, client := new(seen), f.dial(t, nodes["main"].get(t))
		reach[f.name] = client
		sights[f.name] = s
		want := 0
		for _, scenario := range all {
			if scenario.on(f.name, client) {
				want++
			}
		}
		t.Cleanup(func() { s.missing(t, f.name, client, want) })
	}
	for i, s := range all {
		for _, f := range faces {
			if !s.on(f.name, reach[f.name]) {
				continue // this interface does not have it
			}
			name := fmt.Sprintf("%s/%s:%d %s", f.name, strings.TrimSuffix(s.file, ".txt"), s.line, s.title)
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				n := nodes[s.node]
				if n == nil {
					t.Fatalf("there is no node %q", s.node)
				}
				if n.get(t); n.alone {
					n.turn.Lock()
					defer n.turn.Unlock()
				}
				inTime(t, func(alone testing.TB) (func(), *lifetimes) {
					r := newRunner(alone, f.dial(t, n), names{prefix: fmt.Sprintf("%s%d-%d.", f.name, i, runs.Add(1))})
					return func() { r.carryOut(s, sights[f.name], n.alone) }, &r.lifetimes
				})
			})
		}
	}
}

// counted is how far TestCounterIsOne has counted.
var counted int64

// TestCounterIsOne shows that IncrFencingToken counts from 1, and that all interfaces
// have the one counter (contract.md section 6). No scenario counts on that node.
func TestCounterIsOne(t *testing.T) {
	n := nodes["whole"].get(t)
	for _, f := range faces {
		counted++
		answer, refused := f.dial(t, n).call(t.Context(), "IncrFencingToken", message{})
		if refused != nil || answer["token"] != counted {
			t.Fatalf("%s: %v, %v, want %d", f.name, answer, refused, counted)
		}
	}
}

// TestEveryRPCHasScenarios fails for an RPC that an interface has and no scenario
// asks over it.
func TestEveryRPCHasScenarios(t *testing.T) {
	all := load(t)
	for _, f := range faces {
		client := f.dial(t, nodes["main"].get(t))
		for i := range methods().Len() {
			rpc := string(methods().Get(i).Name())
			if rpc != "Subscribe" && !client.has(rpc) { // everywhere there are events
				continue
			}
			asked := slices.ContainsFunc(all, func(s *scenario) bool {
				return s.on(f.name, client) && slices.ContainsFunc(s.steps, func(st step) bool { return st.rpc == rpc })
			})
			if !asked {
				t.Errorf("%s: no scenario asks %s", f.name, rpc)
			}
		}
	}
}
