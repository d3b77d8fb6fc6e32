package groups

import (
	"encoding/binary"
	"fmt"
	"sync"
	"time"
)

// leaders is who leads each log, as far as this node knows. Of a log that it hosts raft
// tells; of the others their leaders do (cluster.go). What is told of a later term
// counts, in whatever order it comes; so a node may think for a while that somebody
// leads who does not any more, and is told so when it asks there.
type leaders struct {
	mu   sync.Mutex
	by   map[uint64]leaderInfo
	lost map[uint64]lostLeader // of the logs hosted here that have no leader now
}

// lostLeader is who led a log last, as far as this node knows.
type lostLeader struct {
	host  string // "" if nobody did since this node's start
	since time.Duration
}

// leaderInfo is the leader of a term.
type leaderInfo struct {
	term uint64
	host string // raft host id, "" while there is none
	over bool   // it said that it leads no more; it is asked on, as it may be the first to know the next
	// since is when this node heard that it leads, in this term or in those before it: nobody can have waited
	// for a connection to it for longer.
	since time.Duration
}

// leaderOf answers the raft host id of the node that leads a log, and its term; "" when
// nobody is known to. It may be this node's own.
func (n *Node) leaderOf(shard uint64) (host string, term uint64) {
	n.leaders.mu.Lock()
	defer n.leaders.mu.Unlock()
	i := n.leaders.by[shard]
	return i.host, i.term
}

// leading answers the raft host id of the node that leads a log, "" when nobody is known to, or who did says that it
// leads no more.
func (n *Node) leading(shard uint64) (host string) {
	n.leaders.mu.Lock()
	defer n.leaders.mu.Unlock()
	if i := n.leaders.by[shard]; !i.over {
		return i.host
	}
	return ""
}

// noteLeader takes note of who leads a log in a term.
func (n *Node) noteLeader(shard, term uint64, host string) {
	l := n.logs[shard]
	if l == nil {
		return
	}
	n.leaders.mu.Lock()
	if n.leaders.by == nil {
		n.leaders.by = make(map[uint64]leaderInfo)
	}
	was := n.leaders.by[shard]
	// A term in which nobody was elected is no reason to pass over who goes on leading in an earlier one: a node that
	// was cut off while it stood for election has seen the later one alone.
	news := term > was.term || was.host == "" && host != ""
	if news {
		since := n.clock.Mono()
		if host == was.host {
			since = was.since
		}
		n.leaders.by[shard] = leaderInfo{term: term, host: host, since: since}
		if host != "" && !l.toldByRaft() {
			delete(n.leaders.lost, shard)
		}
	}
	n.leaders.mu.Unlock()
	if news && host != "" {
		n.expects(host)
		l.asksAnew()
		n.auditUntold(host, shard)
	}
	if news {
		l.kick()
		n.topologyChanged()
		n.lookAround()
	}
}

// leadsNoMore takes note that a node which was thought to lead a log says, on a connection, that it led in no term from
// open on, so far. The next leader says so to all, once: what it said may have come before this, and counts if it is of
// a term from open on. It may not reach this node to say so: who led last knows it too, and is asked on.
func (n *Node) leadsNoMore(shard, open uint64, c peerConn) {
	l := n.logs[shard]
	if l == nil || l.toldByRaft() {
		return
	}
	host, _ := n.leaderOf(shard)
	if host == "" || host == n.id.HostID || n.peer(host) != c {
		return
	}
	n.leaders.mu.Lock()
	was := n.leaders.by[shard]
	news := was.host == host && was.term < open && !was.over
	if news {
		was.over = true
		n.leaders.by[shard] = was
		n.leaders.lose(shard, lostLeader{host, n.clock.Mono()})
	}
	n.leaders.mu.Unlock()
	if news {
		n.topologyChanged()
	}
}

// redirect is whom who asks here for a log's leader is sent to, and the leader's term: "" when nobody leads it, and
// then the first term that this node may come to lead in yet. It may be a candidate, which leads in the next moment and
// says so before who asked hears of this; in a term that it led in before it leads no more.
func (l *shardLog) redirect() (host string, term uint64) {
	host, term = l.node.leaderOf(l.shard)
	if host == l.node.id.HostID && l.local.Load() != nil && l.lead.Load().leader == 0 {
		return "", term + 1
	}
	return host, term
}

