package groups

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestTakenBackAfterItLeft: a client waits, and takes the acquire back with a release that names it and has a key. Its
// connection ends in between, so that the wait leaves the queue before the release comes to its log. Asked again, it
// does not take the lock that the release is not carried out for again.
func TestTakenBackAfterItLeft(t *testing.T) {
	const path = "h:/a/x"
	r := newRig(t, nil)
	holder, c := r.session(), r.session()
	l := r.node.logOf(r.node.groupOf("h:/a"))
	var owner string
	for i := 0; ; i++ { // whose home is in another log
		owner = string(rune('a' + i))
		if r.node.logOf(wire.HomeOf(owner, r.node.cfg.GroupCount)) != l {
			break
		}
	}
	home := r.node.logOf(wire.HomeOf(owner, r.node.cfg.GroupCount))
	holder.must(write("holder", path, time.Hour))
	take, give := r.next.Add(1), r.next.Add(1)
	<-c.start(take, waiting(write(owner, path, time.Hour))).queued
	back := release(owner, path)
	back.Target, back.DelWait, back.Key = take, true, "take back"
	home.pauses(true) // it is slow just now
	b := c.start(give, back)
	r.node.Closed(c.session, false, false)
	eventually(t, "the wait left", func() bool {
		m := l.own()
		m.Lock()
		defer m.Unlock()
		s := m.Sessions.ByID[c.session.ID]
		return s != nil && s.Waits == 0
	})
	home.pauses(false)
	b.get(t, "the release") // nobody hears it
	c.session = &wire.Session{ID: c.session.ID, Epoch: c.session.Epoch + 1, Window: c.session.Window,
		First: r.next.Add(1)}
	a := c.start(take, waiting(write(owner, path, time.Hour)))
	b = c.start(give, back)
	if res := b.get(t, "the release, asked again"); res.Code != wire.OK {
		t.Fatalf("the release is answered %+v", res)
	}
	holder.must(release("nobody", "h:/a/n")) // behind both
	holder.must(release("holder", path))
	res := a.get(t, "the acquire, asked again")
	if got := r.session().inspect(path).Owner; got != "" {
		t.Errorf("the acquire is answered %v %v, the release that takes it back OK, and %s is held by %q for an hour",
			res.Code, res.Status, path, got)
	}
}
