package groups

import (
	"testing"
	"time"

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
// what that request did.
func TestSubscribedWhenAnswered(t *testing.T) {
	for name, wait := range map[string]bool{"a command": false, "a wait": true} {
		t.Run(name, func(t *testing.T) {
			b := newBare(t, firstLogShard, defaultLimits())
			if res := b.one(bareAsk(bareSession(1), 1, write("holder", "h:/a/x", time.Hour))); res.Code != wire.OK {
				t.Fatalf("%+v", res)
			}
			waits := bareAsk(bareSession(2), 1, waiting(write("waiter", "h:/a/x", time.Hour)))
			if res := b.one(waits); res.Status != wire.StatusQueued {
				t.Fatalf("%+v", res)
			}
			lets := bareAsk(bareSession(1), 2, release("holder", "h:/a/x"))
			told, heard := 0, &ear{}
			hears := func() {
				told++
				b.n.hub.subscribe(&wire.Subscription{Owner: "waiter", Sink: heard})
			}
			if wait {
				waits.To = onReply{waits, hears}
			} else {
				lets.To = onReply{lets, hears}
			}
			b.do(1, lets)
			if told != 1 || len(waits.res) != 1 || waits.res[0].Status != wire.StatusOK {
				t.Fatalf("answered %d times, the wait %+v", told, waits.res)
			}
			if got, _ := heard.heard(); len(got) > 0 {
				t.Errorf("it is told of what was before: %q", got)
			}
		})
	}
}
