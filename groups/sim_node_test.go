package groups

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/uuid"
	"github.com/zeebo/xxh3"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/groups/codec"
	"github.com/pathlockd/pathlockd/groups/datadir"
	"github.com/pathlockd/pathlockd/groups/raft"
	"github.com/pathlockd/pathlockd/groups/replica"
	"github.com/pathlockd/pathlockd/groups/rows"
	"github.com/pathlockd/pathlockd/wire"
)

// simNode is a machine that a node lives on.
type simNode struct {
	w        *world
	index    int
	host     string // raft host id
	cfg      Config
	fs       *vfs.MemFS
	node     *Node // nil while it is down
	began    time.Duration
	life     int // grows with each crash
	face     *simFace
	sighted  map[string]uint64 // what gossip told of the others' counts of starts, by host
	halting  bool              // its node is being stopped
	pause    time.Duration
	slept    time.Duration // since when it stands still, or stood still last
	asleep   []func()      // what came while it stood still
	witness  bool
	pipes    map[string]*simEnd    // by host: the connection that this node dialed
	accepted []*simEnd             // that others did
	rate     float64               // of its clock
	step     time.Duration         // of its time of day
	limits   func(*replica.Limits) // what it states beside its build's
}

// still says that the machine stands still, as if stopped by a signal.
func (n *simNode) still() bool { return n.w.now < n.pause }

// awake has something come to the machine, once it does not stand still: in the order in which it
// came, however often the machine is stopped.
func (n *simNode) awake(do func()) {
	if !n.still() && len(n.asleep) == 0 {
		do()
		return
	}
	if n.asleep = append(n.asleep, do); len(n.asleep) == 1 {
		n.w.at(n.pause, n.wake)
	}
}

func (n *simNode) wake() {
	if n.still() {
		n.w.at(n.pause, n.wake)
		return
	}
	do := n.asleep[0]
	if n.asleep = n.asleep[1:]; len(n.asleep) > 0 {
		n.w.at(n.w.now, n.wake)
	}
	do()
}

// Mono and Wall make the machine its node's clock.
func (n *simNode) Mono() time.Duration {
	return time.Hour + time.Duration(float64(n.w.now)*n.rate)
}

func (n *simNode) Wall() time.Time {
	return time.Unix(1_700_000_000, 0).Add(n.w.now + n.step)
}

// simBirth is what a run's cluster was founded with.
type simBirth struct {
	nodes, logs, groups, segments int
	sessions                      int // that a log remembers, 0: as its build has it
}

// hurried says that entries of the run have time for little of what is over.
func (w *world) hurried() bool { return w.seed%5 == 1 }

// forgetful says that nodes of the run differ in how long they state that answers to keys are kept, and that few are
// for long.
func (w *world) forgetful() bool { return w.seed%7 == 3 }

// lapses says that logs of the run soon forget sessions, and clients ask again for as much shorter: in the proportions
// of a build (rememberMillis).
func (w *world) lapses() bool { return w.seed%6 == 2 }

const (
	lapseRepeat  = 4 * time.Second // what clients are told, who ask again for nine tenths of it
	lapseTimeout = 3 * time.Second // of requests, at a node
	lapseStill   = 3 * time.Second // what lies with a node that stands still for longer is not taken
	lapseMemory  = lapseRepeat*9/10 + lapseStill + 2*lapseTimeout + time.Second
)

