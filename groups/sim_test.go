package groups

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/engine/naive"
	"github.com/pathlockd/pathlockd/groups/datadir"
	"github.com/pathlockd/pathlockd/groups/replica"
	"github.com/pathlockd/pathlockd/wire"
)

// simStep is one thing that is done to the cluster, or that a client does, at an instant.
// Its numbers say which: what they mean is the step's own, and any numbers mean something.
type simStep struct {
	at   time.Duration
	kind int
	n    [6]int
}

// Kinds of steps, and how often each is drawn.
const (
	stepAsk = iota
	stepPipeline
	stepReconnect
	stepDrop
	stepDie
	stepCrash
	stepPause
	stepSplit
	stepHeal
	stepElect
	stepLossy
	stepSlow
	stepPolicy
	stepPipes
	stepCompact
	stepWall
	stepCrowd
	stepMore
	stepHalt
	stepMove
	stepCall
	stepKinds
)

var simWeights = [stepKinds]int{
	stepAsk: 600, stepPipeline: 40, stepReconnect: 25, stepDrop: 15, stepDie: 3, stepCrash: 8, stepPause: 6,
	stepSplit: 5, stepHeal: 5,
	stepElect: 10, stepLossy: 4, stepSlow: 5, stepPolicy: 12, stepPipes: 5, stepCompact: 6, stepWall: 1, stepCrowd: 1,
	stepMore: 300, stepHalt: 5, stepMove: 6,
	stepCall: 80,
}

// simPlan is all of a run: what happens in it follows from it.
type simPlan struct {
	seed  uint64
	birth simBirth
	steps []simStep
	end   time.Duration // of the steps
}

// planOf draws a plan.
func planOf(seed uint64) simPlan {
	rng := rand.New(rand.NewPCG(seed, 1))
	p := simPlan{seed: seed, birth: simBirth{nodes: 3 + rng.IntN(2), logs: 1 + rng.IntN(3), groups: 8, segments: 1}}
	if rng.IntN(4) == 0 {
		p.birth.sessions = 3
	}
	if mixedSeed(seed) {
		p.birth.segments = mixedSegments(seed)
	}
	p.end = time.Duration(10+rng.IntN(80)) * time.Second
	// Each run has some kinds of faults often and others never: what needs two of one kind
	// soon after each other is not met by a mix that is the same in all.
	weights, all := simWeights, 0
	for kind := range weights {
		if kind > stepPipeline && kind < stepCrowd || kind >= stepHalt && kind < stepCall {
			weights[kind] *= []int{0, 1, 1, 1, 4}[rng.IntN(5)]
		}
		all += weights[kind]
	}
	calm := rng.IntN(3) == 0 // some runs have few faults and many requests
	for n := 200 + rng.IntN(800); n > 0; n-- {
		s := simStep{at: time.Duration(rng.Int64N(int64(p.end)))}
		at := rng.IntN(all)
		for at >= weights[s.kind] {
			at -= weights[s.kind]
			s.kind++
		}
		if calm && s.kind > stepReconnect && s.kind != stepPolicy && s.kind != stepMore && s.kind != stepCall &&
			rng.IntN(4) != 0 {
			s.kind = stepAsk
		}
		for i := range s.n {
			s.n[i] = rng.IntN(1 << 20)
		}
		p.steps = append(p.steps, s)
		if (s.kind > stepPipeline && s.kind < stepWall || s.kind >= stepHalt && s.kind < stepCall) && rng.IntN(2) == 0 {
			p.steps = append(p.steps, flurry(rng, s)...)
		}
	}
	for i := range p.steps {
		p.steps[i].at = min(p.steps[i].at, p.end) // after that everything heals
	}
	return p
}

