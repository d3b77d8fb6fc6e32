package groups

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"time"

	"github.com/pathlockd/pathlockd/groups/codec"
	"github.com/pathlockd/pathlockd/groups/mesh"
	"github.com/pathlockd/pathlockd/groups/place"
	"github.com/pathlockd/pathlockd/groups/rows"
	"github.com/pathlockd/pathlockd/groups/status"
	"github.com/pathlockd/pathlockd/wire"
)

// What nodes ask each other for operators' sake goes as JSON: it is rare, and grows.

// questions, by their names.
const (
	askPlans    = "plans"    // → []toldLog: the logs that you lead
	askMarks    = "marks"    // → map of node id to mark; of the system log's leader
	askTransfer = "transfer" // orderedTransfer → nothing; of the log's leader
	askTakeover = "takeover" // orderedTakeover → nothing; of who is to lead
	askAudit    = "audit"    // nothing → nothing; of who lost a replica
	askForget   = "forget"   // nothing → nothing, once you have forgotten who was removed
)

const (
	// maxTold bounds a question's name.
	maxTold = 64
	// maxAnswering is how many questions of other nodes are answered at once. Further
	// ones are not: who asks takes that for a node that is busy.
	maxAnswering = 64
)

// toldLog is a log as its leader tells of it.
type toldLog struct {
	Log    place.Log
	Term   uint64
	Voters []string
	Step   string
	Since  time.Duration // how long the step is this one
	Stall  time.Duration // how long your entries have not been applied, 0: they are
	Placed []string      // nodes that you lay logs out over
}

// orderedTransfer asks for a leadership to be handed over.
type orderedTransfer struct {
	Log  uint64
	Node string
}

// toldText is the answer to a question.
type toldText struct {
	Error string          `json:",omitempty"`
	Value json.RawMessage `json:",omitempty"`
}

// askText asks a node a question.
func (c *cluster) askText(host, what string, args, answer any, within time.Duration) error {
	body, err := json.Marshal(args)
	if err != nil {
		return err
	}
	b, err := c.ask(host, frameAsk, append(codec.AppendString(nil, what), body...), within)
	if err != nil {
		return fmt.Errorf("ask node %s for %s: %w", c.n.nameOf(host), what, err)
	}
	var t toldText
	if err := json.Unmarshal(b, &t); err != nil {
		return fmt.Errorf("ask node %s for %s: %w", c.n.nameOf(host), what, err)
	}
	if t.Error != "" {
		return wire.Errorf(wire.Unavailable, "node %s: %s", c.n.nameOf(host), t.Error)
	}
	if answer == nil {
		return nil
	}
	return json.Unmarshal(t.Value, answer)
}

// answerText answers a question.
func (c *cluster) answerText(conn *mesh.Conn, r *codec.Reader) {
	id := r.Uvarint()
	n := r.Uvarint()
	if n > maxTold {
		r.Err = codec.ErrMalformed
		return
	}
	what := string(r.Bytes(n))
	args := append([]byte(nil), r.Buf...)
	if r.Err != nil {
		return
	}
	c.answering(func() {
		var t toldText
		v, err := c.n.answerTo(conn.Peer().Host, what, args)
		if err == nil {
			t.Value, err = json.Marshal(v)
		}
		if err != nil {
			t = toldText{Error: err.Error()}
		}
		if b := t.frame(id); b != nil {
			conn.Send(b)
		}
	})
}

// frame is an answer as it is sent. One that is too long would end the connection, and
// everything else with it.
func (t *toldText) frame(id uint64) []byte {
	b, err := json.Marshal(t)
	if err != nil {
		return nil
	}
	frame := append(binary.AppendUvarint([]byte{frameTold}, id), b...)
	if len(frame) > mesh.MaxFrameBytes {
		short := toldText{Error: fmt.Sprintf("the answer has %d bytes, which is more than nodes can tell each other",
			len(frame))}
		return short.frame(id)
	}
	return frame
}

// answering answers a question in a goroutine of its own, unless there are too many.
func (c *cluster) answering(answer func()) {
	select {
	case c.busy <- struct{}{}:
	default:
		return
	}
	c.n.running.Go(func() {
		defer func() { <-c.busy }()
		answer()
	})
}

