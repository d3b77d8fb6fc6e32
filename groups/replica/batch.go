package replica

import (
	"encoding/binary"
	"fmt"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/groups/codec"
	"github.com/pathlockd/pathlockd/wire"
)

// Flags of a command. isTried without isAgain, which what was tried has, is isAttached: a wait that was told its place
// is to have that, or the answer to it, and is not to be taken for a new one.
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
	MaxBatchCommands = 1000
	maxBatchBytes    = 64 << 10
)

// BatchHead is what a batch says before its commands.
type BatchHead struct {
	Format      uint32 // of the entry
	LeaderEpoch LeaderEpoch
	Number      uint64 // grows within the leader epoch
	Next        bool   // it counts only right after the one before it
	Stamp       int64  // ms of the lease clock
	Wall        int64  // Unix ms
}

// Command is one command as a batch has it: what a request asks of one group.
type Command struct {
	Group   uint16
	Op      wire.Op
	NArgs   int
	Body    []byte        // encoded arguments; not changed while the command lives
	NSLen   int           // length of the namespace that the paths begin with (errand.head)
	Version uint64        // of the routes the namespace was resolved with
	Session *wire.Session // nil of one that no client asked
	ID      uint64        // request id on the session
	Settled uint64        // below it the client has all answers, 0: it does not say
	Sub     uint64        // tells the commands of one request apart, 0 for the only one
	Meta    []byte
	Bound   bool   // what it takes ends with the connection of the session
	Grace   uint64 // ms after that
}

// Attempts is what is known of earlier attempts of a command.
type Attempts uint8

const (
	// Attempted is one that was asked before on the same connection, or by a node that does not know what became of it.
	Attempted   Attempts = 1 << iota
	TriedByNode          // by a node
	Insisted             // by its client
	HasPlace             // by a node, and it was told that it has a place
)

// BatchWriter encodes one batch. Its memory is reused from batch to batch.
type BatchWriter struct {
	Buf      []byte
	commands []byte
	sessions []*wire.Session
	metas    []string
	count    int
}

// Reset begins a new batch.
func (w *BatchWriter) Reset() {
	clear(w.sessions)
	w.commands, w.sessions, w.metas, w.count = w.commands[:0], w.sessions[:0], w.metas[:0], 0
}

// Full says that no further command should go into the batch.
func (w *BatchWriter) Full() bool {
	return w.count >= MaxBatchCommands || len(w.commands) >= maxBatchBytes
}

// Add appends one command, and what is known of earlier attempts of it.
func (w *BatchWriter) Add(p *Command, before Attempts) {
	flags := byte(0)
	if p.Session != nil {
		flags |= hasSession
	}
	if len(p.Meta) > 0 {
		flags |= hasMeta
	}
	if p.Bound {
		flags |= isBound
	}
	if p.Sub != 0 {
		flags |= hasSub
	}
	if p.Session != nil && p.Settled != 0 && p.Settled <= p.ID {
		flags |= hasSettled
	}
	switch {
	case before&HasPlace != 0:
		flags |= isAttached
	case before&TriedByNode != 0:
		flags |= isTried | isAgain
	case before&Attempted != 0:
		flags |= isAgain
	}
	if before&Insisted != 0 {
		flags |= isInsisted
	}
	b := binary.AppendUvarint(w.commands, uint64(p.Group))
	b = append(b, byte(p.Op), flags)
	b = binary.AppendUvarint(b, p.Version)
	b = binary.AppendUvarint(b, uint64(p.NSLen))
	if p.Session != nil {
		b = binary.AppendUvarint(b, uint64(w.sessionIndex(p.Session)))
		b = binary.AppendUvarint(b, p.ID)
		if p.Sub != 0 {
			b = binary.AppendUvarint(b, p.Sub)
		}
		if flags&hasSettled != 0 {
			b = binary.AppendUvarint(b, p.ID-p.Settled)
		}
	}
	if len(p.Meta) > 0 {
		b = binary.AppendUvarint(b, uint64(w.metaIndex(p.Meta)))
	}
	if p.Bound {
		b = binary.AppendUvarint(b, p.Grace)
	}
	b = binary.AppendUvarint(b, uint64(p.NArgs))
	b = binary.AppendUvarint(b, uint64(len(p.Body)))
	w.commands = append(b, p.Body...)
	w.count++
}

// sessionIndex finds a session in the batch's table: commands of one session
// tend to come together, so the search starts at the end.
func (w *BatchWriter) sessionIndex(s *wire.Session) int {
	for i := len(w.sessions) - 1; i >= 0; i-- {
		if w.sessions[i] == s {
			return i
		}
	}
	w.sessions = append(w.sessions, s)
	return len(w.sessions) - 1
}

func (w *BatchWriter) metaIndex(m []byte) int {
	for i := len(w.metas) - 1; i >= 0; i-- {
		if w.metas[i] == string(m) {
			return i
		}
	}
	w.metas = append(w.metas, string(m))
	return len(w.metas) - 1
}

