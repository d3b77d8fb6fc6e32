package groups

import (
	"github.com/pathlockd/pathlockd/groups/codec"
	"github.com/pathlockd/pathlockd/wire"
)

// takeAnswers delivers what came back from a leader.
func (n *Node) takeAnswers(c peerConn, from *codec.Reader) {
	r := codec.Reader{Buf: append([]byte(nil), from.Buf...)} // strings of results go on living
	var to repliers
	var res wire.Result
	for len(r.Buf) > 0 && r.Err == nil {
		l := n.logs[r.Uvarint()]
		number, kind := r.Uvarint(), r.Byte()
		if r.Err != nil || l == nil || kind > answerElsewhere {
			r.Err = codec.ErrMalformed
			break
		}
		if kind == answerElsewhere {
			term, host := r.Uvarint(), r.Text()
			if r.Err == nil {
				l.notThere(c, number, term, host)
			}
			continue
		}
		whole := wire.NewReader(r.Bytes(r.Uvarint()))
		if err := res.DecodeWhole(&whole); err != nil || r.Err != nil {
			r.Err = codec.ErrMalformed
			break
		}
		p := l.cameBack(c, number, kind)
		switch {
		case p == nil: // it was sent again elsewhere
		case kind == answerQueued:
			n.finish(p)
			p.queued(&res, &to)
			l.stays(number, p)
		default:
			if p.waits && leavesOpen(p, &res) {
				n.endUnheard(p)
			}
			n.deliver(p, &res, &to)
		}
	}
	from.Err = r.Err
	to.flush()
}

// leavesOpen says that an answer leaves it open whether a wait has a place: one that is refused without a look, as when
// the leader has too much under way, may have the one that it got when it was asked before.
func leavesOpen(p *part, res *wire.Result) bool {
	switch res.Code {
	case wire.DeadlineExceeded:
		return res.Cause != wire.CauseWaitOver
	case wire.Unavailable, wire.ResourceExhausted:
		return p.askedBefore()
	}
	return false
}

// endUnheard ends the wait of a part of which nobody knows what became, as its client may have gone: it is not to be
// granted to nobody. That it has a grace is noted while the call is open: when its connection ends before, the call is
// found, and after that this.
func (n *Node) endUnheard(p *part) {
	if n.waits.get(p.caller()) != p { // its client asked again
		return
	}
	w := p.unheardWait()
	n.waits.gives(w, n.clock.Mono())
	if n.waits.take(p.caller(), p) {
		n.endWait(w)
	}
}

// cameBack takes a part out of what is forwarded. One that is queued stays until stays.
func (l *shardLog) cameBack(c peerConn, number uint64, kind byte) *part {
	l.mu.Lock()
	a := &l.mu.forwarded
	p := a.parts[number]
	if a.conn != c || p == nil {
		l.mu.Unlock()
		return nil
	}
	if kind == answerQueued {
		a.parts[number] = nil
		l.mu.Unlock()
		return p
	}
	delete(a.parts, number)
	again := len(a.parts) == 0 && (a.refused || a.newer != 0)
	if again {
		l.comeBack()
	}
	l.mu.Unlock()
	if again {
		l.kick()
	}
	return p
}

// stays puts a part back whose caller was told that it is queued.
func (l *shardLog) stays(number uint64, p *part) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := &l.mu.forwarded
	if !a.gone {
		a.parts[number] = p
		return
	}
	p.tried = true
	a.back = append(a.back, p)
	if delete(a.parts, number); len(a.parts) == 0 {
		l.comeBack()
		l.kick()
	}
}

// notThere takes back a part that the node it was sent to does not take.
func (l *shardLog) notThere(c peerConn, number, term uint64, host string) {
	_, known := l.node.leaderOf(l.shard)
	hasty := false
	l.mu.Lock()
	a := &l.mu.forwarded
	if p := a.parts[number]; a.conn == c && p != nil {
		delete(a.parts, number)
		p.tried = p.tried || p.told.Load()
		a.back = append(a.back, p)
		hasty = p.hasty
		if !a.refused {
			a.refused = true
			switch {
			case host == "":
				a.retryAt = l.clock.Mono() + unledAfter
			case term <= known:
				a.retryAt = l.clock.Mono() + resendAfter
			}
		}
		if len(a.parts) == 0 {
			l.comeBack()
		} else if a.newer == 0 {
			a.newer = l.clock.Mono()
		}
	}
	l.mu.Unlock()
	if host != "" {
		l.node.noteLeader(l.shard, term, host)
	} else {
		l.node.leadsNoMore(l.shard, term, c)
	}
	if hasty { // now that it is known here who leads, if that was said
		l.hastyBack.Store(true)
	}
	l.kick()
}
