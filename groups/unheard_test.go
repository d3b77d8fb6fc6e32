package groups

import (
	"fmt"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/wire"
)

// unheardWait is a wait whose node hears of no leader of its log, and what is about it.
type unheardWait struct {
	r      *rig
	l      *shardLog
	was    leadership
	holder *caller // of the path
	client *caller
	id     uint64
	req    *wire.Request
	o      *outcome
	tells  []func() // ends that were not heard, taken out of the node's hands
}

const unheardPath = "h:/a/x"

func newUnheardWait(t *testing.T) *unheardWait {
	r := newRig(t, func(c *Config) { c.RequestTimeout = time.Second })
	u := &unheardWait{r: r, holder: r.session(), client: r.session(), id: r.next.Add(1)}
	u.req = waiting(write("waits", unheardPath, time.Hour))
	u.l = r.node.logOf(r.node.groupOf("h:/a"))
	u.req.QueueTTLMillis = 3_600_000
	u.holder.must(write("holder", unheardPath, time.Hour))
	u.o = u.client.start(u.id, u.req)
	<-u.o.queued
	u.silent()
	return u
}

// silent has the log have no leader, heard has it have its own again. What drives the log is not
// at work meanwhile: it looks at the leader once and then proposes all there is.
func (u *unheardWait) silent() {
	u.l.drive.Lock()
	defer u.l.drive.Unlock()
	u.was = *u.l.lead.Load()
	u.l.leaderChanged(u.was.term, 0)
}

func (u *unheardWait) heard() {
	u.l.held.Store(u.was.term)
	u.l.leaderChanged(u.was.term, u.was.leader)
	u.l.kick()
}

// over has the wait's time be over for its caller.
func (u *unheardWait) over() {
	w := &u.r.node.waits
	w.mu.Lock()
	w.calls[engine.Session(u.client.session.ID)][u.id].part.until = 1
	w.mu.Unlock()
	if res := u.o.get(u.r.t, "the wait"); res.Code != wire.DeadlineExceeded || res.Cause == wire.CauseWaitOver {
		u.r.t.Fatalf("its outcome is not known: %+v", res)
	}
}

// unheard waits until so many ends were not heard, and keeps them from being told again.
func (u *unheardWait) unheard(n int) {
	u.r.t.Helper()
	eventually(u.r.t, "ends are not heard", func() bool {
		u.tells = append(u.tells, u.r.node.unheard.take()...)
		return len(u.tells) >= n
	})
}

// tell tells again what was not heard.
func (u *unheardWait) tell() {
	for _, tell := range u.tells {
		tell()
	}
	u.tells = nil
}

// repeat asks for the wait anew.
func (u *unheardWait) repeat() {
	again := *u.req
	u.o = u.client.start(u.id, &again)
}

func (u *unheardWait) queued() (ops []wire.Op) {
	u.l.mu.Lock()
	defer u.l.mu.Unlock()
	for _, p := range u.l.mu.queue {
		ops = append(ops, p.Op)
	}
	return ops
}

// placed holds that the repeat is told its place.
func (u *unheardWait) placed() {
	u.r.t.Helper()
	select {
	case res := <-u.o.queued:
		if res.Position != 1 {
			u.r.t.Fatalf("the repeat is told %+v", res)
		}
	case res := <-u.o.done:
		u.r.t.Fatalf("the repeat is answered %+v", res)
	case <-time.After(patience):
		u.r.t.Fatal("the repeat is told nothing")
	}
}

// granted holds that the repeat waits on, and nothing else is to be told of it.
func (u *unheardWait) granted() {
	u.r.t.Helper()
	eventually(u.r.t, "nothing is to be told again", func() bool {
		n := u.r.node
		n.unheard.mu.Lock()
		defer n.unheard.mu.Unlock()
		return len(n.unheard.list) == 0
	})
	u.holder.must(release("holder", unheardPath))
	if res := u.o.get(u.r.t, "the repeat"); res.Code != wire.OK || res.Status != wire.StatusOK {
		u.r.t.Errorf("nobody ended it: %+v", res)
	}
}

