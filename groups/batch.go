package groups

import (
	"encoding/binary"
	"fmt"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/wire"
)

// Flags of a command. isTried without isAgain, which what was tried has, is isAttached: a wait that was told its place is
// to have that, or the answer to it, and is not to be taken for a new one.
const (
	hasSession = 1 << iota
	hasMeta
	isBound
	hasSub
	hasSettled
	isAgain
	isTried
	isInsisted

	isAttached = isTried
)

// Limits of a batch. Larger ones stall on dragonboat's own back-pressure.
const (
	maxBatchCommands = 1000
	maxBatchBytes    = 64 << 10
)

// batchHead is what a batch says before its commands.
type batchHead struct {
	format      uint32 // of the entry
	leaderEpoch leaderEpoch
	number      uint64 // grows within the leader epoch
	next        bool   // it counts only right after the one before it
	stamp       int64  // ms of the lease clock
	wall        int64  // Unix ms
}

// batchWriter encodes one batch. Its memory is reused from batch to batch.
type batchWriter struct {
	buf      []byte
	commands []byte
	sessions []*wire.Session
	metas    []string
	count    int
}

func (w *batchWriter) reset() {
	clear(w.sessions)
	w.commands, w.sessions, w.metas, w.count = w.commands[:0], w.sessions[:0], w.metas[:0], 0
}

// full says that no further command should go into the batch.
func (w *batchWriter) full() bool {
	return w.count >= maxBatchCommands || len(w.commands) >= maxBatchBytes
}

// add appends one command.
func (w *batchWriter) add(p *part) {
	flags := byte(0)
	if p.session != nil {
		flags |= hasSession
	}
	if len(p.meta) > 0 {
		flags |= hasMeta
	}
	if p.bound {
		flags |= isBound
	}
	if p.sub != 0 {
		flags |= hasSub
	}
	if p.session != nil && p.settled != 0 && p.settled <= p.id {
		flags |= hasSettled
	}
	switch {
	case p.attached():
		flags |= isAttached
	case p.tried, p.twice:
		flags |= isTried | isAgain
	case p.repeats():
		flags |= isAgain
	}
	if p.insisted() {
		flags |= isInsisted
	}
	b := binary.AppendUvarint(w.commands, uint64(p.group))
	b = append(b, byte(p.op), flags)
	b = binary.AppendUvarint(b, p.version)
	b = binary.AppendUvarint(b, uint64(p.nsLen))
	if p.session != nil {
		b = binary.AppendUvarint(b, uint64(w.sessionIndex(p.session)))
		b = binary.AppendUvarint(b, p.id)
		if p.sub != 0 {
			b = binary.AppendUvarint(b, p.sub)
		}
		if flags&hasSettled != 0 {
			b = binary.AppendUvarint(b, p.id-p.settled)
		}
	}
	if len(p.meta) > 0 {
		b = binary.AppendUvarint(b, uint64(w.metaIndex(p.meta)))
	}
	if p.bound {
		b = binary.AppendUvarint(b, p.grace)
	}
	b = binary.AppendUvarint(b, uint64(p.nargs))
	b = binary.AppendUvarint(b, uint64(len(p.body)))
	w.commands = append(b, p.body...)
	w.count++
}

// sessionIndex finds a session in the batch's table: commands of one session
// tend to come together, so the search starts at the end.
func (w *batchWriter) sessionIndex(s *wire.Session) int {
	for i := len(w.sessions) - 1; i >= 0; i-- {
		if w.sessions[i] == s {
			return i
		}
	}
	w.sessions = append(w.sessions, s)
	return len(w.sessions) - 1
}

func (w *batchWriter) metaIndex(m []byte) int {
	for i := len(w.metas) - 1; i >= 0; i-- {
		if w.metas[i] == string(m) {
			return i
		}
	}
	w.metas = append(w.metas, string(m))
	return len(w.metas) - 1
}

// entry answers the encoded batch. The next call overwrites it.
func (w *batchWriter) entry(h *batchHead) []byte {
	kind := byte(entryBatch)
	if h.next {
		kind = entryNext
	}
	b := h.leaderEpoch.append(append(w.buf[:0], byte(h.format), kind))
	b = binary.AppendUvarint(b, h.number)
	b = binary.AppendVarint(b, h.stamp)
	w.buf = w.appendTo(binary.AppendVarint(b, h.wall))
	return w.buf
}

// appendTo appends the sessions, metas and commands.
func (w *batchWriter) appendTo(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(w.sessions)))
	for _, s := range w.sessions {
		b = append(b, s.ID[:]...)
		b = binary.AppendUvarint(b, s.Epoch)
		b = binary.AppendUvarint(b, uint64(s.Window))
	}
	b = binary.AppendUvarint(b, uint64(len(w.metas)))
	for _, m := range w.metas {
		b = binary.AppendUvarint(b, uint64(len(m)))
		b = append(b, m...)
	}
	b = binary.AppendUvarint(b, uint64(w.count))
	return append(b, w.commands...)
}