// flurry draws what happens right around a step: requests that are under way while a
// connection breaks, a leader changes or a subtree moves, and at times a fault in the middle.
func flurry(rng *rand.Rand, s simStep) (around []simStep) {
	scale := []time.Duration{time.Millisecond, 5 * time.Millisecond, 50 * time.Millisecond}[rng.IntN(3)]
	breaks := s.kind == stepReconnect || s.kind == stepDrop || s.kind == stepDie
	for n := 2 + rng.IntN(10); n > 0; n-- {
		x := simStep{kind: []int{stepAsk, stepAsk, stepAsk, stepPipeline, stepMore, stepMore}[rng.IntN(6)]}
		for i := range x.n {
			x.n[i] = rng.IntN(1 << 20)
		}
		x.at = s.at + time.Duration(rng.Int64N(int64(scale)))
		if breaks { // before it, by the client whose connection it is, and tied to that more often
			x.at, x.n[0] = s.at-time.Duration(rng.Int64N(int64(scale))), s.n[0]
			switch rng.IntN(4) {
			case 0, 1:
				x.n[5] -= x.n[5] % 9
			case 2: // a wait that is cancelled at once
				x.kind, x.n[3], x.n[4] = stepAsk, 4*(9+rng.IntN(3))+x.n[3]%4, rng.IntN(5)
			}
		}
		around = append(around, x)
	}
	if !breaks && rng.IntN(3) == 0 {
		x := simStep{kind: []int{stepCrash, stepPause, stepSplit, stepSplit, stepElect, stepPipes, stepReconnect,
			stepDrop, stepHalt}[rng.IntN(9)]}
		for i := range x.n {
			x.n[i] = rng.IntN(1 << 20)
		}
		x.at = s.at + time.Duration(rng.Int64N(int64(scale)))
		around = append(around, x)
	}
	return around
}

// simulate carries a plan out and returns the world at its end.
func simulate(p simPlan, dir string, trace func(string, ...any)) *world {
	w := &world{
		seed: p.seed, rng: rand.New(rand.NewPCG(p.seed, 2)), logs: make(map[uint64]*simLog), cut: make(map[[2]int]bool),
		apart: make(map[[2]int]time.Duration), dir: dir, trace: trace,
		details: os.Getenv("PATHLOCKD_SIM_DETAILS") != "",
	}
	defer w.close()
	w.models = &simModels{w: w, of: make(map[*replica.Group]*naive.Model)}
	for range p.birth.nodes {
		w.addNode(p.birth, false)
	}
	w.addNode(p.birth, true)
	w.shards = (&datadir.Identity{Settings: datadir.Settings{LogCount: p.birth.logs}}).Logs()
	for i, shard := range w.shards {
		l := &simLog{w: w, shard: shard, lostAt: -1, term: 1, lastID: uint64(len(w.nodes))}
		l.reps = make([]*simRep, len(w.nodes))
		for j := range min(3, p.birth.nodes) {
			n := w.nodes[(i+j)%p.birth.nodes]
			l.reps[n.index] = &simRep{log: l, node: n, id: uint64(n.index + 1), voter: true}
		}
		last := w.nodes[len(w.nodes)-1]
		l.reps[last.index] = &simRep{log: l, node: last, id: uint64(last.index + 1)}
		w.logs[shard] = l
	}
	for _, n := range w.nodes {
		if err := n.found(p.birth); err != nil {
			w.fail("found: %v", err)
			return w
		}
		n.start()
	}
	for _, shard := range w.shards {
		w.models.add(w.logs[shard].reps[len(w.nodes)-1].m)
		w.logs[shard].electAt = 0
		w.logs[shard].lostAt = 0
		w.logs[shard].tick()
	}
	for i := range 5 {
		w.addClient()
		w.clients[i].listens()
		w.clients[i].connect(w.nodes[i%p.birth.nodes])
	}
	w.run(time.Second)
	w.clients[0].ask(&wire.Request{Op: wire.OpSetPolicy, Namespace: simPool, Algorithm: wire.Semaphore}, false)
	for end := 2 * time.Second; len(w.clients[0].open) > 0 && end < 10*time.Second; end += time.Second {
		w.run(end) // questions are lost from the first moment on
	}
	if len(w.clients[0].open) > 0 {
		w.fail("the semaphore cannot be set")
	}
	w.pool = true
	var look func()
	look = func() {
		w.check.late(w)
		w.after(time.Second, look)
	}
	look()
	for _, s := range p.steps {
		w.at(2*time.Second+s.at, func() { w.do(s) })
	}
	w.run(2*time.Second + p.end)
	w.finish()
	return w
}

