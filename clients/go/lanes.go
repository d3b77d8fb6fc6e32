package pathlockd

import (
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
	return !r.mu.closed && !r.mu.bound && node != home.NodeID && slices.Contains(r.mu.topology.Leaders, node) && r.addressOf(node) != (address{})
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
	tied := r.c.keeper.tied()
	var over, stuck []*lane
	r.mu.Lock()
	some := len(r.mu.lanes)+len(r.mu.strays) > 0
	used := make(map[*lane]bool)
	for i := range r.ways {
		if w := r.ways[i].Load(); w != nil {
			w.use(used)
			if l := w.stuck(now); l != nil {
				stuck = append(stuck, l)
			}
		}
	}
	idle := func(l *lane) bool {
		switch {
		case tied[&l.session] || used[l] || !l.session.empty():
			l.idle = 0
		case l.idle == 0:
			l.idle = now
		case now-l.idle >= idleLane && l.session.retire():
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
		return now + idleLane/2
	}
	return now + aDay
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
