package pathlockd

import (
	"context"
	"slices"
	"time"
)

// open connects to a node in the background.
func (r *router) open(node string) {
	if again := r.mu.opening[node]; again != nil { // things have changed: it may work now
		select {
		case again <- struct{}{}:
		default:
		}
		return
	}
	if len(r.mu.lanes)+len(r.mu.opening) >= maxLanes || r.addressOf(node) == (address{}) {
		return
	}
	again := make(chan struct{}, 1)
	r.mu.opening[node] = again
	r.c.spawn(func() {
		for try := 0; r.wanted(node) && !r.connect(node); try++ {
			t := time.NewTimer(backoff(try, minBackoff, maxReopen))
			select {
			case <-t.C:
			case <-again:
			case <-r.c.ctx.Done():
			}
			t.Stop()
		}
	})
}

// wanted says that a node leads something by the latest topology, and has an address;
// if not, nobody connects to it any more.
func (r *router) wanted(node string) (yes bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer func() {
		if !yes {
			delete(r.mu.opening, node)
		}
	}()
	home, _ := r.c.home.server()
	return !r.mu.closed && !r.single() && node != home.NodeID && slices.Contains(r.mu.topology.Leaders, node) &&
		r.addressOf(node) != (address{})
}

// connect makes a lane to a node, and answers whether that worked.
func (r *router) connect(node string) bool {
	r.mu.Lock()
	a := r.addressOf(node)
	r.mu.Unlock()
	l := r.c.newLane(node)
	cn, err := r.c.connect(l.ctx, l, a, min(r.c.opt.dialTimeout, quickly))
	if err != nil {
		l.end()
		return false
	}
	if cn.server.NodeID != node { // one address stands for many nodes, say
		cn.nc.Close()
		l.end()
		return false
	}
	r.mu.Lock()
	if r.mu.closed {
		r.mu.Unlock()
		cn.nc.Close()
		l.end()
		return false
	}
	delete(r.mu.opening, node)
	r.mu.lanes[node] = l
	r.mu.Unlock()
	l.attach(cn) // and the ways follow
	go l.run(cn) // close waits for it
	return true
}

// all lists the lanes.
func (r *router) all() []*lane {
	all := []*lane{r.c.home}
	if r.table.Load() == nil {
		return all
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range r.mu.lanes {
		all = append(all, l)
	}
	return append(all, r.mu.strays...)
}

// tend closes lanes by which nothing goes any more, and answers when to look again.
func (r *router) tend(now time.Duration) time.Duration {
	if r.table.Load() == nil {
		return now + aDay
	}
	var over, stuck []*lane
	next := now + aDay
	for _, l := range r.all() {
		slow, open := r.tardy(l, now)
		if open {
			next = min(next, now+slowWay)
		}
		if slow {
			stuck = append(stuck, l)
		}
	}
	tied := r.tied(now)
	r.mu.Lock()
	some := len(r.mu.lanes)+len(r.mu.strays) > 0
	used := make(map[*lane]bool)
	for i := range r.ways {
		if w := r.ways[i].Load(); w != nil {
			w.use(used)
			l, again := w.stuck(now)
			if l != nil {
				stuck = append(stuck, l)
			}
			next = min(next, again)
		}
	}
	idle := func(l *lane) bool {
		switch {
		case r.one.Load() || tied == nil || tied[&l.session] || used[l] || !l.session.empty():
			l.idle = 0
		case l.idle == 0 || l.session.changes() != l.changes:
			l.idle, l.changes = now, l.session.changes()
		case now-l.idle >= idleLane && l.session.retire(l.changes):
			over = append(over, l)
			return true
		}
		return false
	}
	r.mu.strays = slices.DeleteFunc(r.mu.strays, idle)
	for node, l := range r.mu.lanes {
		if idle(l) {
			delete(r.mu.lanes, node)
		}
	}
	r.mu.Unlock()
	for _, l := range stuck {
		l.elsewhere(errSlow)
	}
	for _, l := range over {
		l.close(errRetired)
		r.c.keeper.forget(l)
	}
	if some {
		next = min(next, now+idleLane/2)
	}
	return next
}

// tied says of which lanes that look idle leases hang, or locks. To look at all leases costs too much to be done for
// lanes that are at work, or at each turn for one that is idle as long as a lock lasts: what was told is good for half
// of the time after which a lane is over. What hangs on one since was asked for by it, and so it is idle for less than
// that.
func (r *router) tied(now time.Duration) map[*session]bool {
	r.mu.Lock()
	if r.mu.tied != nil && now-r.mu.tiedAt < idleLane/2 {
		defer r.mu.Unlock()
		return r.mu.tied
	}
	r.mu.tied = nil
	used := make(map[*lane]bool)
	for i := range r.ways {
		if w := r.ways[i].Load(); w != nil {
			w.use(used)
		}
	}
	r.mu.Unlock()
	for _, l := range r.all() {
		if l != r.c.home && !used[l] && l.session.empty() {
			tied := r.c.keeper.tied()
			r.mu.Lock()
			r.mu.tied, r.mu.tiedAt = tied, now
			r.mu.Unlock()
			return tied
		}
	}
	return nil
}

// led says that somebody leads a group, as far as is known.
func (r *router) led(group int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return leaderOf(r.mu.topology, group) != ""
}

// hasRoom waits until no way holds back as much as the backlog takes, or more.
func (r *router) hasRoom(ctx context.Context) error {
	if r.table.Load() == nil {
		return nil
	}
	for i := range r.ways {
		if w := r.ways[i].Load(); w != nil {
			if err := w.hasRoom(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// tardy says that a lane's node does not answer what only that lane's session may ask, and which is about a namespace
// that goes by another one; and that such requests are open.
func (r *router) tardy(l *lane, now time.Duration) (slow, open bool) {
	t := r.table.Load()
	paths, open := l.session.tardy(now, max(l.patience, slowWay))
	for _, path := range paths {
		ns := ""
		if t.same(&ns, path) {
			group := t.group(ns)
			w := r.ways[group].Load()
			slow = slow || w != nil && !w.goesBy(l) && r.led(group)
		}
	}
	switch {
	case slow:
		l.patience = 2 * max(l.patience, slowWay)
	case !open:
		l.patience = 0
	}
	return slow, open
}

// close ends all lanes but the home lane, and answers what was held back.
func (r *router) close() {
	r.mu.Lock()
	r.mu.closed = true
	all := r.mu.strays
	for _, l := range r.mu.lanes {
		all = append(all, l)
	}
	r.mu.Unlock()
	for _, l := range all {
		l.close(ErrClosed)
	}
	for i := range r.ways {
		if w := r.ways[i].Load(); w != nil {
			r.c.fail(w.shut(), ErrClosed)
		}
	}
}