// finish heals everything, waits for what is owed, and looks whether it came.
func (w *world) finish() {
	if w.broken != "" {
		return
	}
	for _, n := range w.nodes { // who stands still goes on by itself
		w.run(n.pause)
	}
	for _, n := range w.nodes { // and who is being stopped ends
		for n.halting && w.broken == "" {
			w.run(w.now + 100*time.Millisecond)
		}
	}
	w.note("everything heals")
	w.heal()
	w.healed = true
	w.lossy = 0
	for _, n := range w.nodes {
		if n.node == nil {
			n.start()
		}
	}
	for _, shard := range w.shards {
		for _, r := range w.logs[shard].reps {
			if r != nil {
				r.slow = 0
			}
		}
	}
	healed := w.now
	for _, c := range w.clients {
		if !c.dead && (c.conn == nil || c.conn.gone) {
			c.connect(w.nodes[w.rng.IntN(len(w.nodes)-1)])
		}
	}
	// After two election timeouts every log takes writes again.
	w.run(healed + 3*simElection)
	from := w.now
	for _, shard := range w.shards {
		w.logs[shard].written = 0
	}
	probe := w.clients[0]
	for i := range 24 {
		w.at(w.now, func() {
			probe.ask(&wire.Request{Op: wire.OpAcquire, Owner: "probe", TTLMillis: 60_000,
				Locks: []wire.LockRequest{{Path: fmt.Sprintf("p%d:/x", i)}}}, false)
		})
	}
	probe.ask(&wire.Request{Op: wire.OpIncrToken}, false)
	w.run(from + time.Second)
	if w.broken == "" && !probe.dead && os.Getenv("PATHLOCKD_SIM_NOLIVE") == "" {
		for _, id := range slices.Sorted(maps.Keys(probe.open)) {
			if call := probe.open[id]; call.first == from { // what it asked by itself since has its own time
				w.fail("a write is not answered within a second, %v after everything healed: %s", w.now-healed,
					describe(probe.open[id]))
				return
			}
		}
	}
	w.run(healed + 45*time.Second)
	for range 1 + simTries { // who is told that the outcome is not known asks again
		w.run(w.lastWait(healed))
	}
	for range 50 { // what nodes do by themselves, as folding, may be under way
		if w.idle() {
			break
		}
		w.run(w.now + 100*time.Millisecond)
	}
	if w.broken == "" {
		w.check.final(w)
		w.check.overAtTheEnd(w)
		w.check.unheard(w)
		w.check.edges(w, w.nodes[len(w.nodes)-1].node)
		w.keyEnds()
	}
}

// lastWait is until when who still waits is to be answered: some wait for minutes. Their time is that of their log,
// which may have stood still, again and again, until everything healed.
func (w *world) lastWait(healed time.Duration) time.Duration {
	until := w.now
	stood := func(asked time.Duration) time.Duration { return max(0, healed-asked) }
	for _, c := range w.clients {
		for _, call := range c.open {
			if call.req.Flags&wire.FlagWait != 0 && !c.dead {
				until = max(until, call.limit+waitLateBy+stood(call.sent))
			}
		}
	}
	for _, s := range w.stakes {
		if s.call != nil && !s.call.left {
			until = max(until, s.asked+s.waits+waitLateBy)
		}
	}
	return until
}

// idle says that nothing is under way on any node.
func (w *world) idle() bool {
	for _, n := range w.nodes {
		for i := range n.node.inflight {
			if n.node.inflight[i].Load() != 0 {
				return false
			}
		}
	}
	return true
}

func (w *world) close() {
	w.trace = nil
	for _, n := range w.nodes {
		if n.node != nil {
			w.kill(n)
			_ = n.node.store.Close()
			n.node = nil
		}
	}
}

