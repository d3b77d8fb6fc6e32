package groups

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/groups/replica"
	"github.com/pathlockd/pathlockd/groups/rows"
	"github.com/pathlockd/pathlockd/wire"
)

// TestHeardAsItIsThoughtOver: a node is looked for, as its last connection ended, and not found where it listens; what
// follows from that waits for what follows from another node's end. Meanwhile it asks on its next connection. That is
// carried out, or the connection is closed, so that it asks again.
func TestHeardAsItIsThoughtOver(t *testing.T) {
	r := newRig(t, nil)
	n := r.node
	l := n.logs[rows.SystemLog]
	first, next := new(wireEnd), new(wireEnd)
	asks := uint64(0)
	forwards := func(e *wireEnd, seq, lane uint64) {
		asks++
		p := &part{Command: replica.Command{
			Op: wire.OpIncrToken, Group: replica.SystemGroup, Session: r.session().session, ID: asks,
		}}
		p.Body, p.NArgs = wire.AppendArgs(nil, &wire.Request{Op: wire.OpIncrToken})
		var w replica.BatchWriter
		w.Reset()
		w.Add(&p.Command, p.attempts())
		b := []byte{frameCommands}
		for _, v := range []uint64{5, seq, rows.SystemLog, l.mine(), lane, asks} {
			b = binary.AppendUvarint(b, v)
		}
		n.forwarded(e, "peer", w.AppendTo(b))
	}
	forwards(first, 1, 1)
	eventually(t, "it is answered", func() bool { return first.sent() > 0 })
	n.peerGone(first)

	n.processes.ending.Lock() // another node's end is looked through
	thought, heard := make(chan struct{}), make(chan struct{})
	go func() { n.processOver("peer", 5); close(thought) }() // as looksFor does
	time.Sleep(20 * time.Millisecond)
	go func() { forwards(next, 2, 2); close(heard) }()
	time.Sleep(20 * time.Millisecond)
	n.processes.ending.Unlock()
	<-thought
	<-heard
	eventually(t, "what it asked is answered, or its connection is closed", func() bool {
		return next.sent() > 0 || next.ended()
	})
}
