package lab_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/bench/lab/cluster"
	"github.com/pathlockd/pathlockd/groups"
	"github.com/pathlockd/pathlockd/wire"
)

const (
	// electionMax is the longest election timeout of nodes in this process (cluster: a second,
	// of which raft draws one to two times).
	electionMax = cluster.ElectionMost
	// busyMachine is what a machine that does much else may add.
	busyMachine = 20 * time.Second
	// refusedWithin is a node's request timeout, and what it may take beyond that.
	refusedWithin = 4*time.Second + busyMachine
	paths         = 16
)

// parted is a cluster of three whose logs one node leads, and what clients have there.
type parted struct {
	*testing.T
	ctx    context.Context
	c      *cluster.Nodes
	run    int
	tokens [paths]int64 // of the holder of each path, who came before the partition
}

func (p *parted) path(i int) string { return fmt.Sprintf("part:/%d.%d/x", p.run, i) }

func write(owner, path string) *wire.Request {
	return &wire.Request{
		Op: wire.OpAcquire, Owner: owner, TTLMillis: 120_000, QueueTTLMillis: 60_000, Flags: wire.FlagNoQueue,
		Locks: []wire.LockRequest{{Path: path}},
	}
}

// gather lets one node lead every log, and has every path held: again from the start where
// a busy machine elects once more meanwhile.
func (p *parted) gather(leader int) {
	p.Helper()
	for late, held := time.Now().Add(2*time.Minute), false; ; held = p.hold(leader, late) {
		others := p.ledByOthers(leader)
		if len(others) == 0 && held {
			return
		}
		for ; len(others) > 0; others = p.ledByOthers(leader) {
			if time.Now().After(late) {
				p.Fatalf("node %d does not come to lead everything: %v", leader, p.c.Leaders(p.ctx))
			}
			for _, log := range others {
				_ = cluster.Transfer(p.ctx, p.c, log, leader) // seen by the next look
			}
		}
	}
}

// ledByOthers lists the logs that a node does not lead.
func (p *parted) ledByOthers(node int) (logs []uint64) {
	for log, at := range p.c.Leaders(p.ctx) {
		if at != node {
			logs = append(logs, uint64(log+2))
		}
	}
	return logs
}

// hold has every path held; false where one was refused without anything done.
func (p *parted) hold(leader int, late time.Time) bool {
	p.Helper()
	for i := range paths {
		res, err := cluster.Ask(p.ctx, p.c, leader, refusedWithin, write("before", p.path(i)))
		if res != nil && res.Code == wire.Unavailable && time.Now().Before(late) {
			p.Logf("%s before the partition: %v", p.path(i), err)
			return false
		}
		if err != nil || res.Status != wire.StatusOK {
			p.Fatalf("%s before the partition: %+v, %v", p.path(i), res, err)
		}
		p.tokens[i] = res.Token
	}
	return true
}

// refuses holds that a node neither grants nor renews, asserts or reads.
func (p *parted) refuses(node int) {
	p.Helper()
	var all sync.WaitGroup
	for i := range paths {
		for what, req := range map[string]*wire.Request{
			"grants": write("minority", p.path(i)+"/new"),
			"renews": {Op: wire.OpRenew, Owner: "before", TTLMillis: 120_000,
				Domains: []string{fmt.Sprintf("part:/%d.%d", p.run, i)}},
			"asserts": {Op: wire.OpAssertFencing, Owner: "before", Token: p.tokens[i], Paths: []string{p.path(i)}},
			"reads":   {Op: wire.OpInspectPath, Path: p.path(i)},
		} {
			all.Go(func() {
				began := time.Now()
				res, err := cluster.Ask(p.ctx, p.c, node, 2*refusedWithin, req)
				if err == nil {
					p.Errorf("node %d, which reaches no majority, %s: %+v", node, what, res)
				} else if took := time.Since(began); took > refusedWithin {
					p.Errorf("node %d says only after %v that it cannot do that: %v", node, took, err)
				}
			})
		}
	}
	all.Wait()
}

