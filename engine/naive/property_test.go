package naive

import (
	"flag"
	"os"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/wire"
)

// machine takes random steps with a group, its rebuilt and checkpointed twin, and
// the naive model, which must agree in everything anybody can see.
type machine struct {
	cfg   engine.Config
	clock engine.Clock
	model *Model
	// One replica is written to disk, evicted, reloaded and restarted at random;
	// the other never.
	moved, plain *replica
	calls        uint64 // request ids given
	keyed        []ask  // asked with a key before
	asked        []ask  // acquires and renewals that a session may ask again
	checks       int
	hot          map[string][]string // the paths of each namespace that are asked for most
}

// ask is a command, and how it comes to the group: for the first time or again, as
// a session does that lost its connection.
type ask struct {
	engine.Command
	again bool
	first *wire.Result // what is remembered of the first answer, nil for nothing
}

func newAsk(req *wire.Request, ns string) *ask {
	return &ask{Command: engine.Command{Req: req, NS: ns}}
}

// apply lets a state take the step that package groups lets it take.
func (a *ask) apply(s *engine.State, c engine.Clock, cmd *engine.Command, out *engine.Output) wire.Result {
	if a.first != nil {
		return s.Repeat(c, cmd, a.first, out)
	}
	if a.again {
		if res, ok := s.Waiting(c, cmd, out); ok {
			return res
		}
	}
	return s.Apply(c, cmd, out)
}

// The universe is small, so that requests meet. Its roots are chosen once and for
// all: routes are not what is tested here.
var (
	owners = []string{"o", "ox", "p", "q"}
	spaces = []string{"h:/a", "h:/a/n", "g", "h:/", "h:/b", "h:/a-1"}
	paths  = map[string][]string{
		"h:/a":   {"h:/a/b", "h:/a/b/c", "h:/a", "h:/a/b/c/d", "h:/a/bc", "h:/a/d", "h:/a/b-", "h:/a/z"},
		"h:/a/n": {"h:/a/n", "h:/a/n/b"},
		"g":      {"g:/", "g:/a", "g:/a/b"},
		"h:/":    {"h:/"},
		"h:/b":   {"h:/b"},
		"h:/a-1": {"h:/a-1/x"}, // before what is in h:/a
	}
	roots = []string{"h:/a/n", "g"}
)

// How long the property tests run, unless the command line says otherwise: so many
// runs of each, and so many steps in a run, always the same ones, so that a commit that passes
// passes again. PATHLOCKD_LONG=1 asks for the long mode: millions of steps, other ones each time.
var (
	quick = map[string]string{"rapid.checks": "100", "rapid.steps": "100", "rapid.nofailfile": "true",
		"rapid.seed": "1"}
	long = map[string]string{"rapid.checks": "10000", "rapid.steps": "100", "rapid.nofailfile": "true"}
)

func TestMain(m *testing.M) {
	flag.Parse()
	values := quick
	if os.Getenv("PATHLOCKD_LONG") != "" {
		values = long
	}
	flag.Visit(func(f *flag.Flag) { delete(values, f.Name) })
	for name, value := range values {
		if err := flag.Set(name, value); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

// TestNaive holds a group against the naive model. For more steps, checks × steps
// of them for each algorithm:
//
//	go test ./engine/naive -run TestNaive -rapid.checks=50000 -rapid.steps=200 -timeout 0
func TestNaive(t *testing.T) {
	for _, alg := range algorithms {
		t.Run(alg.String(), func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				cfg := engine.DefaultConfig()
				cfg.Algorithm = alg
				if oneIn(t, 4, "little room") {
					cfg.MaxQueued, cfg.MaxKept, cfg.MaxEdges = 16, 4, 2
				}
				m := newMachine(t, cfg)
				t.Repeat(map[string]func(*rapid.T){"": m.check, "step": m.random})
			})
		})
	}
}

var algorithms = []wire.Algorithm{wire.RecursiveRW, wire.PointRW, wire.RecursiveWrite, wire.PointWrite, wire.Semaphore}

