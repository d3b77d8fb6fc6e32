package groups

import (
	"fmt"
	"sync"
	"time"

	"github.com/pathlockd/pathlockd/internal/testkit/requests"
	"github.com/pathlockd/pathlockd/wire"
)

// caller is a client's session.
type caller struct {
	r       *rig
	session *wire.Session
	mu      sync.Mutex
	open    map[*wire.Call]*outcome
}

// outcome is what became of a call.
type outcome struct {
	queued chan wire.Result
	done   chan wire.Result
}

func (r *rig) session() *caller {
	n := r.next.Add(1)
	s := &wire.Session{Epoch: 1, Window: 256}
	copy(s.ID[:], fmt.Sprintf("session-%08d", n))
	return &caller{r: r, session: s, open: make(map[*wire.Call]*outcome)}
}

func (c *caller) Reply(call *wire.Call) {
	c.mu.Lock()
	o := c.open[call]
	delete(c.open, call)
	c.mu.Unlock()
	res := call.Res
	*call = wire.Call{} // as a server does, which uses it again: who answered it must not look at it any more
	o.done <- res
}

func (c *caller) Queued(call *wire.Call, res *wire.Result) {
	c.mu.Lock()
	o := c.open[call]
	c.mu.Unlock()
	o.queued <- *res
}

func (c *caller) Flush() {}

// start asks and does not wait.
func (c *caller) start(id uint64, req *wire.Request) *outcome {
	c.r.t.Helper()
	return c.startAs(id, req, nil)
}

// startAs is start, with a call that say changes.
func (c *caller) startAs(id uint64, req *wire.Request, say func(*wire.Call)) *outcome {
	c.r.t.Helper()
	if err := req.Validate(); err != nil {
		c.r.t.Error(err)
	}
	call := &wire.Call{ID: id, Op: req.Op, Req: req, Session: c.session, To: c}
	call.Body, call.NArgs = wire.AppendArgs(nil, req)
	call.Bound = req.Flags&wire.FlagBind != 0
	call.Grace = 100
	if say != nil {
		say(call)
	}
	o := &outcome{queued: make(chan wire.Result, 1), done: make(chan wire.Result, 1)}
	c.mu.Lock()
	c.open[call] = o
	c.mu.Unlock()
	c.r.live.Load().Serve([]*wire.Call{call})
	return o
}

// ask asks and waits for the answer.
func (c *caller) ask(req *wire.Request) wire.Result {
	c.r.t.Helper()
	o := c.start(c.r.next.Add(1), req)
	select {
	case res := <-o.done:
		return res
	case <-time.After(patience):
		c.r.t.Fatalf("no answer to %v", req.Op)
		return wire.Result{}
	}
}

// must asks for what has to succeed.
func (c *caller) must(req *wire.Request) wire.Result {
	c.r.t.Helper()
	res := c.ask(req)
	if err := res.Err(); err != nil || res.Status != wire.StatusOK {
		c.r.t.Fatalf("%v of %s: %v, status %v %v %s", req.Op, req.Owner, err, res.Status, res.Reason, res.Path)
	}
	return res
}

// Requests of tests.
var write, waiting, release = requests.Write, requests.Waiting, requests.Release

func (c *caller) inspect(path string) wire.Result {
	c.r.t.Helper()
	return c.must(&wire.Request{Op: wire.OpInspectPath, Path: path})
}
