package groups

import (
	"fmt"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/groups/replica"
	"github.com/pathlockd/pathlockd/wire"
)

// TestRefusedAfterTried: a node forwards a request that a client sends for the first time. The leader carries it out,
// and the connection between the nodes breaks before the answer comes. The node asks again, and the leader has too many
// requests of that group under way just then. Code 14 would say to a client that sent the request once that it was
// surely not done, and may be asked anew under another id, or left: nobody would give the lock back.
func TestRefusedAfterTried(t *testing.T) {
	t.Parallel()
	for name, full := range map[string]bool{"too many are under way": false, "its disk is nearly full": true} {
		t.Run(name, func(t *testing.T) { refusedAfterTried(t, full) })
	}
}

func refusedAfterTried(t *testing.T, full bool) {
	const path, most = "h:/x", 3
	f := apart(t, func(i int, c *Config) {
		if i == 0 {
			c.MaxInflight = most
		}
	})
	p := newPipes(f, 19, 0)
	leader, r := f.nodes[0], f.rigOn(1)
	c := r.session()
	f.until("commands go over the pipes", func() bool {
		c.must(release("o", path))
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.open[pipeKey{f.nodes[1], leader.id.HostID}] != nil
	})
	p.mu.Lock()
	pipe := p.open[pipeKey{f.nodes[1], leader.id.HostID}]
	p.mu.Unlock()
	thaw := p.freeze(f.nodes[1]) // it reads no answer
	id := r.next.Add(1)
	asked := c.start(id, write("o", path, time.Hour))
	there := f.rigOn(0)
	look := there.session()
	eventually(t, "the acquire is carried out", func() bool { return look.inspect(path).Owner == "o" })

	l := leader.logOf(leader.groupOf(leader.routes.Load().Resolve(path)))
	l.pauses(true)
	var fillers []*outcome
	if full {
		leader.refusal.Store(wire.Errorf(wire.Unavailable, "the disk is nearly full"))
	}
	for i := range most {
		fillers = append(fillers, look.start(there.next.Add(1), release("p", fmt.Sprint(path, "/", i))))
	}
	pipe.Close(nil) // the connection breaks; the answer is lost
	thaw()
	select {
	case res := <-asked.done:
		if owner := look.inspect(path).Owner; res.Code == wire.Unavailable && owner == "o" {
			t.Errorf("a request that was sent once is answered %v %q, and was carried out: %q holds the path "+
				"for an hour", res.Code, res.Message, owner)
		}
	case <-time.After(5 * pause): // it waits for its turn
	}
	l.pauses(false)
	for _, o := range fillers {
		o.get(t, "a filler")
	}
}

// TestBrokenLinkOverTheLimit: the same, with nothing but one fault and one node's requests. More than half of what a
// group may have under way is on its way through one node when the link to the leader breaks. The node asks all of it
// again, and the leader still counts the first copies.
func TestBrokenLinkOverTheLimit(t *testing.T) {
	t.Parallel()
	const most, many = 8, 6
	f := apart(t, func(_ int, c *Config) { c.MaxInflight = most })
	p := newPipes(f, 20, 0)
	leader, r := f.nodes[0], f.rigOn(1)
	c := r.session()
	var pipe *pipeEnd
	f.until("commands go over the pipes", func() bool {
		c.must(release("o", "h:/x"))
		p.mu.Lock()
		defer p.mu.Unlock()
		pipe = p.open[pipeKey{f.nodes[1], leader.id.HostID}]
		return pipe != nil
	})
	group := leader.groupOf(leader.routes.Load().Resolve("h:/x"))
	l := leader.logOf(group)
	m := l.local.Load()
	unlock := func() { m.Unlock() }
	l.pauses(true) // so that all of it goes into one batch
	m.Lock()       // its disk or processor is slow for a moment: what is proposed is not applied yet
	var asked []*outcome
	for i := range many {
		asked = append(asked, c.start(r.next.Add(1), write("o", fmt.Sprint("h:/x/", i), time.Hour)))
	}
	eventually(t, "all of it is there", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.mu.queue) == many
	})
	l.pauses(false)
	eventually(t, "all of it is proposed", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		n := 0
		for _, f := range l.mu.batches {
			n += len(f.left())
		}
		return n+len(l.mu.queue) == many && len(l.mu.batches) > 0 && len(l.mu.queue) == 0
	})
	pipe.Close(nil)
	time.Sleep(5 * pause) // what is refused is answered
	answers := make([]*wire.Result, many)
	for i, o := range asked {
		if len(o.done) > 0 {
			res := <-o.done
			answers[i] = &res
		}
	}
	unlock()
	look := f.rigOn(0).session()
	eventually(t, "what was proposed is carried out",
		func() bool { return look.inspect(fmt.Sprint("h:/x/", many-1)).Owner == "o" })
	for i, res := range answers {
		if res != nil && res.Code == wire.Unavailable {
			if owner := look.inspect(fmt.Sprint("h:/x/", i)).Owner; owner == "o" {
				t.Errorf("acquire %d was sent once, is answered %v %q, and %q holds its path for an hour", i, res.Code,
					res.Message, owner)
			}
		}
	}
}

// TestTakesWhatWasTaken: nor is it refused for what its node has under way here by then.
func TestTakesWhatWasTaken(t *testing.T) {
	r := newRig(t, nil)
	in := &inbound{n: r.node}
	in.bytes.Store(maxPeerBytes)
	for _, tried := range []bool{false, true} {
		p := &part{Command: replica.Command{Op: wire.OpRelease, Group: r.node.groupOf("h:/a"), Body: []byte("x")}}
		if err := r.node.takes(in, p, tried); (err == nil) != tried {
			t.Errorf("tried %v: %v", tried, err)
		}
		if p.counted {
			r.node.countOut(p.Group)
		}
	}
}
