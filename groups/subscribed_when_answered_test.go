package groups

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/groups/replica"
	"github.com/pathlockd/pathlockd/groups/rows"
	"github.com/pathlockd/pathlockd/internal/testkit/observed"
	"github.com/pathlockd/pathlockd/wire"
)

// onReply is a replier that does something when it is answered.
type onReply struct {
	*bareCall
	do func()
}

func (r onReply) Reply(c *wire.Call) {
	r.bareCall.Reply(c)
	r.do()
}

// TestSubscribedWhenAnswered: who subscribes once a request is answered is told of what comes from then on, and not of
// what that request did, or what ended its wait.
func TestSubscribedWhenAnswered(t *testing.T) {
	for name, of := range map[string]struct{ wait, byTime bool }{
		"a command":                           {},
		"a wait":                              {wait: true},
		"a wait that the end of a lease ends": {wait: true, byTime: true},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBare(t, rows.FirstLog, replica.DefaultLimits())
			ttl := time.Hour
			if of.byTime {
				ttl = time.Second
			}
			if res := b.one(bareAsk(bareSession(1), 1, write("holder", "h:/a/x", ttl))); res.Code != wire.OK {
				t.Fatalf("%+v", res)
			}
			waits := bareAsk(bareSession(2), 1, waiting(write("waiter", "h:/a/x", time.Hour)))
			if res := b.one(waits); res.Status != wire.StatusQueued {
				t.Fatalf("%+v", res)
			}
			lets := bareAsk(bareSession(1), 2, release("holder", "h:/a/x"))
			told, heard := 0, &observed.Events{}
			hears := func() {
				told++
				b.n.hub.Subscribe(&wire.Subscription{Owner: "waiter", Sink: heard})
			}
			if of.wait {
				waits.To = onReply{waits, hears}
			} else {
				lets.To = onReply{lets, hears}
			}
			if of.byTime {
				b.do(2000)
			} else {
				b.do(1, lets)
			}
			if told != 1 || len(waits.res) != 1 || waits.res[0].Status != wire.StatusOK {
				t.Fatalf("answered %d times, the wait %+v", told, waits.res)
			}
			if got, _ := heard.Told(); len(got) > 0 {
				t.Errorf("it is told of what was before: %q", got)
			}
		})
	}
}

// tellsAll notes in which order an owner is told of answers and of events.
type tellsAll struct {
	*observed.Events
	told []string
}

func (a *tellsAll) Deliver(_ *wire.Subscription, kind wire.EventKind, path, _ string, _ int64, _ wire.Position) {
	a.told = append(a.told, fmt.Sprint(kind, " ", path))
}

// TestQueuedBeforeItsGrant: an owner that has subscribed to GRANT polls for a lock, gets a place in the queue, and is
// granted it by what comes behind it in the same entry. It is told so in that order, whatever others did in the entry
// before: a client may wait for the next GRANT once it is queued.
func TestQueuedBeforeItsGrant(t *testing.T) {
	for name, busy := range map[string]bool{"alone in the entry": false, "behind another's event": true} {
		t.Run(name, func(t *testing.T) {
			b := newBare(t, rows.FirstLog, replica.DefaultLimits())
			for i, path := range []string{"h:/a/x", "h:/a/y"} {
				if res := b.one(bareAsk(bareSession(1), uint64(i)+1,
					write("holder", path, time.Hour))); res.Code != wire.OK {
					t.Fatalf("%+v", res)
				}
			}
			b.one(bareAsk(bareSession(2), 1, waiting(write("other", "h:/a/y", time.Hour))))
			all := &tellsAll{Events: new(observed.Events)}
			b.n.hub.Subscribe(&wire.Subscription{Owner: "o", Sink: all})
			polls := bareAsk(bareSession(3), 1, write("o", "h:/a/x", time.Hour))
			polls.To = onReply{polls, func() { all.told = append(all.told, polls.Res.Status.String()) }}
			entry := []*bareCall{polls, bareAsk(bareSession(1), 4, release("holder", "h:/a/x"))}
			if busy {
				entry = append([]*bareCall{bareAsk(bareSession(1), 3, release("holder", "h:/a/y"))}, entry...)
			}
			b.do(1, entry...)
			if want := []string{wire.StatusQueued.String(), "GRANT h:/a/x"}; !slices.Equal(all.told, want) {
				t.Errorf("it is told %q, want %q", all.told, want)
			}
		})
	}
}
