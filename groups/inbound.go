package groups

import (
	"encoding/binary"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/pathlockd/pathlockd/groups/codec"
	"github.com/pathlockd/pathlockd/groups/replica"
	"github.com/pathlockd/pathlockd/wire"
)

const (
	// maxPeerBytes is how much of one peer's commands may be under way here; over it they
	// are refused with UNAVAILABLE. Each counts for its size and commandBytes.
	maxPeerBytes = 64 << 20
	commandBytes = 512
	// maxPeerReads is how many reads of one peer may be under way here; over it the peer
	// is to ask again.
	maxPeerReads = 1024
	// answersAtOnce is how many bytes of answers are gathered at most before they are
	// sent.
	answersAtOnce = 256 << 10
)

// inbound is a connection on which a peer forwards. Its frames are taken by the
// connection's reader alone; answers are given by any goroutine, and sent by Flush.
type inbound struct {
	n       *Node
	conn    peerConn
	host    string
	order   [2]uint64         // starts and seq, of the reader
	refused map[uint64]uint64 // by log: lanes up to this one are; of the reader
	closed  atomic.Bool       // what came on it is not proposed, nor answered
	bytes   atomic.Int64      // see maxPeerBytes
	reads   atomic.Int32

	mu  sync.Mutex
	out []byte // answers
}

// inboundOf answers what is known of a connection that a peer asks on.
func (n *Node) inboundOf(c peerConn, host string) *inbound {
	f := &n.forwards
	f.mu.Lock()
	defer f.mu.Unlock()
	in := f.in[c]
	if in == nil {
		in = &inbound{n: n, conn: c, host: host, refused: make(map[uint64]uint64)}
		if f.in == nil {
			f.in, f.of = make(map[peerConn]*inbound), make(map[string]latest)
		}
		f.in[c] = in
	}
	return in
}

// latest says that no later connection of the same peer has brought commands; those that
// an earlier one brought are shut out.
func (in *inbound) latest(order [2]uint64) bool {
	if in.closed.Load() {
		return false
	}
	if in.order == order {
		return true
	}
	f := &in.n.forwards
	f.mu.Lock()
	was := f.of[in.host]
	if slices.Compare(order[:], was.order[:]) < 0 {
		f.mu.Unlock()
		return false
	}
	in.order = order
	f.of[in.host] = latest{in, order}
	f.mu.Unlock()
	if was.in != nil && was.in != in {
		was.in.shut()
	}
	if order[0] > 0 {
		in.n.processKnown(in.host, order[0]) // before what the later process asks
		in.n.processes.alive(in.host, order[0])
	}
	if order[0] > 0 && in.n.processes.gone(in.host, order[0]) { // it was in a buffer as its process ended
		in.shut()
		return false
	}
	return true
}

// latest is the latest connection on which a peer sent commands. Its order is kept when
// it is gone: what came on an earlier one may be taken from its buffers yet.
type latest struct {
	in    *inbound
	order [2]uint64
}

// overUpTo drops what came from a peer's processes that are over, though the end of their connection is not known here
// yet: of what waits, and is under way, nobody else tells.
func (f *forwarding) overUpTo(host string, starts uint64) {
	f.mu.Lock()
	was := f.of[host]
	f.mu.Unlock()
	if was.in != nil && was.order[0] > 0 && was.order[0] <= starts {
		was.in.shut()
		was.in.conn.Close(errProcessOver) // it may live after all, and asks again then
	}
}

// shut drops what came on the connection and is not proposed yet.
func (in *inbound) shut() {
	if in.closed.Swap(true) {
		return
	}
	for _, l := range in.n.ordered() {
		l.doubt()
	}
	in.n.leftAlone(slices.DeleteFunc(in.n.waits.those(func(p *part) bool { return p.from == in }), func(p *part) bool {
		return !in.n.waits.take(p.caller(), p)
	})...)
}

// takeCommands queues what a peer forwards.
func (n *Node) takeCommands(in *inbound, from *codec.Reader) {
	order := [2]uint64{from.Uvarint(), from.Uvarint()}
	shard, term, lane, number := from.Uvarint(), from.Uvarint(), from.Uvarint(), from.Uvarint()
	l := n.logs[shard]
	if from.Err != nil || l == nil {
		from.Err = codec.ErrMalformed
		return
	}
	if !in.latest(order) {
		in.conn.Close(errOlder)
		return
	}
	// Parts point into the frame for as long as they live.
	r := replica.BatchReader{Reader: codec.Reader{Buf: append([]byte(nil), from.Buf...)}}
	if from.Err = r.Tables(); from.Err != nil {
		return
	}
	sessions := make([]*wire.Session, len(r.Sessions))
	for i := range r.Sessions {
		s := &r.Sessions[i]
		sessions[i] = &wire.Session{ID: s.ID, Epoch: s.Epoch, Window: uint32(s.Window)}
	}
	takes := l.mine() == term && lane > in.refused[shard]
	if !takes {
		in.refused[shard] = max(in.refused[shard], lane)
	}
	var to repliers
	now := n.clock.Mono()
	for ; r.Next(); number++ {
		p := &part{
			Command: replica.Command{
				Group: r.Group, Op: r.Req.Op, NArgs: r.NArgs, Body: r.Body, NSLen: r.NSLen, Version: r.Cmd.Version,
				Settled: r.Settled, Sub: r.Sub, Meta: r.Cmd.Meta, Bound: r.Cmd.Bound, Grace: uint64(r.Cmd.Grace),
			},
			from:   in,
			number: number,
			term:   term,
			log:    l,
			since:  now,
			again:  r.Again,
			twice:  r.Tried,
			asks:   r.Insists,
			placed: r.Attached,
		}
		if n.logOfAny(p.Group, l) != l {
			from.Err = codec.ErrMalformed
			break
		}
		if r.Session != nil {
			p.Session = sessions[r.Which]
			p.ID = r.Cmd.Caller.ID
			p.waits = p.Op == wire.OpAcquire && r.Req.Flags&wire.FlagWait != 0
		}
		if !takes {
			in.refuse(p)
			continue
		}
		if err := n.takes(in, p, r.Tried); err != nil {
			var res wire.Result
			res.Fail(err)
			in.reply(p, &res)
			continue
		}
		if p.waits && !n.attach(p, &to) {
			n.finish(p)
			in.reply(p, &superseded)
			continue
		}
		l.push(p)
	}
	if r.Err != nil {
		from.Err = r.Err
	}
	to.flush()
	in.Flush()
	if takes {
		l.start()
	}
}