// addNode makes a machine with an empty disk and a node's identity.
func (w *world) addNode(b simBirth, witness bool) *simNode {
	i := len(w.nodes)
	host := uuid.NewSHA1(uuid.Nil, fmt.Appendf(nil, "host %d", i)).String()
	n := &simNode{w: w, index: i, host: host, fs: vfs.NewCrashableMem(), witness: witness,
		rate: 1 + 0.01*(w.rng.Float64()-0.5)}
	n.cfg = Config{
		DataDir: filepath.Join(w.dir, fmt.Sprint("n", i)), NodeID: fmt.Sprint("n-", i), GroupCount: b.groups,
		LogCount: b.logs,
		Segments: b.segments, ReplicationFactor: 3, RequestTimeout: 10 * time.Second, ElectionMin: simElection,
		SnapshotLog: 200, KeepEntries: 100, MaxQueued: 64, FS: n.fs, Clock: n,
		Free: func(string) (uint64, error) { return 1 << 40, nil },
		folding: replica.FoldBounds{
			Age: 3 * time.Second, Many: 3, Most: 12, Every: 2 * time.Second, Slice: 4, Pause: 4 * time.Millisecond,
		},
		Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
	}
	if w.seed%4 == 0 && !witness { // few are taken at once, so that nodes refuse each other's
		n.cfg.MaxInflight = 3
	}
	if w.lapses() {
		n.cfg.RequestTimeout = lapseTimeout
	}
	n.limits = func(l *replica.Limits) {
		if w.lapses() {
			l.RememberMillis = int(lapseMemory.Milliseconds())
		}
		if b.sessions > 0 {
			l.MaxSessions = b.sessions
		}
		if w.hurried() {
			x := xxh3.HashString(fmt.Sprint(w.seed, n.index, n.life))
			l.ReapBudget, l.DepartAtOnce = 1+int(x%4), 1+int(x/4%3)
		}
		if w.forgetful() {
			x := xxh3.HashString(fmt.Sprint("keys", w.seed, n.index, n.life))
			l.KeptMillis = []int{1500, 20_000, 300_000}[x%3]
		}
	}
	if witness {
		n.rate = 1
	}
	w.nodes = append(w.nodes, n)
	return n
}

// found writes the identity of a machine's node.
func (n *simNode) found(b simBirth) error {
	id := &datadir.Identity{
		Format: rows.NewestFormat, ClusterID: uuid.NewSHA1(uuid.Nil, []byte("cluster")).String(), NodeID: n.cfg.NodeID,
		HostID: n.host,
		Settings: datadir.Settings{GroupCount: b.groups, LogCount: b.logs, Segments: b.segments,
			Algorithm: wire.RecursiveRW.String(), Replication: 3},
		Replicas: make(map[uint64]datadir.Replica), Dropped: make(map[uint64]uint64),
	}
	for _, shard := range n.w.shards {
		if r := n.w.logs[shard].reps[n.index]; r != nil {
			id.Replicas[shard] = datadir.Replica{ID: r.id}
		}
	}
	raft := filepath.Join(n.cfg.DataDir, "raft")
	if err := os.MkdirAll(raft, 0o700); err != nil {
		return err
	}
	owner := uuid.MustParse(n.host)
	if err := os.WriteFile(filepath.Join(raft, datadir.RaftOwnerFile), append(make([]byte, 8), owner[:]...),
		0o600); err != nil {
		return err
	}
	return id.Save(n.cfg.DataDir)
}

// start starts the machine's node.
func (n *simNode) start() {
	w := n.w
	n.life++
	n.pipes = make(map[string]*simEnd)
	cfg := n.cfg
	cfg.FS = n.fs
	cfg.Fatal = func(err error) { w.fail("node %d ends: %v", n.index, err) }
	life := n.life
	cfg.stated = n.limits
	cfg.seams = &seams{
		raft:    func(*Node) raft.Host { return &simRaft{w: w, node: n, life: life, by: make(map[uint64]*simRaftLog)} },
		tasks:   &simTasks{w, n, life},
		peer:    func(host string) peerConn { return n.dial(host) },
		cutOff:  n.cutOff,
		process: uint64(n.index+1)<<32 | uint64(n.life),
	}
	if n.witness {
		cfg.seams.beside = w.models
	}
	node, err := Open(cfg)
	if err != nil {
		w.fail("node %d does not start: %v", n.index, err)
		return
	}
	for _, shard := range w.shards {
		for _, r := range w.logs[shard].reps {
			if r != nil {
				node.book.Add(shard, r.id, r.node.host)
			}
		}
	}
	n.node, n.began, n.accepted, n.face, w.trouble = node, w.now, nil, n.newFace(), w.now
	n.rose()
	node.Tap(func(e engine.Event, at wire.Position) { w.check.tapped(w, n, e, at) }, func() {})
	w.note("node %d starts, queue limit %d", n.index, cfg.MaxQueued)
}

