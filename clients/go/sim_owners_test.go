package pathlockd

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// What the actors of the simulation do with their owners as a whole, and what is to be true in the end.

// several draws two paths that an owner can have at once.
func (a *actor) several() []Path {
	one := Path{Path: simPaths[a.rnd.IntN(2)], Mode: Mode(a.rnd.IntN(2))}
	return []Path{one, {Path: simPaths[2], Mode: Mode(a.rnd.IntN(2))}}
}

// simBound is what is known of how an owner is bound.
type simBound struct {
	unbinds int  // that were asked for
	open    int  // that are not answered
	sure    bool // a Bind was answered that no Unbind was beside or came after
}

// tie binds the actor's owner, ends that, or renews what it has.
func (a *actor) tie(ctx context.Context) {
	short, cancel := context.WithTimeout(ctx,
		a.draw([]time.Duration{20 * time.Millisecond, time.Second, 10 * time.Second}[a.rnd.IntN(3)]))
	defer cancel()
	ttl := a.r.ttl(a.rnd)
	switch a.rnd.IntN(4) {
	case 0:
		flags := wire.Flags(a.rnd.IntN(2)) * wire.FlagExtend
		_, _ = a.c.Renew(short, a.owner, ttl, "", flags, domains(a.renews[a.rnd.IntN(len(a.renews))])...)
	case 1:
		b := a.r.bond(a.owner, func(b *simBound) { b.unbinds, b.open, b.sure = b.unbinds+1, b.open+1, false })
		_ = a.c.Unbind(short, a.owner)
		a.r.bond(a.owner, func(*simBound) { b.open-- })
	default:
		if a.rnd.IntN(2) == 0 {
			ttl = 0
		}
		before := 0
		b := a.r.bond(a.owner, func(b *simBound) { before = b.unbinds - b.open })
		_, err := a.c.Bind(short, a.owner, simGraces[a.rnd.IntN(len(simGraces))], ttl)
		a.r.bond(a.owner, func(*simBound) { b.sure = b.sure || err == nil && b.unbinds == before })
	}
	a.r.inTime(short, "Renew, Bind or Unbind")
}

// inTime says that what a context bounds has come back with it.
func (r *simRun) inTime(ctx context.Context, what string) {
	if at, _ := ctx.Deadline(); time.Since(at) > 10*time.Millisecond {
		r.wrong("%s came back %v after its context ended", what, time.Since(at))
	}
}

// quiet says that no lock is to be lost any more: there has been no trouble for longer than its effects last.
func (r *simRun) quiet() bool { return time.Since(r.calm) > simCalm/2 }

// bond looks at what is known of an owner.
func (r *simRun) bond(owner string, f func(*simBound)) *simBound {
	r.mu.Lock()
	defer r.mu.Unlock()
	b := r.bonds[owner]
	if b == nil {
		b = new(simBound)
		r.bonds[owner] = b
	}
	f(b)
	return b
}

// wrong tells what went wrong, once all is over, with the last that happened.
func (r *simRun) wrong(format string, args ...any) {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	notes := r.s.notes[max(0, len(r.s.notes)-150):]
	r.t.Errorf("seed %d: %s\n%s", r.seed, fmt.Sprintf(format, args...), strings.Join(notes, "\n"))
}

// nothingLeft says that nothing is held once somebody says so.
func (r *simRun) nothingLeft(when string) {
	r.s.mu.Lock()
	r.s.tick()
	var left []string
	for path := range r.paths {
		res := r.s.state.View().Inspect(r.s.routes.Resolve(path), path)
		if res.Owner != "" && !r.s.delayed[res.Owner] {
			left = append(left, fmt.Sprintf("%s by %q", path, res.Owner))
		}
		readers := slices.DeleteFunc(slices.Clone(res.List.Names),
			func(owner string) bool { return r.s.delayed[owner] })
		if len(readers) > 0 {
			left = append(left, fmt.Sprintf("%s, read, by %q", path, readers))
		}
	}
	r.s.mu.Unlock()
	if len(left) > 0 {
		r.wrong("%s, and is held: %s", when, strings.Join(left, "; "))
	}
}

// stillBound says that who is to be bound is, on a connection that there is.
func (r *simRun) stillBound(clients []*simClient) {
	for owner, b := range r.bonds {
		if !b.sure || !slices.ContainsFunc(clients, func(c *simClient) bool { return c.owner() == owner }) {
			continue
		}
		r.s.mu.Lock()
		found := slices.ContainsFunc(r.s.nodes, func(n *simNode) bool {
			for c := range n.conns {
				if _, ok := c.boundBy(owner); ok {
					return true
				}
			}
			return false
		})
		r.s.mu.Unlock()
		if !found {
			r.wrong("Bind of %q was answered, and it is bound on no connection", owner)
		}
	}
}

// nobodyStuck says that each owner can take a lock.
func (r *simRun) nobodyStuck(clients []*simClient) {
	for i, c := range clients {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		l, err := c.c.TryLock(ctx, fmt.Sprintf("a:/%d/free", i), Owner(c.owner()))
		cancel()
		if err != nil {
			r.wrong("when all is quiet, client %d: %v", i, err)
			continue
		}
		if err := l.Unlock(); err != nil {
			r.wrong("when all is quiet, client %d gives back: %v", i, err)
		}
	}
}