// newMachine makes a group that has just been given its roots.
func newMachine(t *rapid.T, cfg engine.Config) *machine {
	start := pick[int64](t, "start", 1, 0)
	m := &machine{
		cfg: cfg, clock: engine.Clock{Now: start, Wall: 1_700_000_000_000},
		model: &Model{cfg: cfg, now: start}, moved: newReplica(cfg), plain: newReplica(cfg),
		hot: make(map[string][]string),
	}
	for _, ns := range spaces {
		m.hot[ns] = rapid.Permutation(paths[ns]).Draw(t, "hot")[:min(3, len(paths[ns]))]
	}
	for _, root := range roots {
		m.step(t, 0, newAsk(&wire.Request{
			Op: wire.OpOpen, Namespace: root, Algorithm: cfg.Algorithm, Explicit: true,
			Token: pick[int64](t, "floor", 0, 7),
		}, ""))
	}
	return m
}

// step lets time pass and takes one step.
func (m *machine) step(t *rapid.T, ms int64, cmd *ask) (got wire.Result) {
	m.clock.Now, m.clock.Wall = m.clock.Now+ms, m.clock.Wall+ms
	m.reset()
	m.expire()
	m.model.begin(m.clock, grants(m.moved.out.Events))
	m.model.expire()
	m.compareOutput(t)
	if cmd == nil {
		return got
	}
	t.Logf("at %d: %v", m.clock.Now, (*commandText)(&cmd.Command))
	m.reset()
	got = m.moved.apply(m.clock, cmd)
	plain := m.plain.apply(m.clock, cmd)
	m.model.begin(m.clock, grants(m.moved.out.Events))
	m.model.answered = got.Token
	want := m.model.apply(&cmd.Command, cmd.again, cmd.first)
	m.model.leaves(&want, &cmd.Command, &got)
	if !reflect.DeepEqual(got, plain) {
		t.Fatalf("the replicas answer\n%+v\n%+v", got, plain)
	}
	if err := same(got, want); err != nil {
		t.Fatal(err)
	}
	t.Logf("  %v%v", (*resultText)(&got), (*outputText)(&m.moved.out))
	m.compareOutput(t)
	m.remember(cmd, got)
	return got
}

// remember notes what was first answered to a request that may be asked again: by
// its result, or by the answer that ends a waiting acquire.
func (m *machine) remember(cmd *ask, res wire.Result) {
	known := slices.IndexFunc(m.asked, func(a ask) bool { return cmd.Caller.ID != 0 && a.Caller == cmd.Caller })
	op := cmd.Req.Op
	if known < 0 && (op == wire.OpAcquire || op == wire.OpRenew || op == wire.OpBind) {
		m.asked = append(m.asked, *cmd)
		m.asked = m.asked[max(0, len(m.asked)-8):]
		known = len(m.asked) - 1
	}
	open := cmd.Req.Flags&wire.FlagWait != 0 && res.Status == wire.StatusQueued
	if known >= 0 && !open {
		m.asked[known].note(res)
	}
	for i := range m.asked {
		for _, a := range m.moved.out.Answers {
			if a.Caller == m.asked[i].Caller {
				m.asked[i].note(a.Result)
			}
		}
	}
}

// note takes an answer for the first, if it is one that is remembered: what changed
// nothing is asked anew.
func (a *ask) note(res wire.Result) {
	kept := res.Status == wire.StatusOK || res.Status == wire.StatusQueued || a.Req.Op != wire.OpAcquire
	if res.Code == wire.OK && kept {
		a.first = &res
	}
}

func (m *machine) expire() {
	m.moved.expire(m.clock)
	m.plain.expire(m.clock)
}

func (m *machine) reset() {
	m.moved.out.Reset()
	m.plain.out.Reset()
}

// compareOutput compares events and answers: grants in their order, the rest in
// any. Replicas must agree in the order of everything.
func (m *machine) compareOutput(t *rapid.T) {
	if !reflect.DeepEqual(&m.moved.out, &m.plain.out) {
		t.Fatalf("the replicas say\n%s\n%s", (*outputText)(&m.moved.out), (*outputText)(&m.plain.out))
	}
	if err := m.model.said(&m.moved.out); err != nil {
		t.Fatal(err)
	}
}
