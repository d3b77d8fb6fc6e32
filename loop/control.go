package loop

import (
	"bytes"
	"crypto/rand"
	"unsafe"

	"github.com/pathlockd/pathlockd/wire"
)

// control carries out what is about the connection itself.
func (s *session) control(id uint64, req *wire.Request) {
	var (
		res wire.Result
		err *wire.Error
	)
	switch req.Op {
	case wire.OpHello:
		err = s.greet(id, req.Hello, &res)
	case wire.OpCancel:
		s.srv.handler.Cancel(s.hello, req.Target)
	case wire.OpSubscribe:
		err = s.subscribe(req, &res)
	case wire.OpUnsubscribe:
		if sub := s.subs[req.Target]; sub != nil {
			s.unsubscribe(sub)
			delete(s.subs, req.Target)
		}
	case wire.OpTopology:
		s.topology(req.Watch, &res)
	}
	if err != nil {
		s.refuse(id, err)
		return
	}
	s.reply(id, req.Op, &res)
}

// greet opens the session.
func (s *session) greet(id uint64, h *wire.Hello, res *wire.Result) *wire.Error {
	if s.hello != nil {
		return wire.Errorf(wire.FailedPrecondition, "hello: was said already").By(wire.CauseHelloOrder)
	}
	features := h.Features & wire.Features
	ws := &wire.Session{
		Epoch: max(h.Epoch, 1), First: id, Meta: bytes.Clone(h.Meta),
		Window:   uint32(min(h.Window, uint64(s.srv.opt.InFlight))),
		Redirect: features&wire.FeatureRedirect != 0,
	}
	if ws.Window == 0 {
		ws.Window = uint32(s.srv.opt.InFlight)
	}
	if len(h.Session) == 0 {
		if _, err := rand.Read(ws.ID[:]); err != nil {
			panic(err) // crypto/rand never fails on supported systems
		}
	} else {
		copy(ws.ID[:], h.Session)
	}
	if err := s.srv.enter(s, ws); err != nil {
		return err
	}
	s.hello, s.grace = ws, h.Grace
	if features&wire.FeatureLeases != 0 {
		s.untell = s.srv.handler.Tell(ws.ID, s.tell)
	}
	o := &s.srv.opt
	res.List = &wire.List{Welcome: &wire.Welcome{
		Version: min(h.MaxVersion, wire.MaxProtocol), NodeID: o.NodeID, ClusterID: o.ClusterID,
		Session: ws.ID[:], Epoch: ws.Epoch, Features: features, Limits: o.limits(), ServerVersion: o.Version,
	}}
	return nil
}

func (s *session) subscribe(req *wire.Request, res *wire.Result) *wire.Error {
	if len(s.subs) >= s.srv.opt.Subscriptions {
		return wire.Errorf(wire.ResourceExhausted, "%d subscriptions are on this connection, at most %d are taken",
			len(s.subs), s.srv.opt.Subscriptions)
	}
	if err := s.affords(int64(len(req.Positions)) * positionBytes); err != nil {
		return err
	}
	s.lastSub++
	sub := &subscribed{Subscription: wire.Subscription{
		Owner: string([]byte(req.Owner)), Kinds: req.Kinds, Number: s.lastSub, Sink: &sink{s: s}, Conn: s,
	}}
	if len(req.Positions) > 0 {
		sub.From = append(sub.From, req.Positions...)
	}
	if s.subs == nil {
		s.subs = make(map[uint64]*subscribed)
	}
	s.subs[sub.Number] = sub
	cursor, err := s.srv.handler.Subscribe(&sub.Subscription)
	if err != nil {
		delete(s.subs, sub.Number)
		return err
	}
	if n := cap(sub.From); n > 0 {
		sub.kept = s.hold(int64(n) * positionBytes)
		sub.kept.calls++
	}
	// Progress that is on its way from before leads past what was just delivered again.
	s.r.post(item{do: func() { sub.live = true }})
	res.Count, res.List = sub.Number, &wire.List{Positions: cursor}
	return nil
}

// positionBytes is the memory of one place of a cursor.
const positionBytes = int64(unsafe.Sizeof(wire.Position{}))

// unsubscribe ends a subscription.
func (s *session) unsubscribe(sub *subscribed) {
	s.srv.handler.Unsubscribe(&sub.Subscription)
	if sub.kept != nil {
		s.drop(sub.kept)
	}
}

func (s *session) topology(watch bool, res *wire.Result) {
	var tell func(*wire.Topology)
	if s.unwatch != nil {
		s.unwatch()
		s.unwatch = nil
	}
	if watch {
		tell = func(t *wire.Topology) { s.push(wire.AppendTopology(nil, t)) }
	}
	t, stop := s.srv.handler.Topology(tell)
	if watch {
		s.unwatch = stop
	}
	res.List = &wire.List{Topology: t}
}
