package engine

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/pathlockd/pathlockd/wire"
)

// telling is a state whose sessions are 1 to 9, and what they were told.
type telling struct {
	t   *testing.T
	s   *State
	now int64
	out Output
}

// do has a session ask something under an id; with a grace of 0 or more it ties what it gets.
func (g *telling) do(id byte, request uint64, grace int64, req *wire.Request) wire.Result {
	g.t.Helper()
	g.out.Reset()
	g.now++
	cmd := &Command{NS: "h:/a", Caller: Caller{Session: Session{id}, ID: request}, Epoch: 1, Bound: grace >= 0,
		Grace: max(grace, 0), Req: req}
	res := g.s.Apply(Clock{Now: g.now}, cmd, &g.out)
	if err := res.Err(); err != nil {
		g.t.Fatal(err)
	}
	return res
}

// says holds what the last step told: who what, of whose lease, and by which of its requests.
func (g *telling) says(want ...string) {
	g.t.Helper()
	names := make(map[uint64]string)
	for id := range byte(10) {
		for request := range uint64(100) {
			names[wire.AcquireMark(Session{id}, request)] = fmt.Sprintf("%d.%d", id, request)
		}
	}
	var got []string
	for _, t := range g.out.Told {
		by := make([]string, len(t.Acquires))
		for i, mark := range t.Acquires {
			by[i] = names[mark]
		}
		got = append(got, fmt.Sprintf("%d %v %s %s [%s]", t.Session[0], t.Kind, t.Owner, t.Namespace,
			strings.Join(by, " ")))
	}
	if !slices.Equal(got, want) {
		g.t.Errorf("told:\n %s\nwant:\n %s", strings.Join(got, "\n "), strings.Join(want, "\n "))
	}
}

func newTelling(t *testing.T) *telling {
	return &telling{t: t, s: New(DefaultConfig(), nil, nil)}
}

func kill(owner string) *wire.Request { return &wire.Request{Op: wire.OpForceRelease, Owner: owner} }

// TestToldOfKills: the sessions that a lease is tied to are told when it is taken away, with what took or named what
// was held; others are not, and what was given back before is not named.
func TestToldOfKills(t *testing.T) {
	g := newTelling(t)
	g.do(1, 2, 500, takes("o", "h:/a/x"))
	g.do(1, 3, 500, takes("o", "h:/a/y"))
	g.do(1, 4, -1, &wire.Request{Op: wire.OpRelease, Owner: "o", Releases: []wire.ReleaseRequest{{Path: "h:/a/x"}}})
	g.do(2, 2, 500, takes("o", "h:/a/y"))
	g.do(3, 2, -1, takes("o", "h:/a/z"))
	g.says()
	g.do(4, 2, -1, kill("o"))
	g.says("2 KILLED o h:/a [1.3 2.2 3.2]", "1 KILLED o h:/a [1.3 2.2 3.2]")
	g.do(4, 3, -1, kill("o"))
	g.says()
	g.do(1, 5, 500, takes("o", "h:/a/y"))
	g.do(4, 4, -1, kill("o"))
	g.says("1 KILLED o h:/a [1.5]")
}

// TestToldOfWhatElse: a lease that runs out, also by the grace of its connection, one that a change of the policy
// clears, and a request to let go are told; what the owner does itself is not.
func TestToldOfWhatElse(t *testing.T) {
	g := newTelling(t)
	read := takes("o", "h:/a/x")
	read.Locks[0].Mode = wire.ModeRead
	g.do(1, 2, 500, read)
	g.do(2, 2, -1, &wire.Request{Op: wire.OpRequestRevoke, Owner: "o"})
	g.says("1 REVOKE o h:/a [1.2]")
	g.do(1, 3, -1, &wire.Request{Op: wire.OpReleaseAll, Owner: "o"})
	g.says()
	g.do(2, 3, -1, kill("o"))
	g.says()

	g.do(1, 4, 500, takes("o", "h:/a/x"))
	g.do(1, 5, -1, &wire.Request{Op: wire.OpDetach})
	g.says()
	g.expire(600)
	g.says("1 EXPIRED o h:/a [1.4]")

	g.do(1, 6, 500, takes("o", "h:/a/x"))
	g.do(1, 7, -1, &wire.Request{Op: wire.OpUnbind, Owner: "o"})
	g.do(2, 4, -1, kill("o"))
	g.says()

	g.do(1, 8, 500, takes("o", "h:/a/x"))
	g.do(1, 9, 500, takes("p", "h:/a/y"))
	g.do(0, 0, -1, &wire.Request{Op: wire.OpSetRow, Namespace: "h:/a", Algorithm: wire.PointRW, Explicit: true})
	g.says("1 KILLED o h:/a [1.8]", "1 KILLED p h:/a [1.9]")
}

// expire lets time go by, and ends what ends with it.
func (g *telling) expire(ms int64) {
	g.now += ms
	g.out.Reset()
	g.s.Expire(Clock{Now: g.now}, &g.out)
}

// TestToldInSteps: a lease that more is held under than one step may free is told of by each of them, and no more
// acquires are named than a client takes.
func TestToldInSteps(t *testing.T) {
	g := newTelling(t)
	const many = 200
	for i := range uint64(many) {
		g.do(1, 2+i, 500, takes("o", fmt.Sprintf("h:/a/%03d", i)))
	}
	g.now += 2 * hourMillis
	named := 0
	for steps := 0; g.s.leases.Get(g.s.leaseKey("o", "h:/a")) != nil; steps++ {
		g.out.Reset()
		g.s.ExpireSome(Clock{Now: g.now}, &g.out, 50)
		if len(g.out.Told) != 1 || len(g.out.Told[0].Acquires) == 0 ||
			len(g.out.Told[0].Acquires) > wire.MaxLeaseAcquires || steps > many {
			t.Fatalf("step %d tells %+v", steps, g.out.Told)
		}
		named += min(50, len(g.out.Told[0].Acquires))
	}
	if named != many {
		t.Errorf("%d of %d acquires were named in time", named, many)
	}
}