// crash ends the machine's node at once. With lost its disk forgets what was not synced.
func (n *simNode) crash(lost bool) {
	w := n.w
	if n.node == nil {
		return
	}
	w.note("node %d crashes, its disk keeps what was not synced: %v", n.index, !lost)
	db := n.node.store
	n.fall()
	if lost {
		kept := n.fs.CrashClone(vfs.CrashCloneCfg{})
		_ = db.Close()
		n.fs = kept
	} else if err := db.Close(); err != nil {
		w.fail("close: %v", err)
	}
}

// halt stops the machine's node as an operator does: its leaderships go to others, its clients are told and go
// elsewhere, what is under way is finished within a time, and then the process ends. Meanwhile anything may happen.
func (n *simNode) halt(within time.Duration, then func()) {
	w, life := n.w, n.life
	if n.node == nil || n.halting {
		return
	}
	w.note("node %d is stopped within %v", n.index, within)
	n.halting = true
	n.face.leaves()
	ends := func() bool { return n.life == life && n.node != nil }
	for _, shard := range w.shards {
		w.after(w.between(0, 100*time.Millisecond), func() {
			if l := w.logs[shard]; ends() && l.leader == n && l.valid() {
				for _, r := range l.reps {
					if r != nil && r.node != n && r.voter && r.m != nil && w.chance(0.7) {
						l.elect(r.node)
						return
					}
				}
			}
		})
	}
	for _, c := range w.clients {
		w.after(w.between(0, within), func() {
			if ends() && !c.dead && c.conn != nil && c.conn.node == n && !c.conn.gone {
				c.connect(w.nodes[w.rng.IntN(len(w.nodes)-1)])
			}
		})
	}
	(&simTasks{w, n, life}).run(func() {
		err := n.node.Close(within)
		w.after(0, func() {
			if !ends() {
				return // it crashed meanwhile
			}
			if err != nil {
				w.fail("node %d stops: %v", n.index, err)
			}
			w.note("node %d has stopped", n.index)
			n.fall()
			then()
		})
	})
}

// fall takes the machine's node away, whatever it was doing.
func (n *simNode) fall() {
	w := n.w
	n.face.die()
	w.trouble = w.now
	w.kill(n)
	n.life++
	n.halting = false
	n.unraft()
	n.node = nil
	w.cutPipes(func(a, b *simNode) bool { return a == n || b == n })
	for _, c := range w.clients {
		c.nodeGone(n)
	}
	n.fell()
}

// unraft ends the machine's replicas as raft sees them.
func (n *simNode) unraft() {
	w := n.w
	for _, shard := range w.shards {
		l := w.logs[shard]
		if l.leader == n { // it does not lead the same term again
			l.leader, l.electAt = nil, w.now+w.between(simElection, 2*simElection)
			l.lost()
			if w.chance(0.3) {
				l.electAt = w.now + w.between(0, 200*time.Millisecond) // others stand at once
			}
		}
		if r := l.reps[n.index]; r != nil {
			r.m, r.reads, r.pumping = nil, nil, false
		}
	}
}

// slowFor has the machine's replicas apply late for a while.
func (n *simNode) slowFor(d time.Duration) {
	for _, shard := range n.w.shards {
		if r := n.w.logs[shard].reps[n.index]; r != nil {
			r.slow = max(r.slow, n.w.now+d)
		}
	}
}

// reach says that two machines reach each other.
func (w *world) reach(a, b *simNode) bool {
	if a == b || a.witness || b.witness {
		return true
	}
	return !w.cut[pairOf(a.index, b.index)]
}

func pairOf(a, b int) [2]int { return [2]int{min(a, b), max(a, b)} }

// split cuts the machines into two parts by bits of which.
func (w *world) split(which int) {
	if w.healed {
		return
	}
	var parts [2][]string
	for _, n := range w.nodes {
		if !n.witness {
			parts[which>>n.index&1] = append(parts[which>>n.index&1], fmt.Sprint(n.index))
		}
	}
	w.note("network splits: %s | %s", strings.Join(parts[0], " "), strings.Join(parts[1], " "))
	for _, a := range w.nodes {
		for _, b := range w.nodes {
			if a.index < b.index && which>>a.index&1 != which>>b.index&1 && !a.witness && !b.witness {
				w.cut[pairOf(a.index, b.index)] = true
			}
		}
	}
	w.cutPipes(func(a, b *simNode) bool { return !w.reach(a, b) })
}

