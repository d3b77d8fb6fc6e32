package cluster

import (
	"maps"
	"slices"

	"github.com/pathlockd/pathlockd/bench/session"
	"github.com/pathlockd/pathlockd/wire"
)

// subscriptions are those of a direct connection. What they hear is kept until something
// is asked, and its user hears it then, as from a connection that is read while something
// is asked.
type subscriptions struct {
	ear    session.Ear
	last   uint64
	by     map[uint64]*wire.Subscription
	pushes []func(session.Ear)
}

// Hear implements Conn.
func (d *direct) Hear(e session.Ear) { d.subs.ear = e }

// control says that a connection answers an operation by itself.
func control(op wire.Op) bool {
	return op == wire.OpPing || op == wire.OpSubscribe || op == wire.OpUnsubscribe || op == wire.OpTopology
}

// control carries out what the server would that has the connection.
func (d *direct) control(req *wire.Request, done chan<- wire.Result) {
	select {
	case <-d.gone:
		return
	default:
	}
	var res wire.Result
	switch req.Op {
	case wire.OpSubscribe:
		d.mu.Lock()
		d.subs.last++
		sub := &wire.Subscription{Owner: req.Owner, Kinds: req.Kinds, From: req.Positions, Number: d.subs.last, Sink: d}
		if d.subs.by == nil {
			d.subs.by = make(map[uint64]*wire.Subscription)
		}
		d.subs.by[sub.Number] = sub
		d.mu.Unlock()
		cursor, err := d.node.Subscribe(sub)
		if err != nil {
			res = wire.Result{Code: err.Code, Message: err.Message}
			break
		}
		res.Count, res.List = sub.Number, &wire.List{Positions: cursor}
	case wire.OpUnsubscribe:
		d.mu.Lock()
		sub := d.subs.by[req.Target]
		delete(d.subs.by, req.Target)
		d.mu.Unlock()
		if sub != nil {
			d.node.Unsubscribe(sub)
		}
	case wire.OpTopology:
		now, _ := d.node.Topology(nil)
		res.List = &wire.List{Topology: now}
	default:
	}
	done <- res
}

// unsubscribe ends all of them.
func (d *direct) unsubscribe() {
	d.mu.Lock()
	all := slices.Collect(maps.Values(d.subs.by))
	d.subs.by = nil
	d.mu.Unlock()
	for _, sub := range all {
		d.node.Unsubscribe(sub)
	}
}

// push keeps something for the ear.
func (d *direct) push(p func(session.Ear)) {
	d.frost.pass(func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		select {
		case <-d.gone:
		default:
			d.subs.pushes = append(d.subs.pushes, p)
		}
	})
}

// tell lets the ear hear.
func (d *direct) tell() {
	d.mu.Lock()
	pushes := d.subs.pushes
	d.subs.pushes = nil
	d.mu.Unlock()
	for _, p := range pushes {
		if d.subs.ear != nil {
			p(d.subs.ear)
		}
	}
}

// Deliver implements wire.EventSink.
func (d *direct) Deliver(sub *wire.Subscription, kind wire.EventKind, path, namespace string, token int64,
	at wire.Position) {
	e := &wire.Event{Subscription: sub.Number, Kind: kind, Owner: sub.Owner, Path: path, Namespace: namespace,
		Token: token, At: at}
	d.push(func(ear session.Ear) { ear.Event(e) })
}

// Progress implements wire.EventSink.
func (d *direct) Progress(sub *wire.Subscription, cursor []wire.Position) {
	d.moved(sub, cursor, false)
}

// Gap implements wire.EventSink.
func (d *direct) Gap(sub *wire.Subscription, cursor []wire.Position) { d.moved(sub, cursor, true) }

func (d *direct) moved(sub *wire.Subscription, cursor []wire.Position, gap bool) {
	p := &wire.Progress{Subscription: sub.Number, Cursor: slices.Clone(cursor)}
	d.push(func(ear session.Ear) { ear.Moved(p, gap) })
}