// logOfAny is the log of a group, which is the given one for all groups of a log.
func (n *Node) logOfAny(group uint16, all *shardLog) *shardLog {
	switch {
	case group == replica.EveryGroup:
		return all
	case group != replica.SystemGroup && int(group) >= len(n.homes):
		return nil
	}
	return n.logOf(group)
}

// takes counts a peer's part in, or says why it is not taken. One that may have been carried out (tried), or has its
// place in a queue, was taken before: to refuse it would say that nothing was done.
func (n *Node) takes(in *inbound, p *part, tried bool) *wire.Error {
	if spec, _ := p.Op.Spec(); spec.Kind != wire.KindInternal && !tried {
		if err := n.refusesWrite(p.Op); err != nil {
			return err
		}
	}
	size := len(p.Body) + len(p.Meta) + commandBytes
	if now := in.bytes.Add(int64(size)); now > maxPeerBytes && !tried {
		in.bytes.Add(int64(-size))
		return wire.Errorf(wire.Unavailable,
			"the node that leads has %d bytes of requests under way that were forwarded from the same node, at most "+
				"%d are taken; nothing was done, try again",
			now, maxPeerBytes)
	}
	p.bytes = size
	// Parts of a call were let in where they come from; to refuse one here would cut the call short.
	if p.Group == replica.EveryGroup || p.Op == wire.OpCancelWait || p.Sub != 0 || tried {
		n.inflight[n.slot(p.Group)].Add(1) // as where they come from: they are never refused
	} else if err := n.admit(p.Group); err != nil {
		in.release(p)
		return err
	}
	p.counted = true
	return nil
}

// release counts a part out.
func (in *inbound) release(p *part) {
	in.bytes.Add(int64(-p.bytes))
	p.bytes = 0
}

// reply answers a part.
func (in *inbound) reply(p *part, res *wire.Result) { in.tell(p, answerResult, res) }

// queued tells that a part waits. From now on only its name is needed here.
func (in *inbound) queued(p *part, res *wire.Result) {
	in.tell(p, answerQueued, res)
	p.Body, p.Meta = nil, nil
}

func (in *inbound) tell(p *part, kind byte, res *wire.Result) {
	in.release(p)
	if in.closed.Load() {
		return
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	b := binary.AppendUvarint(in.begin(), p.log.shard)
	b = append(binary.AppendUvarint(b, p.number), kind)
	in.out = appendSized(b, func(b []byte) []byte { return wire.AppendWhole(b, res) })
	if len(in.out) >= answersAtOnce {
		in.send()
	}
}

// refuse tells that a part is not done here.
func (in *inbound) refuse(p *part) {
	in.release(p)
	if in.closed.Load() {
		return
	}
	host, term := p.log.redirect()
	in.mu.Lock()
	defer in.mu.Unlock()
	b := binary.AppendUvarint(in.begin(), p.log.shard)
	b = append(binary.AppendUvarint(b, p.number), answerElsewhere)
	in.out = codec.AppendString(binary.AppendUvarint(b, term), host)
	if len(in.out) >= answersAtOnce {
		in.send()
	}
}

// begin answers the frame of answers that is being gathered.
func (in *inbound) begin() []byte {
	if len(in.out) == 0 {
		return append(in.out, frameAnswers)
	}
	return in.out
}

func (in *inbound) send() {
	in.conn.Send(in.out)
	if in.out = in.out[:0]; cap(in.out) > answersAtOnce {
		in.out = nil
	}
}

// Flush sends the answers that were gathered.
func (in *inbound) Flush() {
	in.mu.Lock()
	defer in.mu.Unlock()
	if len(in.out) > 0 {
		in.send()
	}
}

// appendSized appends what f appends, and its length before it.
func appendSized(b []byte, f func([]byte) []byte) []byte {
	const room = 3 // what most lengths fit in
	from := len(b)
	b = f(append(b, 0, 0, 0))
	n := len(b) - from - room
	if n < 1<<(7*room) {
		b[from], b[from+1], b[from+2] = byte(n)|0x80, byte(n>>7)|0x80, byte(n>>14)
		return b
	}
	whole := append([]byte(nil), b[from+room:]...)
	return append(binary.AppendUvarint(b[:from], uint64(n)), whole...)
}