// sessionRef is a session as a batch names it.
type sessionRef struct {
	id     engine.Session
	epoch  uint64
	window int
	state  *session // looked up when first needed
}

// batchReader walks the commands of a batch. What it answers aliases the entry.
type batchReader struct {
	entryReader
	head     batchHead
	sessions []sessionRef
	metas    [][]byte
	left     uint64
	req      wire.Request
	cmd      engine.Command
	group    uint16
	session  *sessionRef // of the command, nil for none
	which    int         // of sessions it is
	sub      uint64      // which part of its request it is
	settled  uint64      // below it all of the session are, 0: it does not say
	again    bool        // it was asked before on the same connection, or by a node that does not know what became of it
	tried    bool        // by a node
	attached bool        // likewise, and it was told that it has a place
	insists  bool        // by its client
	nargs    int
	nsLen    int
	body     []byte
}

// open starts on a batch of a kind whose head r stands at.
func (b *batchReader) open(r entryReader, kind byte) error {
	b.entryReader = r
	b.head = batchHead{leaderEpoch: b.leaderEpoch(), number: b.uvarint(), next: kind == entryNext, stamp: b.varint(), wall: b.varint()}
	return b.tables()
}

// tables reads what commands refer to.
func (b *batchReader) tables() error {
	b.sessions, b.metas = b.sessions[:0], b.metas[:0]
	for n := b.uvarint(); n > 0 && b.err == nil; n-- {
		var s sessionRef
		copy(s.id[:], b.bytes(wire.SessionBytes))
		s.epoch = b.uvarint()
		s.window = int(b.uvarint())
		b.sessions = append(b.sessions, s)
	}
	for n := b.uvarint(); n > 0 && b.err == nil; n-- {
		b.metas = append(b.metas, b.bytes(b.uvarint()))
	}
	b.left = b.uvarint()
	return b.err
}

// next reads the next command into cmd, group, session and body; false at the
// end, or after an error.
func (b *batchReader) next() bool {
	if b.left == 0 || b.err != nil {
		return false
	}
	b.left--
	b.group = uint16(b.uvarint())
	op, flags := wire.Op(b.byte()), b.byte()
	b.cmd = engine.Command{Req: &b.req, Version: b.uvarint()}
	nsLen := int(b.uvarint())
	b.session, b.sub, b.settled, b.nsLen = nil, 0, 0, nsLen
	b.again, b.tried, b.insists = flags&(isAgain|isTried) != 0, flags&isTried != 0, flags&isInsisted != 0
	b.attached = flags&(isAgain|isTried) == isAttached
	if flags&hasSession != 0 {
		if i := b.uvarint(); i < uint64(len(b.sessions)) {
			b.session, b.which = &b.sessions[i], int(i)
			b.cmd.Caller = engine.Caller{Session: b.session.id, ID: b.uvarint()}
			b.cmd.Epoch = b.session.epoch
			if flags&hasSub != 0 {
				b.sub = b.uvarint()
			}
			if flags&hasSettled != 0 {
				if b.settled = b.cmd.Caller.ID - b.uvarint(); b.settled > b.cmd.Caller.ID {
					b.err = errEntry
				}
			}
		} else {
			b.err = errEntry
		}
	}
	if flags&hasMeta != 0 {
		if i := b.uvarint(); i < uint64(len(b.metas)) {
			b.cmd.Meta = b.metas[i]
		} else {
			b.err = errEntry
		}
	}
	if flags&isBound != 0 {
		b.cmd.Bound, b.cmd.Grace = true, int64(b.uvarint())
	}
	b.nargs = int(b.uvarint())
	b.body = b.bytes(b.uvarint())
	if b.err != nil {
		return false
	}
	if err := wire.DecodeArgs(op, b.body, b.nargs, &b.req); err != nil {
		b.err = fmt.Errorf("groups: log entry: %w", err)
		return false
	}
	if nsLen > 0 {
		subject := subjectOf(&b.req)
		switch {
		case nsLen > len(subject)+1:
			b.err = errEntry
			return false
		case nsLen > len(subject):
			b.cmd.NS, b.cmd.Short = subject, true
		default:
			b.cmd.NS = subject[:nsLen]
		}
	}
	return true
}

// subjectOf is the path that a command's namespace is the beginning of.
func subjectOf(req *wire.Request) string {
	switch {
	case len(req.Locks) > 0:
		return req.Locks[0].Path
	case len(req.Releases) > 0:
		return req.Releases[0].Path
	}
	return req.Namespace
}
