package events

import (
	"encoding/binary"
	"slices"
	"sync"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/groups/codec"
	"github.com/pathlockd/pathlockd/groups/mesh"
	"github.com/pathlockd/pathlockd/wire"
)

// What happens to a lease is told to the sessions that it is tied to, wherever they are connected:
// every node that applies the log looks among the sessions of its own connections (tellers), and
// passes it on to the nodes that are fed the log. Nothing is kept of it, and it is told once more
// after a restart, or to two connections of a session: it names what it is about, and so does no
// harm when it is late or double. Who may have missed some is told so, and renews.
//
//	leases = 11 log [session kind owner namespace n mark…]…   with none: you may have missed some
const FrameLeases = FrameFeedEnd + 1

// TellsLeases is behind the place in a feed frame of who takes frames of leases.
const TellsLeases = 1

// maxLeaseFrame is about how long one is.
const maxLeaseFrame = 256 << 10

// maxLeaseFrames bounds what is told of an entry to who is fed: a way that more than maxBacklogBytes wait for is
// closed, with all else that goes on it.
const maxLeaseFrames = mesh.MaxFrameBytes

// tellers is the sessions that want to be told, by connection.
type tellers struct {
	mu  sync.Mutex // Apply waits for it, and event loops do
	By  map[engine.Session][]*teller
	All []*teller
}

// teller is one connection of a session.
type teller struct {
	tell func(*wire.LeaseEvent)
	slot int // in tellers.All
}

// Add has a session told of its leases on a connection, until stop is called. tell must not block.
func (t *tellers) Add(id engine.Session, tell func(*wire.LeaseEvent)) (stop func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	one := &teller{tell, len(t.All)}
	if t.By == nil {
		t.By = make(map[engine.Session][]*teller)
	}
	t.By[id], t.All = append(t.By[id], one), append(t.All, one)
	return func() { t.remove(id, one) }
}

func (t *tellers) remove(id engine.Session, one *teller) {
	t.mu.Lock()
	defer t.mu.Unlock()
	last := len(t.All) - 1
	t.All[one.slot] = t.All[last]
	t.All[one.slot].slot = one.slot
	t.All[last] = nil
	t.All = t.All[:last]
	if t.By[id] = slices.DeleteFunc(t.By[id], func(o *teller) bool { return o == one }); len(t.By[id]) == 0 {
		delete(t.By, id)
	}
}

// tell tells those who are here, of some leases at a time.
func (t *tellers) tell(told []engine.Told) {
	for some := range slices.Chunk(told, atOnce) {
		t.mu.Lock()
		for i := range some {
			for _, one := range t.By[some[i].Session] {
				one.tell(&some[i].LeaseEvent)
			}
		}
		t.mu.Unlock()
	}
}

// missed tells everybody, some at a time, that he may have missed some. It goes from the last to the first: whoever
// takes the place of one who goes in the meantime was told already, or has come since.
func (t *tellers) missed() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for left := len(t.All); left > 0; left = min(left, len(t.All)) {
		to := max(0, left-atOnce)
		for _, one := range t.All[to:left] {
			one.tell(&wire.LeaseEvent{})
		}
		left = to
		t.mu.Unlock()
		t.mu.Lock()
	}
}

// TellFurther tells what an entry of a log says of leases, before its events: who has those has heard of it. So many
// bytes were sent of the entry to who is fed already; it returns how many were then. Of one that says more than a way
// between nodes can be trusted to take, who is fed is told that this was not all.
func (h *Hub) TellFurther(log uint64, told []engine.Told, sent int) int {
	h.Leases.tell(told)
	if sent > maxLeaseFrames-2*maxLeaseFrame {
		return sent // he was told that this is not all
	}
	feeds := h.leaseFeeds(log)
	head := binary.AppendUvarint([]byte{FrameLeases}, log)
	for len(told) > 0 && len(feeds) > 0 {
		frame := slices.Clone(head)
		if sent > maxLeaseFrames-2*maxLeaseFrame {
			told = nil
		}
		for len(told) > 0 && len(frame) < maxLeaseFrame {
			frame, told = appendTold(frame, &told[0]), told[1:]
		}
		for _, c := range feeds {
			c.Send(frame) // one that does not take it is lost, and is told so when it is fed anew
		}
		if sent += len(frame); len(told) == 0 && len(frame) > len(head) && sent > maxLeaseFrames-2*maxLeaseFrame {
			for _, c := range feeds {
				c.Send(head) // what follows is not sent
			}
		}
	}
	return sent
}

// leaseFeeds is the nodes that are fed a log, and take frames of leases. Who begins to be fed from now on is told that
// he may have missed some.
func (h *Hub) leaseFeeds(log uint64) []Peer {
	h.Mu.Lock()
	defer h.Mu.Unlock()
	return slices.DeleteFunc(slices.Clone(h.Stream(log).Feeds), func(c Peer) bool { return !h.leases[c] })
}

// FeedLeases has a node told of leases that begins to be fed a log. What was told before is not known any more.
func (h *Hub) FeedLeases(conn Peer, log uint64) {
	h.Mu.Lock()
	defer h.Mu.Unlock()
	h.leases[conn] = true
	conn.Send(binary.AppendUvarint([]byte{FrameLeases}, log))
}

func appendTold(b []byte, t *engine.Told) []byte {
	b = append(append(b, t.Session[:]...), byte(t.Kind))
	b = codec.AppendString(codec.AppendString(b, t.Owner), t.Namespace)
	b = binary.AppendUvarint(b, uint64(len(t.Acquires)))
	for _, mark := range t.Acquires {
		b = binary.BigEndian.AppendUint64(b, mark)
	}
	return b
}

func readTold(r *codec.Reader) (t engine.Told) {
	copy(t.Session[:], r.Bytes(wire.SessionBytes))
	t.Kind, t.Owner, t.Namespace = wire.EventKind(r.Byte()), r.Text(), r.Text()
	for n := r.Uvarint(); n > 0 && r.Err == nil; n-- {
		if b := r.Bytes(8); r.Err == nil {
			t.Acquires = append(t.Acquires, binary.BigEndian.Uint64(b))
		}
	}
	return t
}

// LeaseFrame takes what another node tells of leases.
func (h *Hub) LeaseFrame(r *codec.Reader) {
	if len(r.Buf) == 0 {
		h.Leases.missed()
	}
	for len(r.Buf) > 0 && r.Err == nil {
		if t := readTold(r); r.Err == nil {
			h.Leases.tell([]engine.Told{t})
		}
	}
}
