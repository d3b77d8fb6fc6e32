package naive

import (
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/wire"
)

// crowd is a group that may end only one or two things with time in one step, so
// that there is always something about that is over and not yet gone. When it goes
// is the state's own business; what must hold at any moment is looked at here. The
// model is filled with what can be seen before each step, and judges that.
type crowd struct {
	machine
	fences map[string]int64 // by path, after the last step
}

// TestReapBudget checks what must be true however late things are ended:
//
//   - no two owners with live leases hold conflicting locks;
//   - what is over keeps nobody waiting, and nothing else lets anybody in;
//   - minted tokens only grow, on a path and on those above and below it;
//   - once nothing is due, no waiter could be granted.
func TestReapBudget(t *testing.T) {
	for _, alg := range algorithms {
		t.Run(alg.String(), func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				cfg := engine.DefaultConfig()
				cfg.Algorithm, cfg.ReapBudget = alg, rapid.IntRange(1, 2).Draw(t, "budget")
				c := crowd{machine: *newMachine(t, cfg), fences: make(map[string]int64)}
				t.Repeat(map[string]func(*rapid.T){"step": c.random})
			})
		})
	}
}

// crowdMoves are the steps of a crowd: without keys and repeats, which tell nothing
// new here.
var crowdMoves = slices.Concat(
	slices.Repeat([]func(*machine, *rapid.T) *ask{(*machine).drawAcquire}, 12),
	slices.Repeat([]func(*machine, *rapid.T) *ask{(*machine).drawRelease}, 4),
	[]func(*machine, *rapid.T) *ask{
		(*machine).drawPoll, (*machine).drawPoll, (*machine).drawRenew, (*machine).drawCancel, (*machine).drawOwner,
		(*machine).drawOwner, (*machine).drawReleaseAll, (*machine).drawPolicy, (*machine).drawDisk,
		(*machine).drawDisk,
	},
)

// random lets time pass, ends some of what is due, and takes a step.
func (c *crowd) random(t *rapid.T) {
	ms := c.drawTime(t)
	c.clock.Now, c.clock.Wall = c.clock.Now+ms, c.clock.Wall+ms
	c.reset()
	c.reap(t, rapid.IntRange(1, 4).Draw(t, "reap"))
	c.after(t)
	cmd := rapid.SampledFrom(crowdMoves).Draw(t, "move")(&c.machine, t)
	if cmd == nil {
		return
	}
	cmd.Req.Key, cmd.Req.Token, cmd.Req.GraceMillis = "", 0, 0
	if slices.ContainsFunc(cmd.Req.Locks, func(l wire.LockRequest) bool { return l.State == wire.StateNew }) {
		for i := range cmd.Req.Locks {
			cmd.Req.Locks[i].State = wire.StateNew
		}
	}
	c.act(t, cmd)
}

// reap lets both replicas end things, a few at a time.
func (c *crowd) reap(t *rapid.T, times int) {
	for range times {
		more := c.moved.state.Expire(c.clock, &c.moved.out)
		if more != c.plain.state.Expire(c.clock, &c.plain.out) {
			t.Fatalf("the replicas differ in whether more is due")
		}
	}
}

// act takes one step.
func (c *crowd) act(t *rapid.T, cmd *ask) {
	t.Logf("at %d: %v", c.clock.Now, (*commandText)(&cmd.Command))
	c.reset()
	got, plain := c.moved.apply(c.clock, cmd), c.plain.apply(c.clock, cmd)
	t.Logf("  %v%v", (*resultText)(&got), (*outputText)(&c.moved.out))
	if !reflect.DeepEqual(got, plain) {
		t.Fatalf("the replicas answer\n%+v\n%+v", got, plain)
	}
	if cmd.Req.Op == wire.OpAcquire {
		c.judge(t, cmd, got)
	}
	c.after(t)
}

// judge holds the answer to an acquire against what was to be seen before it, and
// notes who waits.
func (c *crowd) judge(t *rapid.T, cmd *ask, got wire.Result) {
	c.model.begin(c.clock, nil)
	c.model.waiters = slices.DeleteFunc(c.model.waiters, func(w nWaiter) bool { return w.deadline <= c.clock.Now })
	waiters := slices.Clone(c.model.waiters)
	want, _ := c.model.execute(&cmd.Command)
	if slices.Contains(c.model.paths, got.Path) {
		want.Path = got.Path
	}
	if got.Code != want.Code || got.Status != want.Status || got.Reason != want.Reason || got.Path != want.Path ||
		got.Owner != want.Owner {
		t.Fatalf("result:\n got %v\nwant %v", (*resultText)(&got), (*resultText)(&want))
	}
	if got.Code != wire.OK || got.Status != wire.StatusQueued {
		c.model.waiters = waiters // whoever was granted with it, engine says
	}
}