// answerTo answers one question of a node, by its raft host id.
func (n *Node) answerTo(from, what string, args []byte) (any, error) {
	switch what {
	case askPlans:
		return n.plans.told(n), nil
	case askMarks:
		m := n.logs[rows.SystemLog].local.Load()
		if m == nil || !n.logs[rows.SystemLog].leads() {
			return nil, fmt.Errorf("does not lead the system log")
		}
		return n.marks(), nil
	case askTransfer:
		var o orderedTransfer
		if err := json.Unmarshal(args, &o); err != nil {
			return nil, err
		}
		return nil, n.transferOwn(o.Log, o.Node)
	case askTakeover:
		var o orderedTakeover
		if err := json.Unmarshal(args, &o); err != nil {
			return nil, err
		}
		return nil, n.takeOver(from, o)
	case askAudit:
		n.auditSoon()
		return nil, nil
	case askForget:
		n.forgetRemoved()
		return nil, nil
	}
	return nil, fmt.Errorf("question %q: not known to this version", what)
}

// told is what the last round found, for other nodes.
func (p *plans) told(n *Node) []toldLog {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := []toldLog{}
	now := n.clock.Mono()
	for _, shard := range sortedShards(p.by) {
		l := n.logs[shard]
		if f := p.by[shard]; l.leads() {
			stall := l.stalled()
			out = append(out, toldLog{
				Log: f.log, Term: l.held.Load(), Voters: f.voters, Step: status.StepText(f.step), Since: now - f.since,
				Stall:  stall,
				Placed: p.view.Placed,
			})
		}
	}
	return out
}

// transferOwn hands a log that this node leads to another node.
func (n *Node) transferOwn(shard uint64, node string) error {
	l := n.logs[shard]
	if l == nil || !l.leads() {
		return fmt.Errorf("does not lead log %d", shard)
	}
	ms, err := n.membership(shard)
	if err != nil {
		return err
	}
	replica, host := n.voterOn(ms.Nodes, node)
	if host == "" {
		return fmt.Errorf("node %s holds no voter of log %d", node, shard)
	}
	if n.shortAt(host) && !n.short() {
		return fmt.Errorf("the disk of node %s is nearly full: make room there first", node)
	}
	return n.handOver(shard, replica)
}

// voterOn finds a node's replica among the voters of a log. While one on a disk that was
// given up is not removed yet, a node may have two: the one that is alive is meant.
func (n *Node) voterOn(voters map[uint64]string, node string) (replica uint64, host string) {
	for r, h := range voters {
		if n.nodeOf(h) != node {
			continue
		}
		if s, ok := n.cluster.sighting(h); ok && s.Alive {
			return r, h
		}
		replica, host = r, h
	}
	return replica, host
}

// marksEvery is how long what operators want is believed by a node that has no replica
// of the system log and is not asked by an operator.
const marksEvery = 2 * time.Second

// wantedOf is what operators want of nodes, from wherever it can be had: not older than
// that, unless nobody can tell. Who comes while others ask shares what the next of them
// finds out: while nobody answers, each of a crowd would wait behind all the rest.
func (n *Node) wantedOf(old time.Duration) map[string]wire.Drain {
	m := n.logs[rows.SystemLog].local.Load()
	if m != nil && m.Loaded.Load() || n.cluster == nil {
		return n.marks()
	}
	now := n.clock.Mono()
	n.remote.Lock()
	defer n.remote.Unlock()
	if n.remote.marks != nil && now-n.remote.asked < old || n.remote.tried > now {
		return n.remote.marks
	}
	now = n.clock.Mono()
	n.remote.tried = now
	ask := func() bool {
		var marks map[string]wire.Drain
		host, _ := n.leaderOf(rows.SystemLog)
		if host == "" || host == n.id.HostID || n.cluster.askText(host, askMarks, nil, &marks, askWithin) != nil ||
			marks == nil {
			return false
		}
		n.remote.marks, n.remote.asked = marks, now
		return true
	}
	if !ask() && old == 0 {
		n.poll(askWithin, ask) // who leads may be about to change
	}
	return n.remote.marks
}

// drains is what operators want as placement takes it.
func drains(wanted map[string]wire.Drain) map[string]place.Drain {
	out := make(map[string]place.Drain)
	for node, d := range wanted {
		out[node] = min(place.Drain(d), place.DrainReplicas)
	}
	return out
}
