package lab

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/pathlockd/pathlockd/bench/lab/cluster"
	"github.com/pathlockd/pathlockd/bench/lab/history"
	"github.com/pathlockd/pathlockd/bench/session"
	"github.com/pathlockd/pathlockd/wire"
)

const (
	// beatEvery is how often each log is written to by way of each node.
	beatEvery = 100 * time.Millisecond
	// beatWithin is how long an answer is waited for before another connection is made.
	beatWithin = time.Second
	// statusEvery is how often a node is asked whether the cluster is healthy.
	statusEvery = 250 * time.Millisecond
	// electionMost is the longest election timeout of nodes that are configured as by default.
	electionMost = 3 * time.Second
)

// beating is what is seen of every log while faults strike: when a write was acknowledged, by
// whichever node, and when a node said that the cluster is healthy.
type beating struct {
	mu      sync.Mutex
	acked   [][]time.Duration // by log, the system log first, in order
	healthy []time.Duration   // when that was heard, in order
	calmed  []time.Duration   // by fault: when what was done to the cluster was taken back
}

func (b *beating) ack(log int, at time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.acked[log] = append(b.acked[log], at)
}

// beat writes to every log by way of every node, and asks how the cluster is, until the faults
// are over.
func (e *episode) beat(ctx context.Context) {
	places, err := e.everyLog(ctx)
	if err != nil {
		e.cfg.Logf("episode %d: how long logs take no writes is not seen: %v", e.number, err)
		return
	}
	e.beating.acked = make([][]time.Duration, len(places))
	var all sync.WaitGroup
	defer all.Wait()
	for node := range e.cluster.Nodes() {
		for log, ns := range places {
			all.Go(func() { e.beatAt(ctx, node, log, ns) })
		}
	}
	all.Go(func() { e.askHealth(ctx) })
}

// everyLog answers a namespace of each log, none for the system log, which is the first.
func (e *episode) everyLog(ctx context.Context) ([]string, error) {
	res, err := cluster.Ask(ctx, e.cluster, 0, beatWithin, &wire.Request{Op: wire.OpTopology})
	if err != nil {
		return nil, err
	}
	t := res.List.Topology
	places, left := make([]string, 1+len(t.Leaders)), len(t.Leaders)
	for i := 0; left > 0; i++ {
		ns := fmt.Sprintf("beat:/%d.%d", e.number, i)
		if at := &places[1+t.LogOf[wire.GroupOf(ns, int(t.GroupLogs))]]; *at == "" {
			*at, left = ns, left-1
		}
	}
	return places, nil
}

// beatAt writes to a log again and again by way of a node, as long as there is that node.
func (e *episode) beatAt(ctx context.Context, node, log int, ns string) {
	s := session.New()
	var conn cluster.Conn
	hangUp := func() {
		if conn != nil {
			conn.Close()
			conn = nil
		}
	}
	defer func() { hangUp() }()
	every := time.NewTicker(beatEvery)
	defer every.Stop()
	for n := 0; ; n++ {
		req := &wire.Request{Op: wire.OpIncrToken}
		if ns != "" {
			path := fmt.Sprintf("%s/%d.%d", ns, node, n)
			req = &wire.Request{Op: wire.OpAcquire, Owner: path, TTLMillis: 1000, Flags: wire.FlagNoQueue,
				Locks: []wire.LockRequest{{Path: path}}}
		}
		within, cancel := context.WithTimeout(ctx, beatWithin)
		var err error
		if conn == nil && node < e.cluster.Nodes() {
			var dialed cluster.Conn // no nil interface where there is an error
			if dialed, err = e.cluster.Dial(within, node, s); err == nil {
				conn = dialed
			}
		}
		if err == nil && conn != nil {
			var res *wire.Result
			if res, err = conn.Ask(within, s.Next(), req, nil); err == nil && res.Err() == nil {
				e.beating.ack(log, e.rec.Now())
			}
		}
		cancel()
		if err != nil {
			hangUp()
		}
		select {
		case <-ctx.Done():
			return
		case <-every.C:
		}
	}
}

// askHealth asks one node after the other whether the cluster is healthy.
func (e *episode) askHealth(ctx context.Context) {
	every := time.NewTicker(statusEvery)
	defer every.Stop()
	for n := 0; ; n++ {
		within, cancel := context.WithTimeout(ctx, beatWithin)
		if s, err := cluster.Status(within, e.cluster, n%e.cluster.Nodes()); err == nil && s.Healthy {
			e.beating.mu.Lock()
			e.beating.healthy = append(e.beating.healthy, e.rec.Now())
			e.beating.mu.Unlock()
		}
		cancel()
		select {
		case <-ctx.Done():
			return
		case <-every.C:
		}
	}
}

// Silence is the longest time without a write to one log after one fault.
type Silence struct {
	Kind   string
	Log    int           // 0: the system log
	All    time.Duration // from the fault on, until the next one
	Healed time.Duration // from when it was taken back on
}

// silences are those of each fault and log, until the end of what was seen.
func (b *beating) silences(faults []history.Fault, end time.Duration) (out []Silence) {
	for i, f := range faults {
		until := end
		if i+1 < len(faults) {
			until = faults[i+1].From
		}
		for log, acked := range b.acked {
			out = append(out, Silence{f.Kind, log, longest(acked, f.From, until), longest(acked, b.calmed[i], until)})
		}
	}
	return out
}

// longest is the longest time between from and to in which there is nothing.
func longest(acked []time.Duration, from, to time.Duration) (most time.Duration) {
	i, _ := slices.BinarySearch(acked, from)
	for ; i < len(acked) && acked[i] < to; i++ {
		most, from = max(most, acked[i]-from), acked[i]
	}
	return max(most, to-from)
}

// unfounded is how long a log took no write after a node had said that the cluster is healthy, each
// time that this was longer than the bound, and nothing was done to the cluster meanwhile.
func (b *beating) unfounded(faults []history.Fault, end, bound time.Duration) (out []time.Duration) {
	for _, at := range b.healthy {
		struck := at+bound > end
		for i, f := range faults {
			struck = struck || f.From <= at+bound && at < b.calmed[i]
		}
		if struck {
			continue // it was true when it was said
		}
		for _, acked := range b.acked {
			i, _ := slices.BinarySearch(acked, at)
			next := end
			if i < len(acked) {
				next = acked[i]
			}
			if next-at > bound {
				out = append(out, next-at)
			}
		}
	}
	return out
}