// after looks at the group when a step is done.
func (c *crowd) after(t *rapid.T) {
	if !reflect.DeepEqual(c.moved.out, c.plain.out) {
		t.Fatalf("the replicas say\n%v\n%v", (*outputText)(&c.moved.out), (*outputText)(&c.plain.out))
	}
	v := c.plain.state.View()
	if v.Digest() != c.moved.state.View().Digest() {
		t.Fatalf("the replicas differ: %s", diffRows(v, c.moved.state.View()))
	}
	c.see(v)
	c.checkHolders(t)
	c.checkTokens(t)
	if at, ok := c.plain.state.NextDeadline(); ok && at <= c.clock.Now {
		return // something is over; what it kept others from they get when it is ended
	}
	for _, w := range c.model.waiters {
		a := nAsk{owner: w.owner, ns: w.ns, alg: w.alg, locks: w.locks, seq: w.seq}
		if _, must := c.model.waits(&a); !must {
			t.Fatalf("nothing keeps %s from %v, and it waits", w.owner, w.locks)
		}
	}
}

// see fills the model with what anybody can see.
func (c *crowd) see(v *engine.View) {
	m := c.model
	m.begin(c.clock, nil)
	m.holds, m.leases, m.fences, m.policies = nil, nil, nil, nil
	polled := make(map[string]bool) // by owner, namespace and path
	for _, ns := range spaces {
		if alg, chosen := v.Policy(ns); chosen {
			m.policies = append(m.policies, nPolicy{ns, alg})
		}
		for _, path := range paths[ns] {
			d := v.Describe(ns, path, wire.MaxDescribePage)
			if d.Flag {
				m.setFence(ns, path, d.Token)
				m.counter = max(m.counter, d.Token)
			}
			for _, i := range d.List.Infos {
				m.holds = append(m.holds, nHold{i.Owner, ns, path, i.Mode, i.Algorithm, i.Permits, i.SinceUnixMillis,
					string(i.Meta), nil})
				if m.lease(i.Owner, ns) == nil {
					m.leases = append(m.leases,
						nLease{owner: i.Owner, ns: ns, deadline: m.now + int64(i.ExpiresInMillis)})
				}
			}
			for _, w := range d.List.Waiters {
				polled[w.Owner+" "+ns+" "+path] = polled[w.Owner+" "+ns+" "+path] || !w.Open
			}
		}
	}
	m.waiters = slices.DeleteFunc(m.waiters, func(w nWaiter) bool {
		if w.open {
			return slices.ContainsFunc(c.plain.out.Answers, func(a engine.Answer) bool { return a.Caller == w.caller })
		}
		return !polled[w.owner+" "+w.ns+" "+wishes(w.locks)[0].Path]
	})
}

// checkHolders looks for two owners whose locks conflict.
func (c *crowd) checkHolders(t *rapid.T) {
	for _, h := range c.model.holds {
		a := nAsk{owner: h.owner, ns: h.ns, alg: h.alg}
		l := wire.LockRequest{Path: h.path, Mode: h.mode, Permits: h.permits}
		if v, blocked := c.model.blocked(&a, l); blocked {
			t.Fatalf("%s holds %s %v beside %s: %v of %s", h.owner, h.path, h.mode, v.owner, v.reason, v.path)
		}
	}
}

// checkTokens looks for a fence that rose to less than one near it had: all tokens
// here are minted.
func (c *crowd) checkTokens(t *rapid.T) {
	fences := make(map[string]int64)
	for _, f := range c.model.fences {
		fences[f.path] = f.token
	}
	for _, f := range c.model.fences {
		before := c.fences[f.path]
		if f.token < before {
			t.Fatalf("the fence of %s fell from %d to %d", f.path, before, f.token)
		}
		if alg, _ := c.model.algorithm(f.ns); f.token == before || !alg.Recursive() {
			continue
		}
		for _, path := range paths[f.ns] {
			if (above(path, f.path) || above(f.path, path)) && c.fences[path] >= f.token {
				t.Fatalf("the fence of %s rose to %d, and %s had %d", f.path, f.token, path, c.fences[path])
			}
		}
	}
	c.fences = fences
}
