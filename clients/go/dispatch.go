package pathlockd

import (
	"strings"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// landed is one frame on its way from the connection to whom it concerns.
type landed struct {
	call   *call // nil for a push about no call
	way    *way  // to be told once the call knows; nil: none
	push   wire.PushKind
	code   wire.Code
	rest   wire.Reader
	fields int
}

// burst is how many frames are taken under one lock.
const burst = 128

// read takes what the server says until the connection is gone, and answers why.
func (cn *conn) read() error {
	for {
		if cn.have > 0 {
			if err := cn.dispatch(); err != nil {
				return err
			}
			if ofAnswer(cn.in[:cn.have]) {
				cn.spoke.Store(cn.heard.Load())
			}
		}
		n, err := cn.nc.Read(cn.in[cn.have:])
		if n > 0 {
			cn.have += n
			cn.heard.Store(int64(cn.c.now()))
		} else if err != nil {
			return err
		}
	}
}

// ofAnswer says that what has come of a frame is of an answer: its array begins with the id of a request, that of a
// push with 0.
func ofAnswer(frame []byte) bool {
	id := 5 // behind the length and an array of up to 15
	if len(frame) > 4 && frame[4] == 0xdc {
		id += 2
	}
	return len(frame) > id && frame[id] != 0
}

// dispatch hands on the whole frames that have been read.
//
// While it does, what callers and callbacks send is only collected (corked); one
// write at the end takes it all. So a burst of answers is one read and, when each
// brings forth the next request, one write.
func (cn *conn) dispatch() error {
	buf := cn.in[:cn.have]
	var need int
	for {
		used, want, err := cn.collect(buf)
		for i := range cn.landed {
			// After an error too: nobody else will answer these calls.
			if fault := cn.deliver(&cn.landed[i]); err == nil {
				err = fault
			}
		}
		if err != nil {
			return err
		}
		buf = buf[used:]
		if len(cn.landed) < burst {
			need = want
			break
		}
	}
	cn.keep(buf, need)
	cn.uncork()
	return nil
}

// collect takes the first frames of buf and finds their calls.
func (cn *conn) collect(buf []byte) (used, need int, err error) {
	clear(cn.landed)
	cn.landed = cn.landed[:0]
	s := &cn.l.session
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.corked = s.mu.conn == cn
	for len(cn.landed) < burst {
		payload, size, want, err := wire.NextFrame(buf[used:], wire.MaxFrameBytes)
		if err != nil {
			return used, 0, &ProtocolError{Step: "frame", Err: err}
		}
		if size == 0 {
			return used, want, nil
		}
		used += size
		if err := cn.sort(payload); err != nil {
			return used, 0, &ProtocolError{Step: "head of a reply", Err: err}
		}
	}
	return used, 0, nil
}

// sort finds out whom a frame concerns. Called under the session's lock.
func (cn *conn) sort(payload []byte) error {
	id, code, r, fields, err := wire.DecodeReply(payload)
	if err != nil {
		return err
	}
	s := &cn.l.session
	f := landed{code: wire.Code(code), rest: r, fields: fields}
	if id != 0 {
		cn.spoke.Store(cn.heard.Load())
		if f.call = s.answered(id); f.call != nil {
			if f.call.timed && !f.call.resent {
				cn.tie.prove(f.call.sent)
				if !f.call.waits {
					cn.trip = min(time.Duration(cn.heard.Load())-f.call.sent, cn.trip+cn.trip/8+time.Millisecond)
				}
			}
			f.way = f.call.settle()
			s.keep(f.call, f.code)
			cn.landed = append(cn.landed, f)
		}
		return nil
	}
	f.push = wire.PushKind(code)
	if f.push == wire.PushQueued {
		ahead := r
		if f.call = s.mu.sent.get(ahead.Uint()); f.call != nil {
			s.heardOf(f.call)
			if f.way = f.call.settle(); f.way == nil {
				f.call.settled = true // for when it gets one
			}
		}
	}
	cn.landed = append(cn.landed, f)
	return nil
}

// deliver hands one frame to whom it concerns.
func (cn *conn) deliver(f *landed) error {
	err := cn.take(f)
	if f.way != nil {
		f.way.settled() // what is held back for this comes after it
	}
	return err
}

func (cn *conn) take(f *landed) error {
	if f.push != 0 {
		return cn.pushed(f)
	}
	switch {
	case f.code == wire.Unavailable:
		cn.l.refused(cn)
	case f.call.probe: // which says nothing of what else it takes
	default:
		if cn.l.tries.Load() != 0 { // callers use what lies beside it
			cn.l.tries.Store(0)
		}
		cn.refusing = 0
	}
	cn.reply.err, cn.reply.broken, cn.reply.code, cn.reply.tie = nil, nil, f.code, cn.tie
	cn.reply.results, cn.reply.fields = f.rest, f.fields
	f.call.to.land(f.call, &cn.reply)
	return cn.reply.broken
}

// pushed takes what the server says by itself.
func (cn *conn) pushed(f *landed) error {
	switch f.push {
	case wire.PushQueued:
		var q wire.Queued
		if err := q.Decode(&f.rest, f.fields); err != nil {
			return &ProtocolError{Step: "queued push", Err: err}
		}
		if f.call == nil {
			return nil
		}
		if to, ok := f.call.to.(interface{ queued(*wire.Result) }); ok {
			to.queued(&q.Result)
		}
	case wire.PushEvent, wire.PushProgress, wire.PushGap:
		return cn.c.subs.pushed(f)
	case wire.PushLease:
		var e wire.LeaseEvent
		if err := e.Decode(&f.rest, f.fields); err != nil {
			return &ProtocolError{Step: "lease push", Err: err}
		}
		cn.c.keeper.told(cn.tie, &e)
	case wire.PushTopology:
		t, err := wire.DecodeTopology(&f.rest, f.fields)
		if err != nil {
			return &ProtocolError{Step: "topology push", Err: err}
		}
		own := cloneTopology(t)
		cn.c.router.learn(own, cn.tie.number)
		cn.c.watch.tell(own)
	case wire.PushGoodbye:
		why, err := wire.DecodeGoodbye(&f.rest, f.fields)
		if err != nil {
			return &ProtocolError{Step: "goodbye push", Err: err}
		}
		return &goodbye{wire.Error{Code: why.Code, Message: strings.Clone(why.Message)}}
	}
	return nil
}

// goodbye is the error of a connection that the server is about to close.
type goodbye struct{ err wire.Error }

func (g *goodbye) Error() string { return "the server closes the connection: " + g.err.Error() }
func (g *goodbye) Unwrap() error { return &g.err }

// keep moves what is left of the input to the front, and makes room for a frame
// that needs so many bytes.
func (cn *conn) keep(rest []byte, need int) {
	in := cn.in
	switch {
	case need > len(in):
		in = make([]byte, need)
	case len(in) > readBytes && max(need, len(rest)) <= readBytes:
		in = make([]byte, readBytes)
	}
	cn.have = copy(in, rest)
	cn.in = in
}

// uncork writes what was sent since collect.
func (cn *conn) uncork() {
	s := &cn.l.session
	s.mu.Lock()
	if s.mu.conn != cn {
		s.mu.Unlock()
		return
	}
	s.mu.corked = false
	mine := s.pump()
	s.mu.Unlock()
	if mine {
		cn.flush(false)
	}
}