// goesOn waits until every path's log works through a node, and answers how long that
// took. What was held before still is.
func (p *parted) goesOn(node int, began time.Time) time.Duration {
	p.Helper()
	var all sync.WaitGroup
	for i := range paths {
		all.Go(func() {
			for {
				res, err := cluster.Ask(p.ctx, p.c, node, refusedWithin, write("majority", p.path(i)))
				switch {
				case err == nil && res.Status == wire.StatusOK:
					p.Errorf("%s is granted, and was held: %+v", p.path(i), res)
					return
				case err == nil:
					return
				case time.Since(began) > time.Minute:
					p.Errorf("%s: %v", p.path(i), err)
					return
				}
			}
		})
	}
	all.Wait()
	return time.Since(began)
}

// agree holds that everything is as before once all is well, and that replicas are the
// same.
func (p *parted) agree() {
	p.Helper()
	p.c.HealNetwork()
	ctx, cancel := context.WithTimeout(p.ctx, time.Minute)
	defer cancel()
	if err := p.c.Ready(ctx); err != nil {
		p.Fatal(err)
	}
	for node := range p.c.Nodes() {
		for i := range paths {
			ask := func() (*wire.Result, error) {
				return cluster.Ask(p.ctx, p.c, node, refusedWithin, &wire.Request{
					Op: wire.OpAssertFencing, Owner: "before", Token: p.tokens[i], Paths: []string{p.path(i)},
				})
			}
			res, err := ask()
			for ctx.Err() == nil && err != nil { // a busy machine may elect once more
				res, err = ask()
			}
			if err != nil || res.Status != wire.StatusOK {
				p.Fatalf("node %d: %s after the partition: %+v, %v", node, p.path(i), res, err)
			}
		}
	}
	for late := time.Now().Add(30 * time.Second); ; {
		sums, same := make(map[[2]uint64]uint64), 0
		all := p.c.Digests()
		for _, d := range all {
			at := [2]uint64{d.Log, d.Index}
			if sum, ok := sums[at]; ok && sum != d.Sum {
				p.Fatalf("log %d at entry %d: replicas differ", d.Log, d.Index)
			} else if ok {
				same++
			}
			sums[at] = d.Sum
		}
		if len(all) == 15 && same == 10 {
			return
		}
		if time.Now().After(late) {
			p.Fatalf("replicas never stand at the same entries: %+v", all)
		}
	}
}

// TestPartitions cuts three nodes in every way: who reaches no majority does nothing, the
// others go on, and afterwards all agree.
func TestPartitions(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	// One node is to lead everything: leaderships must not go back to where they belong meanwhile.
	stays := func(c *groups.Config) { c.LeaderBalance = time.Hour }
	c, err := cluster.NewNodes(ctx, t.TempDir(), 3, seedOf(t), stays)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	block := cluster.NetworkFault{Block: true}
	cut := func(from, to int) { c.Between(from, to, block) }
	both := func(a, b int) { cut(a, b); cut(b, a) }
	for run, test := range []struct {
		name  string
		cut   func()
		alone []int // nodes that reach no majority, or no leader
		on    int   // a node that goes on
	}{
		{"isolated leader", func() { both(0, 1); both(0, 2) }, []int{0}, 1},
		{"isolated follower", func() { both(2, 1); both(2, 0) }, []int{2}, 1},
		{"bridge to the leader", func() { both(0, 2) }, nil, 1},
		{"bridge is the leader", func() { both(1, 2) }, nil, 0},
		{"deaf leader", func() { cut(1, 0); cut(2, 0) }, []int{0}, 1},
		{"mute leader", func() { cut(0, 1); cut(0, 2) }, []int{0}, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := &parted{T: t, ctx: ctx, c: c, run: run}
			p.gather(0)
			began := time.Now()
			test.cut()
			took := p.goesOn(test.on, began)
			t.Logf("every log goes on after %v; election timeouts are at most %v", took.Round(time.Millisecond),
				electionMax)
			if took > 2*electionMax+busyMachine {
				t.Errorf("the majority goes on only after %v", took)
			}
			for _, node := range test.alone {
				p.refuses(node)
			}
			p.agree()
		})
	}
	t.Run("flapping", func(t *testing.T) {
		p := &parted{T: t, ctx: ctx, c: c, run: 100}
		p.gather(0)
		for i := range 6 {
			both(0, 1)
			both(0, 2)
			if i%2 == 0 { // the cut lasts
				p.goesOn(1, time.Now())
				p.refuses(0)
			}
			c.HealNetwork()
		}
		p.goesOn(0, time.Now())
		p.agree()
	})
}