// cutPipes ends the connections between nodes that are.
func (w *world) cutPipes(are func(a, b *simNode) bool) {
	for _, a := range w.nodes {
		for _, b := range w.nodes {
			if e := a.pipes[b.host]; e != nil && are(a, b) {
				e.cutPipe()
			}
		}
	}
}

// silent says that the machine stands still for so long, or did until a while ago, that its peers closed their
// connections.
func (n *simNode) silent() bool {
	const silence = 4 * time.Second // mesh's
	return n.pause > 0 && min(n.w.now, n.pause)-n.slept >= silence && n.w.now-n.pause < reattachGrace
}

// cutOff is the nodes that may have callers which the node does not know of, as it does not reach them, or has not for
// long.
func (n *simNode) cutOff() map[string]bool {
	w := n.w
	off := make(map[string]bool)
	for _, o := range w.nodes {
		if o == n || o.witness || o.node == nil {
			continue
		}
		since, apart := w.apart[pairOf(n.index, o.index)]
		if n.silent() || o.silent() || !w.reach(n, o) || apart && w.now-since < reattachGrace ||
			w.now-o.began < reattachGrace {
			off[o.host] = true
		}
	}
	return off
}

func (w *world) heal() {
	for pair := range w.cut {
		w.apart[pair] = w.now
	}
	if len(w.cut) > 0 {
		w.note("network heals")
	}
	clear(w.cut)
	w.trouble = w.now
}

func (w *world) hostOf(host string) *simNode {
	for _, n := range w.nodes {
		if n.host == host {
			return n
		}
	}
	return nil
}

// simEnd is one end of a connection between nodes.
type simEnd struct {
	w      *world
	node   *simNode
	life   int
	other  *simEnd
	at     time.Duration // when the last frame sent arrives
	unsent int
	closed bool // here
}

// dial is the connection from this node to another, nil when there can be none.
func (n *simNode) dial(host string) peerConn {
	w := n.w
	to := w.hostOf(host)
	if to == nil || to.node == nil || n.node == nil || !w.reach(n, to) {
		return nil
	}
	if e := n.pipes[host]; e != nil && !e.closed {
		return e
	}
	a := &simEnd{w: w, node: n, life: n.life}
	b := &simEnd{w: w, node: to, life: to.life}
	a.other, b.other = b, a
	n.pipes[host] = a
	to.accepted = append(to.accepted, b)
	return a
}

func (e *simEnd) alive() bool { return !e.closed && e.node.life == e.life && e.node.node != nil }

// Send implements peerConn.
func (e *simEnd) Send(frame []byte) bool {
	w := e.w
	if e.closed {
		return false
	}
	f := append([]byte(nil), frame...)
	w.detail("node %d sends %d bytes %x to node %d", e.node.index, len(f), xxh3.Hash(f), e.other.node.index)
	e.unsent += len(f)
	e.at = max(e.at, w.now+w.between(30*time.Microsecond, 2*time.Millisecond))
	to := e.other
	w.at(e.at, func() {
		to.node.awake(func() {
			if e.unsent -= len(f); !to.alive() {
				return
			}
			if f[0] < firstForward {
				to.node.node.feedFrame(to, f[0], &codec.Reader{Buf: f[1:]})
				return
			}
			to.node.node.forwarded(to, e.node.host, f)
		})
	})
	return true
}

// Unsent implements peerConn.
func (e *simEnd) Unsent() int { return e.unsent }

// Close implements peerConn.
func (e *simEnd) Close(error) { e.cutPipe() }

// cutPipe ends the connection. Each end notices at a time of its own.
func (e *simEnd) cutPipe() {
	w := e.w
	for _, x := range []*simEnd{e, e.other} {
		if x.closed {
			continue
		}
		if e.node.pipes[e.other.node.host] == e {
			delete(e.node.pipes, e.other.node.host)
		}
		late := w.between(0, 50*time.Millisecond)
		if w.chance(0.2) {
			late = w.between(0, 6*time.Second) // the packets just stop
		}
		if x == e {
			late = 0
		}
		w.after(late, func() {
			x.node.awake(func() {
				if x.closed || x.node.life != x.life || x.node.node == nil {
					return
				}
				x.closed = true
				x.node.node.peerGone(x)
			})
		})
	}
}
