package conformance_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// happening is something that a client must learn of: how it comes about, what one
// that streams is told, and what one that only polls is answered.
type happening struct {
	name   string
	cause  string // what others do, and what the client asked for before
	events string
	polls  string
}

// pollRPCs are all that a client that only polls asks.
var pollRPCs = []string{"Acquire", "Renew", "IsOwnerAlive", "ListOwnerLocks"}

var happenings = []happening{
	{
		name: "granted by a release",
		cause: `acquire B h:/a/x -> OK token=$1 ns=h:/a
			acquire P h:/a/x -> QUEUED WRITE_LOCKED h:/a/x by B token=$2 ns=h:/a pos=1
			alive P -> -
			release B h:/a/x -> -`,
		events: `event s GRANT h:/a/x token=$2 ns=h:/a`,
		polls: `eventually alive P -> alive
			list P -> alive h:/a/x,fence=$2
			renew P -> OK
			acquire P h:/a/x -> OK token=$2 ns=h:/a`,
	},
	{
		name: "granted by the end of a lease",
		cause: `acquire B h:/b/x ttl=1s -> OK token=$b ns=h:/b
			acquire P h:/b/x -> QUEUED WRITE_LOCKED h:/b/x by B token=$p ns=h:/b pos=1`,
		events: `event s GRANT h:/b/x token=$p ns=h:/b`,
		polls: `eventually acquire P h:/b/x -> OK token=$p ns=h:/b
			alive P h:/b -> alive`,
	},
	{
		name:   "asked to let go",
		cause:  `revoke P -> -`,
		events: `event s REVOKE`,
		polls:  `eventually renew P -> OK revoke`,
	},
	{
		name:   "killed",
		cause:  `kill P -> -`,
		events: `event s KILLED`,
		polls: `eventually alive P -> -
			renew P -> LOST MISSING_ALIVE
			list P -> -
			acquire P h:/a/x,held -> LOST MISSING_ALIVE`,
	},
	{
		name: "killed while it waited",
		cause: `acquire B h:/c/x -> OK token=$c ns=h:/c
			acquire B h:/c/y -> OK token=$d ns=h:/c
			acquire P h:/c/x h:/c/y -> QUEUED WRITE_LOCKED h:/c/x by B token=$e ns=h:/c pos=1
			acquire C h:/c/x -> QUEUED QUEUED h:/c/x by P token=$f ns=h:/c pos=2
			kill P -> -`,
		events: `event s KILLED`,
		// The place is gone: who asks again stands at the end.
		polls: `eventually acquire P h:/c/x h:/c/y -> QUEUED QUEUED h:/c/x by C token=$g ns=h:/c pos=2`,
	},
	{
		name: "cleared by another policy",
		cause: `acquire P h:/d/x -> OK token=$h ns=h:/d
			setPolicy h:/d point_write -> -`,
		events: `event s KILLED ns=h:/d`,
		polls: `eventually alive P h:/d -> -
			renew P h:/d -> LOST MISSING_ALIVE h:/d
			acquire P h:/d/x,held -> LOST MISSING_ALIVE`,
	},
	{
		name:   "expired",
		cause:  `acquire P h:/e/x ttl=100ms -> OK token=$i ns=h:/e`,
		events: `event s EXPIRED ns=h:/e`,
		polls: `eventually alive P h:/e -> -
			renew P h:/e -> LOST MISSING_ALIVE h:/e
			list P h:/e -> -
			acquire P h:/e/x,held -> LOST MISSING_ALIVE`,
	},
}

// TestPollOnlyClientLearnsAll shows that a client that only asks again learns all that
// one that streams is told.
func TestPollOnlyClientLearnsAll(t *testing.T) {
	run := runs.Add(1)
	for _, f := range faces {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			client := f.dial(t, nodes["main"].get(t))
			r := newRunner(t, client, names{prefix: fmt.Sprintf("poll%d.%s.", run, f.name)})
			defer r.close()
			subscribe := "subscribe s P"
			if client.full() { // who does not stream types of its own choice polls for them
				subscribe += " types=KILLED,REVOKE,GRANT,EXPIRED"
			}
			r.lines(t, subscribe)
			for _, h := range happenings {
				r.at = h.name
				r.lines(t, h.cause)
				if client.full() || !strings.Contains(h.events, "EXPIRED") {
					r.lines(t, h.events)
				}
				for _, s := range r.lines(t, h.polls) {
					if !slices.Contains(pollRPCs, s.rpc) {
						t.Fatalf("%s: a client that polls does not ask %s", h.name, s.rpc)
					}
				}
			}
		})
	}
}

// lines carries out steps, and answers them.
func (r *runner) lines(t testing.TB, text string) (steps []step) {
	t.Helper()
	for line := range strings.Lines(text) {
		s, err := parseStep(strings.TrimSpace(line))
		if err != nil {
			t.Fatal(fmt.Errorf("%s: %w", line, err))
		}
		r.step(&s)
		steps = append(steps, s)
	}
	return steps
}