// Entry answers the encoded batch. The next call overwrites it.
func (w *BatchWriter) Entry(h *BatchHead) []byte {
	kind := byte(entryBatch)
	if h.Next {
		kind = entryNext
	}
	b := h.LeaderEpoch.append(append(w.Buf[:0], byte(h.Format), kind))
	b = binary.AppendUvarint(b, h.Number)
	b = binary.AppendVarint(b, h.Stamp)
	w.Buf = w.AppendTo(binary.AppendVarint(b, h.Wall))
	return w.Buf
}

// AppendTo appends the sessions, metas and commands.
func (w *BatchWriter) AppendTo(b []byte) []byte {
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
	ID     engine.Session
	Epoch  uint64
	Window int
	state  *Session // looked up when first needed
}

// BatchReader walks the commands of a batch. What it answers aliases the entry.
type BatchReader struct {
	codec.Reader
	head     BatchHead
	Sessions []sessionRef
	metas    [][]byte
	left     uint64
	Req      wire.Request
	Cmd      engine.Command
	Group    uint16
	Session  *sessionRef // of the command, nil for none
	Which    int         // of sessions it is
	Sub      uint64      // which part of its request it is
	Settled  uint64      // below it all of the session are, 0: it does not say
	// it was asked before on the same connection, or by a node that does not know what became of it
	Again    bool
	Tried    bool // by a node
	Attached bool // likewise, and it was told that it has a place
	Insists  bool // by its client
	NArgs    int
	NSLen    int
	Body     []byte
}

// open starts on a batch of a kind whose head r stands at.
func (b *BatchReader) open(r codec.Reader, kind byte) error {
	b.Reader = r
	b.head = BatchHead{LeaderEpoch: readLeaderEpoch(&b.Reader), Number: b.Uvarint(), Next: kind == entryNext}
	b.head.Stamp, b.head.Wall = b.Varint(), b.Varint()
	return b.Tables()
}

// Tables reads what commands refer to.
func (b *BatchReader) Tables() error {
	b.Sessions, b.metas = b.Sessions[:0], b.metas[:0]
	for n := b.Uvarint(); n > 0 && b.Err == nil; n-- {
		var s sessionRef
		copy(s.ID[:], b.Bytes(wire.SessionBytes))
		s.Epoch = b.Uvarint()
		s.Window = int(b.Uvarint())
		b.Sessions = append(b.Sessions, s)
	}
	for n := b.Uvarint(); n > 0 && b.Err == nil; n-- {
		b.metas = append(b.metas, b.Bytes(b.Uvarint()))
	}
	b.left = b.Uvarint()
	return b.Err
}

// Next reads the next command into cmd, group, session and body; false at the
// end, or after an error.
func (b *BatchReader) Next() bool {
	if b.left == 0 || b.Err != nil {
		return false
	}
	b.left--
	b.Group = uint16(b.Uvarint())
	op, flags := wire.Op(b.Byte()), b.Byte()
	b.Cmd = engine.Command{Req: &b.Req, Version: b.Uvarint()}
	nsLen := int(b.Uvarint())
	b.Session, b.Sub, b.Settled, b.NSLen = nil, 0, 0, nsLen
	b.Again, b.Tried, b.Insists = flags&(isAgain|isTried) != 0, flags&isTried != 0, flags&isInsisted != 0
	b.Attached = flags&(isAgain|isTried) == isAttached
	if flags&hasSession != 0 {
		if i := b.Uvarint(); i < uint64(len(b.Sessions)) {
			b.Session, b.Which = &b.Sessions[i], int(i)
			b.Cmd.Caller = engine.Caller{Session: b.Session.ID, ID: b.Uvarint()}
			b.Cmd.Epoch = b.Session.Epoch
			if flags&hasSub != 0 {
				b.Sub = b.Uvarint()
			}
			if flags&hasSettled != 0 {
				if b.Settled = b.Cmd.Caller.ID - b.Uvarint(); b.Settled > b.Cmd.Caller.ID {
					b.Err = codec.ErrMalformed
				}
			}
		} else {
			b.Err = codec.ErrMalformed
		}
	}
	if flags&hasMeta != 0 {
		if i := b.Uvarint(); i < uint64(len(b.metas)) {
			b.Cmd.Meta = b.metas[i]
		} else {
			b.Err = codec.ErrMalformed
		}
	}
	if flags&isBound != 0 {
		b.Cmd.Bound, b.Cmd.Grace = true, int64(b.Uvarint())
	}
	b.NArgs = int(b.Uvarint())
	b.Body = b.Bytes(b.Uvarint())
	if b.Err != nil {
		return false
	}
	if err := wire.DecodeArgs(op, b.Body, b.NArgs, &b.Req); err != nil {
		b.Err = fmt.Errorf("groups: log entry: %w", err)
		return false
	}
	if nsLen > 0 {
		subject := SubjectOf(&b.Req)
		switch {
		case nsLen > len(subject)+1:
			b.Err = codec.ErrMalformed
			return false
		case nsLen > len(subject):
			b.Cmd.NS, b.Cmd.Short = subject, true
		default:
			b.Cmd.NS = subject[:nsLen]
		}
	}
	return true
}

// SubjectOf is the path that a command's namespace is the beginning of.
func SubjectOf(req *wire.Request) string {
	switch {
	case len(req.Locks) > 0:
		return req.Locks[0].Path
	case len(req.Releases) > 0:
		return req.Releases[0].Path
	}
	return req.Namespace
}