// do carries one step out.
func (w *world) do(s simStep) {
	nodes := w.nodes[:len(w.nodes)-1]
	node := nodes[s.n[0]%len(nodes)]
	client := w.clients[s.n[0]%len(w.clients)]
	switch s.kind {
	case stepAsk:
		client.some(s.n)
	case stepPipeline:
		client.pipeline(s.n)
	case stepReconnect:
		if !client.dead {
			client.connect(nodes[s.n[1]%len(nodes)])
		}
	case stepDrop:
		late := time.Duration(s.n[1]%3000) * time.Millisecond
		client.drop(late)
		w.after(time.Duration(s.n[2]%4000)*time.Millisecond, func() {
			if !client.dead && client.conn.gone {
				client.connect(nodes[s.n[3]%len(nodes)])
			}
		})
	case stepDie:
		if client.index > 2 && !client.dead {
			w.note("client %d dies", client.index)
			client.dead = true
			for _, id := range slices.Sorted(maps.Keys(client.open)) {
				w.disturb(client.open[id].req, true)
			}
			client.open = make(map[uint64]*simCall)
			client.drop(time.Duration(s.n[1]%1000) * time.Millisecond)
		}
	case stepCrash:
		w.count.restarts++
		node.crash(s.n[1]%2 == 0)
		node.startsAgain(s.n)
	case stepHalt:
		w.count.halts++
		node.halt(time.Duration(s.n[1]%3)*time.Duration(s.n[1]%4000)*time.Millisecond, func() { node.startsAgain(s.n) })
	case stepMove:
		l := w.logs[w.shards[s.n[1]%len(w.shards)]]
		for _, to := range nodes {
			if len(nodes) > 3 && l.reps[to.index] == nil || to == node && s.n[2]%3 == 0 { // of three each has all logs
				l.moves(node, to)
				break
			}
		}
	case stepPause:
		d := time.Duration(100+s.n[1]%12000) * time.Millisecond
		w.note("node %d stands still for %v", node.index, d)
		if !node.still() {
			node.slept = w.now
		}
		node.pause = max(node.pause, w.now+d)
		w.trouble = max(w.trouble, node.pause)
		w.at(node.pause, nil)
	case stepSplit:
		w.split(s.n[1])
		d := time.Duration(s.n[2]%15000) * time.Millisecond
		if s.n[3]%4 == 0 { // longer than anybody waits
			d *= 3
		}
		w.after(d, w.heal)
	case stepHeal:
		w.heal()
	case stepElect:
		l := w.logs[w.shards[s.n[1]%len(w.shards)]]
		if l.valid() && w.reach(l.leader, node) && l.reps[node.index] != nil {
			l.elect(node)
		}
	case stepLossy:
		w.lossy = 0.3
		w.note("proposals are lost")
		w.after(time.Duration(s.n[1]%3000)*time.Millisecond, func() { w.lossy = 0 })
	case stepSlow:
		node.slowFor(time.Duration(s.n[1]%6000) * time.Millisecond)
	case stepPolicy:
		w.count.moves++
		root := simRoots[s.n[1]%len(simRoots)]
		req := &wire.Request{Op: wire.OpSetPolicy, Namespace: root, Algorithm: wire.RecursiveRW}
		if s.n[2]%2 == 0 {
			req = &wire.Request{Op: wire.OpDeletePolicy, Namespace: root}
		}
		if !client.dead {
			w.disturb(req, false)
			client.ask(req, false)
		}
	case stepPipes:
		w.cutPipes(func(a, b *simNode) bool { return a == node || b == node })
	case stepCompact:
		if node.node != nil && !node.still() {
			for _, shard := range w.shards {
				w.logs[shard].compact(node, uint64(s.n[1]%60))
			}
		}
	case stepWall:
		node.step += time.Duration(s.n[1]%7200-3600) * time.Second
	case stepCrowd:
		client.crowd(s.n)
	case stepMore:
		client.more(s.n)
	case stepCall:
		client.someCall(nodes[s.n[5]/256%len(nodes)], s.n)
	}
}

