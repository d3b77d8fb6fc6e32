package groups

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"maps"
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/groups/replica"
	"github.com/pathlockd/pathlockd/groups/rows"
	"github.com/pathlockd/pathlockd/wire"
)

// Sessions of processes.
//
// A client of the native protocol has a session, and comes back with it when the process is gone that it
// waited at: so its wait has a grace. Calls of gRPC and HTTP have none that could come back. The server makes
// sessions for them, and a wait in one of these ends with the process: what is granted to it later is granted
// to nobody. So the ids of such sessions say which process they are of, and who leads a log ends the waits of a
// process that is over:
//
//   - those that it finds when its leader epoch begins, before anything else is carried out in that leader epoch, and
//     before time goes on in it (Began, seek, heldUp): else they would be granted what is released, or runs out, first;
//   - those in the logs that it leads when it gets to know that a process is over, before what it takes from a
//     later process of that node.
//
// A process is over when a later one of its node is known, or when nobody listens any more where it did. While
// nothing of this is known, it may be cut off, and have its callers: its waits have the grace that others have.
//
//	id = node(5) starts(3) random(8)
//
// A client may name its own session so: it may lose its waits earlier, and nobody else does. The random part
// keeps it from naming one that the server made.

// endWithin is the grace of a wait whose process is over, ms. With it the wait is over in the next entry with which
// time goes on, before anything can be granted to it. Were it over at once, what was granted then to who waits
// behind it would last from when time stands.
const endWithin = 1

// manyStarts is what stands in the id for this many starts of a node and more: of those it is not told which is the
// earlier.
const manyStarts = 1<<24 - 1

// nodeMark is what stands in a session's id for the node.
type nodeMark [rows.NodeMark]byte

func nodeMarkOf(host string) (m nodeMark) {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], xxh3.HashString(host))
	copy(m[:], b[:])
	return m
}

// startsOf is the process that a session's id says, by its node's count of starts.
func startsOf(id engine.Session) uint64 {
	return uint64(id[5])<<16 | uint64(id[6])<<8 | uint64(id[7])
}

// NewSession answers the id of a new session whose waits end with this process.
func (n *Node) NewSession() [wire.SessionBytes]byte { return newSessionOf(n.id.HostID, n.id.Starts) }

// newSessionOf answers the id of a new session of a node's process.
func newSessionOf(host string, starts uint64) (id [wire.SessionBytes]byte) {
	starts = min(starts, manyStarts)
	mark := nodeMarkOf(host)
	binary.BigEndian.PutUint64(id[:], starts)
	copy(id[:], mark[:])
	if _, err := rand.Read(id[8:]); err != nil {
		panic(err) // crypto/rand never fails on supported systems
	}
	return id
}

// processes is what is known of the processes of nodes, this one too.
type processes struct {
	ending sync.Mutex // what is news to one goroutine is not to another before its ends are queued

	mu sync.Mutex
	of map[nodeMark]processesOf
}

type processesOf struct {
	host string
	over uint64 // its processes up to this one are
	gone uint64 // those up to this one have a later one: no word of theirs takes it back that they are over
}

// note takes note that the processes of a node up to one are over, and says whether that is news.
func (p *processes) note(host string, over uint64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.of == nil {
		p.of = make(map[nodeMark]processesOf)
	}
	m := nodeMarkOf(host)
	was, known := p.of[m]
	if known && was.over >= over {
		return false
	}
	p.of[m] = processesOf{host, over, was.gone}
	return over > 0
}

// later takes note that a node has a later process than those up to one.
func (p *processes) later(host string, gone uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.of == nil {
		p.of = make(map[nodeMark]processesOf)
	}
	m := nodeMarkOf(host)
	of := p.of[m]
	p.of[m] = processesOf{host, of.over, max(of.gone, gone)}
}

// gone says that a process of a node surely is over.
func (p *processes) gone(host string, starts uint64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return starts <= p.of[nodeMarkOf(host)].gone
}

// host is the node that has the callers of a session, by raft host id; "" for a client's own session.
func (p *processes) host(id engine.Session) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.of[nodeMark(id[:rows.NodeMark])].host
}

// marks lists the nodes that are known, for a backup: in the cluster that is restored from it all their processes are
// over.
func (p *processes) marks() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []byte
	for _, m := range slices.SortedFunc(maps.Keys(p.of), func(a, b nodeMark) int { return bytes.Compare(a[:], b[:]) }) {
		all = append(all, m[:]...)
	}
	return string(all)
}

// alive takes note that a process is not over: it asks, whatever was thought of it, unless a later one is known.
func (p *processes) alive(host string, starts uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	m := nodeMarkOf(host)
	if of := p.of[m]; of.over == starts && of.gone < starts {
		of.over--
		p.of[m] = of
	}
}

// over says that the process is that a session is of.
func (p *processes) over(id engine.Session) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	of, known := p.of[nodeMark(id[:rows.NodeMark])]
	starts := startsOf(id)
	return known && starts <= of.over && starts < manyStarts
}

