package crash

import (
	"fmt"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// The parts that actors play. Paths of one part are in namespaces of their own.

// contend fights for few paths with the others, in every way there is to ask.
func contend(a *actor, _ int) {
	namespace := fmt.Sprintf("mutex:/%c", 'a'+a.rng.IntN(2))
	path := fmt.Sprintf("%s/%d", namespace, a.rng.IntN(2))
	o := a.owner(a.name+"@"+path, namespace, long, path)
	switch n := a.rng.IntN(100); {
	case n < 60:
		if !o.poll() {
			return
		}
	case n < 85:
		if !o.await() {
			return
		}
	default:
		token := int64(0)
		if n >= 95 {
			token = a.load.rec.High(namespace) + 1 + a.rng.Int64N(1000)
		}
		res, ok := o.acquire(wire.FlagNoQueue, token)
		if !ok {
			o.clear(o.releaseAll())
			return
		}
		if res.Status != wire.StatusOK {
			a.pause(breath)
			return
		}
	}
	for range a.rng.IntN(3) {
		switch a.rng.IntN(3) {
		case 0:
			o.renew()
		case 1:
			o.assert()
		default:
			o.acquire(0, 0) // it is ours: the token stays
		}
	}
	a.pause(breath)
	o.letGo()
}

// keep takes locks of its own and holds some of them for the rest of the run.
func keep(a *actor, turn int) {
	namespace := fmt.Sprintf("kept:/%s%d", a.name, turn%3)
	paths := []string{fmt.Sprintf("%s/%d/x", namespace, turn)}
	if turn%4 == 0 {
		paths = append(paths, fmt.Sprintf("%s/%d/y", namespace, turn))
	}
	o := a.owner(fmt.Sprintf("%s-%d", a.name, turn), namespace, long, paths...)
	token := int64(0)
	if a.rng.IntN(4) == 0 {
		token = a.load.rec.High(namespace) + a.rng.Int64N(5000)
	}
	o.acquire(0, token)
	if a.rng.IntN(4) > 0 {
		o.release() // if that is not known to be done, it stays so
	}
	a.pause(5 * breath)
}

// lease takes short leases, lets them run out, and looks how that goes; and longer
// ones, that last over a checkpoint and a kill and are looked at after those.
func lease(a *actor, turn int) {
	namespace := "lease:/" + a.name
	longer := time.Duration(2000+a.rng.IntN(10_000)) * time.Millisecond
	a.owner(fmt.Sprintf("%s-longer-%d", a.name, turn), namespace, longer,
		fmt.Sprintf("%s/longer-%d", namespace, turn)).acquire(0, 0)
	path := fmt.Sprintf("%s/%d", namespace, turn%2)
	ttl := time.Duration(150+a.rng.IntN(1500)) * time.Millisecond
	o := a.owner(fmt.Sprintf("%s-%d", a.name, turn), namespace, ttl, path)
	if !o.poll() {
		return
	}
	for range a.rng.IntN(3) {
		a.pause(ttl / 2)
		if !o.renew() {
			return
		}
	}
	if a.rng.IntN(4) == 0 {
		o.letGo()
	}
	over := a.load.rec.Now() + ttl*3/2
	for a.load.rec.Now() < over && a.load.ctx.Err() == nil {
		a.glance(namespace, path)
		a.pause(ttl / 4)
	}
	if a.rng.IntN(2) == 0 {
		o.renew()
	}
}

// permit takes permits of a semaphore.
func permit(a *actor, _ int) {
	const namespace, permits = "permits:/x", 2
	path := fmt.Sprintf("%s/%d", namespace, a.rng.IntN(2))
	o := a.owner(a.name+"@"+path, namespace, long, path)
	o.permits = permits
	if !o.poll() {
		return
	}
	a.pause(2 * breath)
	o.letGo()
}

// read shares a path with other readers, and excludes a writer.
func read(a *actor, turn int) {
	const namespace, path = "shared:/x", "shared:/x/doc"
	o := a.owner(a.name+"/reads", namespace, long, path)
	if o.mode = wire.ModeRead; turn%3 == 2 {
		o = a.owner(a.name+"/writes", namespace, long, path)
	}
	if !o.poll() {
		return
	}
	a.pause(breath)
	o.letGo()
}

// line lets owners queue up behind one that holds a path for long, and then come
// to their turn one after the other.
func line(a *actor, turn int) {
	namespace := "line:/" + a.name
	path := namespace + "/gate"
	var queue []*owner
	for i := range 8 + a.rng.IntN(8) {
		o := a.owner(fmt.Sprintf("%s-%d-%d", a.name, turn, i), namespace, long, path)
		if i%3 == 2 {
			o.mode = wire.ModeRead
		}
		for a.load.ctx.Err() == nil {
			if _, ok := o.acquire(0, 0); ok {
				break
			}
		}
		queue = append(queue, o)
		a.pause(20 * breath)
	}
	for _, o := range queue {
		if !o.poll() {
			return
		}
		a.pause(breath)
		o.letGo()
	}
}

// policy changes the rules of a namespace, which clears the lock it has there.
func policy(a *actor, turn int) {
	const namespace, path = "policy:/x", "policy:/x/doc"
	o := a.owner(a.name, namespace, long, path)
	o.acquire(wire.FlagNoQueue, 0)
	// Each differs from the one before and the one before that, so a change that is
	// not known to be done is followed by one that surely is a change.
	algorithms := []wire.Algorithm{wire.PointRW, wire.RecursiveWrite, wire.PointWrite}
	op := o.op(SetPolicy)
	op.Algorithm = algorithms[turn%len(algorithms)]
	a.do(op, &wire.Request{Op: wire.OpSetPolicy, Namespace: namespace, Algorithm: op.Algorithm})
	a.glance(namespace, path)
	a.pause(10 * breath)
}

// count increments the cluster's counter. What is asked again is known by its
// session, or by a key.
func count(a *actor, turn int) {
	op := Op{Kind: Increment, Owner: a.name, Namespace: "counter"}
	req := &wire.Request{Op: wire.OpIncrToken}
	if turn%2 == 0 {
		req.Key = fmt.Sprintf("%s-%d", a.name, turn)
	}
	a.do(op, req)
	a.pause(breath)
}