// startsAgain has a machine's node start after a while, at times with another limit.
func (n *simNode) startsAgain(by [6]int) {
	n.w.after(time.Duration(by[2]%8000)*time.Millisecond, func() {
		if n.node == nil {
			if by[3]%3 == 0 && os.Getenv("PATHLOCKD_SIM_SAMELIMIT") == "" {
				n.cfg.MaxQueued = []int{64, 8, 4, 1000}[by[3]/3%4]
			}
			n.start()
		}
	})
}

// compact has a replica drop entries, so that who is behind needs a snapshot.
func (l *simLog) compact(n *simNode, keep uint64) {
	if r := l.reps[n.index]; r != nil && r.m != nil {
		(&simRaftLog{&simRaft{w: l.w, node: n, life: n.life}, l}).Snapshot(keep, 0)
	}
}

// simDir is a directory for the identities of the nodes: in memory where there is one.
func simDir(t *testing.T) string {
	t.Helper()
	base := ""
	if info, err := os.Stat("/dev/shm"); err == nil && info.IsDir() {
		base = "/dev/shm"
	}
	dir, err := os.MkdirTemp(base, "pathlockd-sim")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func envInt(name string, or int) int {
	if v, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return v
	}
	return or
}

// TestSimulate runs seeds: PATHLOCKD_SIM_SEEDS of them from PATHLOCKD_SIM_FROM on, or as many as
// PATHLOCKD_SIM_TIME of the processor is enough for.
func TestSimulate(t *testing.T) {
	seeds, from := envInt("PATHLOCKD_SIM_SEEDS", 30), envInt("PATHLOCKD_SIM_FROM", 1)
	var within time.Duration // of this process's processor time
	if v := os.Getenv("PATHLOCKD_SIM_TIME"); v != "" {
		var err error
		if within, err = time.ParseDuration(v); err != nil || within <= 0 {
			t.Fatalf("PATHLOCKD_SIM_TIME is %q: it is to be a time above 0, as 1h or 90s", v)
		}
		seeds = math.MaxInt32
	}
	began, told, spent := time.Now(), time.Now(), ownTime(t)
	var whole func(string, ...any)
	if os.Getenv("PATHLOCKD_SIM_TRACE") != "" {
		whole = func(format string, args ...any) { fmt.Printf(format+"\n", args...) }
	}
	var all counts
	var days time.Duration
	seed := from
	for ; seed < from+seeds && (within == 0 || ownTime(t)-spent < within); seed++ {
		if time.Since(told) > 30*time.Second && testing.Verbose() {
			told = time.Now()
			fmt.Printf("seed %d, %v of the processor, virtual time %v: %d operations, %d restarts, %d "+
				"elections, %d moves\n", seed,
				(ownTime(t) - spent).Round(time.Second), days.Round(time.Second), all.ops, all.restarts,
				all.elections, all.moves)
		}
		p := planOf(uint64(seed))
		w := simulate(p, simDir(t), whole)
		all.add(w.count)
		days += w.now
		if w.broken != "" {
			t.Errorf("seed %d (%d operations in, %v): %s", seed, all.ops, time.Since(began).Round(time.Millisecond),
				w.broken)
			if os.Getenv("PATHLOCKD_SIM_ALL") == "" {
				t.Log(failing(t, p, w.broken))
				return
			}
		}
	}
	t.Logf("%d seeds in %v (%v of the processor), virtual time %v: %+v", seed-from,
		time.Since(began).Round(time.Millisecond),
		(ownTime(t) - spent).Round(time.Millisecond), days.Round(time.Second), all)
}

// TestSimulateReplays: the same seed is the same run.
func TestSimulateReplays(t *testing.T) {
	from, seeds := envInt("PATHLOCKD_SIM_FROM", 0), envInt("PATHLOCKD_SIM_REPLAYS", 4)
	for seed := from; seed < from+seeds; seed++ {
		p := planOf(uint64(seed))
		a, b := simulate(p, simDir(t), nil), simulate(p, simDir(t), nil)
		if a.sum != b.sum || a.count != b.count {
			t.Errorf("seed %d: two runs differ: %x and %x, %+v and %+v", seed, a.sum, b.sum, a.count, b.count)
		}
	}
}