// processKnown takes note of a node's process, by its count of starts: those before it are over.
func (n *Node) processKnown(host string, starts uint64) {
	if starts > 0 {
		n.processes.later(host, starts-1) // from now on these are not heard
		n.processOver(host, starts-1)
	}
}

// processOver takes note that the processes of a node up to one are over, by its count of starts. What waits in
// them ends, before anything that is queued from now on.
func (n *Node) processOver(host string, upTo uint64) {
	n.processes.ending.Lock()
	defer n.processes.ending.Unlock()
	if !n.processes.note(host, upTo) {
		return
	}
	n.forwards.overUpTo(host, upTo)
	left := make(map[*shardLog][]orphan) // those may be under way yet
	for _, o := range n.forwards.left.those(func(o *orphan) bool { return n.processes.over(o.caller.Session) }) {
		left[o.l] = append(left[o.l], o)
	}
	for _, l := range n.ordered() {
		m := l.local.Load()
		if m == nil {
			continue
		}
		m.Lock() // a leader epoch that is being applied is held after this, and may not know of the process
		if !l.leads() {
			m.Unlock()
			continue
		}
		open := m.OpenCalls(l.held.Load())
		m.Unlock()
		n.endOver(l, append(n.overIn(l, open), left[l]...))
	}
}

// orphansIn lists the open calls of a log that are in such sessions.
func (n *Node) orphansIn(l *shardLog, open *replica.OpenCalls, are func(engine.Session) bool) (list []orphan) {
	open.Each(are, func(group uint16, call engine.OpenCall) {
		list = append(list, n.found(l, group, call, open.Term))
	})
	return list
}

// overIn lists those of processes that are over.
func (n *Node) overIn(l *shardLog, open *replica.OpenCalls) []orphan {
	return n.orphansIn(l, open, n.processes.over)
}

// endOver ends waits of processes that are over, before what is queued.
func (n *Node) endOver(l *shardLog, over []orphan) {
	if len(over) == 0 {
		return
	}
	ends := n.endsOf(over)
	l.mu.Lock()
	l.endFirst(ends)
	l.mu.Unlock()
	l.kick()
}

// endsOf is the ends of waits of processes that are over. It takes a while: no lock is held.
func (n *Node) endsOf(over []orphan) []*part {
	ends := make([]*part, len(over))
	for i, o := range over {
		_, ends[i] = n.orphanEnd(o, endWithin)
		ends[i].log, ends[i].first = o.l, true
		n.finish(ends[i]) // they take nobody's place: there may be more of them than of requests at once
	}
	return ends
}

// endFirst queues ends behind those that come first already. It is called under the lock. A log that is closed ends
// nothing.
func (l *shardLog) endFirst(ends []*part) {
	if len(ends) == 0 || l.mu.closed {
		return
	}
	mine := l.mine()
	l.mu.suspect = l.mu.suspect || slices.ContainsFunc(ends, func(p *part) bool { return p.term != mine })
	l.mu.queue = slices.Insert(l.mu.queue, l.firsts(), ends...)
}

// firsts is how many of those that are queued come first. It is called under the lock.
func (l *shardLog) firsts() int {
	return sort.Search(len(l.mu.queue), func(i int) bool { return !l.mu.queue[i].first })
}

// seek queues the ends of those waits that the log had as its leader epoch began. It is of run alone.
func (l *shardLog) seek() {
	l.mu.Lock()
	open := l.mu.found
	l.mu.Unlock()
	if open == nil {
		return
	}
	ends := l.node.endsOf(l.node.overIn(l, open))
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.found == open { // else there is a later leader epoch
		l.mu.found = nil
		l.endFirst(ends)
	}
}

// heldUp says that no time goes on, and nothing is proposed but ends that come first: such are under way, or what they
// end is not over yet. What runs out before that would be granted to it, as would what ran out before and was too much
// for one entry: that does not end either (still). A leader epoch has no other entries before
// them than barriers. It is called with drive held.
func (l *shardLog) heldUp(own replica.LeaderEpoch) bool {
	l.mu.Lock()
	found, ends := l.mu.found != nil, l.endsFirst()
	l.mu.Unlock()
	if found {
		return true
	}
	m := l.local.Load()
	was := l.drive.ends
	if l.drive.ends = ends; ends {
		return true
	}
	if was { // time stood still since they were carried out
		l.drive.until = m.AppliedTime() + endWithin + replica.Cut
	}
	mono := l.clock.Mono()
	left := l.drive.until - m.Stamp(own, mono)
	if left <= 0 {
		return false
	}
	l.drive.retryAt = max(l.drive.retryAt, mono+time.Duration(left)*time.Millisecond)
	return true
}

// endsFirst says that ends that come first are queued or under way, or not all known yet. It is called under the lock.
func (l *shardLog) endsFirst() bool {
	if l.mu.found != nil {
		return true
	}
	for _, f := range l.mu.batches {
		if p := f.parts[0]; p != nil && p.first {
			return true
		}
	}
	return len(l.mu.queue) > 0 && l.mu.queue[0].first
}