// leaderUpdated is told by raft who leads a log that this node hosts.
func (n *Node) leaderUpdated(shard, replica, term, leader uint64) {
	l := n.logs[shard]
	if l == nil || !l.isOwn(replica) { // what is told late of a replica that was deleted says nothing of the next one
		return
	}
	n.noteLost(shard, leader == 0)
	l.leaderChanged(term, leader)
	host := ""
	switch {
	case leader == 0:
	case l.isOwn(leader):
		host = n.id.HostID
	default:
		host = n.book.HostOf(shard, leader)
	}
	n.noteLeader(shard, term, host)
	if last, _ := n.leaderOf(shard); leader == 0 && last != "" && n.peer(last) != nil {
		// it went on when it had stood still, and its connections were there before raft noticed
		n.auditUntold(last, shard)
	}
	n.topologyChanged()
}

// noteLost takes note that a log has lost its leader, or has one.
func (n *Node) noteLost(shard uint64, lost bool) {
	n.leaders.mu.Lock()
	defer n.leaders.mu.Unlock()
	if !lost {
		delete(n.leaders.lost, shard)
		return
	}
	if _, ok := n.leaders.lost[shard]; !ok {
		n.leaders.lose(shard, lostLeader{n.leaders.by[shard].host, n.clock.Mono()})
	}
}

// lose notes who led a log last. It is called under the lock.
func (l *leaders) lose(shard uint64, last lostLeader) {
	if l.lost == nil {
		l.lost = make(map[uint64]lostLeader)
	}
	l.lost[shard] = last
}

// lastLeader answers the raft host id of the node that led a log which has lost its leader, "" if that is not known.
func (n *Node) lastLeader(shard uint64) string {
	n.leaders.mu.Lock()
	defer n.leaders.mu.Unlock()
	return n.leaders.lost[shard].host
}

// noLeader is for how long a log has had no leader that this node knows of, and who led it
// last, for people. It is told of one that has none, or had none a moment ago.
func (n *Node) noLeader(shard uint64) (time.Duration, string) {
	n.leaders.mu.Lock()
	lost, ok := n.leaders.lost[shard]
	n.leaders.mu.Unlock()
	d := n.clock.Mono() - lost.since
	if l := n.logs[shard]; l != nil && !l.deserted() {
		if host, since, gone := l.unreached(); gone {
			d = n.clock.Mono() - since
			return d, fmt.Sprintf("log %d has had no leader that this node reaches for %.1f s; %s led it last", shard,
				d.Seconds(), n.nameOf(host))
		}
	}
	switch l := n.logs[shard]; {
	case !ok && (l != nil && l.local.Load() != nil || n.leading(shard) != ""):
		// It has one since the caller looked, or raft has told nothing yet.
		return 0, fmt.Sprintf("log %d had no leader until now", shard)
	case !ok || lost.host == "":
		return d, fmt.Sprintf("log %d has had no leader for %.1f s, since this node was started", shard, d.Seconds())
	case n.cluster == nil:
		return d, fmt.Sprintf("log %d has had no leader for %.1f s", shard, d.Seconds())
	}
	return d, fmt.Sprintf("log %d has had no leader for %.1f s; %s led it last", shard, d.Seconds(),
		n.nameOf(lost.host))
}

// led tells everybody that this node leads a log now.
func (n *Node) led(shard, term uint64) {
	n.noteLeader(shard, term, n.id.HostID)
	if n.cluster == nil {
		return
	}
	frame := appendLead([]byte{frameLeads}, shard, term)
	n.cluster.mu.Lock()
	defer n.cluster.mu.Unlock()
	for conn := range n.cluster.open {
		conn.Send(frame)
	}
}

func appendLead(frame []byte, shard, term uint64) []byte {
	return binary.AppendUvarint(binary.AppendUvarint(frame, shard), term)
}

// leadership is what raft last said of a log.
type leadership struct {
	term   uint64
	leader uint64 // replica id, 0 for none
}

// leaderChanged is told by raft who leads the log now.
func (l *shardLog) leaderChanged(term, leader uint64) {
	l.lead.Store(&leadership{term: term, leader: leader})
	if !l.isOwn(leader) {
		l.held.Store(0)
	}
	l.doubt()
}

// mine is the term in which raft says that this node leads the log, 0 while it does
// not.
func (l *shardLog) mine() uint64 {
	if lead := l.lead.Load(); l.isOwn(lead.leader) {
		return lead.term
	}
	return 0
}

// leads says that this process may propose batches.
func (l *shardLog) leads() bool {
	lead := l.lead.Load()
	return l.isOwn(lead.leader) && l.held.Load() == lead.term && lead.term != 0
}

// isOwn says that a replica of the log is this node's.
func (l *shardLog) isOwn(replica uint64) bool {
	m := l.local.Load()
	return m != nil && m.Replica == replica
}