// nobody waits until nobody waits for the path.
func (u *unheardWait) nobody() {
	u.r.t.Helper()
	c := u.r.session()
	if !within(reattachGrace*3/4, 2*time.Millisecond, func() bool { // else it ends as one that nobody asks for
		return len(c.must(&wire.Request{Op: wire.OpDescribe, Path: unheardPath}).List.Waiters) == 0
	}) {
		u.r.t.Fatal("somebody waits")
	}
}

// TestUnheardEndMeetsRepeat: the end of a wait that was not heard does not end what the client
// asked for anew under the same id, on the same connection, before it is told again. It makes no
// difference whether the wait's time was over for its caller, or it was cancelled too.
func TestUnheardEndMeetsRepeat(t *testing.T) {
	t.Parallel()
	for _, cancelled := range []bool{false, true} {
		t.Run(fmt.Sprint("cancelled ", cancelled), func(t *testing.T) {
			u := newUnheardWait(t)
			ends := 1
			if cancelled {
				u.r.node.Cancel(u.client.session, u.id)
				ends++
			}
			u.over()
			u.unheard(ends)
			u.repeat()
			u.tell()
			u.heard()
			u.placed()
			u.granted()
		})
	}
}

// TestRepeatBehindUnheardEnd: what is asked for anew comes behind the end of the wait before, if
// that is told by then. It waits at the end of the queue, or is answered that it was cancelled.
func TestRepeatBehindUnheardEnd(t *testing.T) {
	for _, cancelled := range []bool{false, true} {
		t.Run(fmt.Sprint("cancelled ", cancelled), func(t *testing.T) {
			u := newUnheardWait(t)
			if cancelled {
				u.r.node.Cancel(u.client.session, u.id)
			}
			u.over()
			u.repeat()
			if ops := u.queued(); len(ops) < 2 || ops[len(ops)-1] != wire.OpAcquire {
				t.Fatalf("the repeat is not behind the end: %v", ops)
			}
			u.heard()
			if !cancelled {
				u.placed()
				u.granted()
			} else if res := u.o.get(t, "the repeat"); res.Code != wire.Cancelled {
				t.Errorf("a wait that was cancelled is answered %+v", res)
			}
		})
	}
}

// TestUnheardEndOfARepeat: what ends the repeat itself, and was not heard, ends it.
func TestUnheardEndOfARepeat(t *testing.T) {
	t.Parallel()
	for how, end := range map[string]func(u *unheardWait){
		"cancelled":         func(u *unheardWait) { u.r.node.Cancel(u.client.session, u.id) },
		"connection closed": func(u *unheardWait) { u.r.node.Closed(u.client.session, false, false) },
	} {
		t.Run(how, func(t *testing.T) {
			u := newUnheardWait(t)
			u.over()
			u.unheard(1)
			u.repeat()
			u.tell()
			u.heard()
			u.placed()
			u.silent()
			end(u)
			u.unheard(1)
			u.tell()
			u.heard()
			if res := u.o.get(t, "the repeat"); res.Code != wire.Cancelled {
				t.Errorf("it was ended, and is answered %+v", res)
			}
			u.nobody()
		})
		t.Run(how+" at once", func(t *testing.T) {
			u := newUnheardWait(t)
			u.over()
			u.unheard(1)
			u.repeat()
			u.tell()
			end(u)
			u.heard()
			if res := u.o.get(t, "the repeat"); res.Code != wire.Cancelled {
				t.Errorf("it was ended, and is answered %+v", res)
			}
			u.nobody()
		})
	}
}

// TestUnheardEndAfterARepeat: the end of a wait is told after all when what its client asked for
// anew has not got to the log: nobody would hear of the grant.
func TestUnheardEndAfterARepeat(t *testing.T) {
	t.Parallel()
	u := newUnheardWait(t)
	u.over()
	u.unheard(1)
	u.repeat()
	u.tell()
	if res := u.o.get(t, "the repeat"); res.Code != wire.Unavailable {
		t.Fatalf("no leader took it: %+v", res)
	}
	u.heard()
	u.nobody()
}
