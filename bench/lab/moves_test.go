package lab

import (
	"context"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/bench/lab/cluster"
	"github.com/pathlockd/pathlockd/bench/lab/history"
	"github.com/pathlockd/pathlockd/bench/session"
	"github.com/pathlockd/pathlockd/wire"
)

// slowly is a cluster whose nodes have an open call wait until it is asked for the second time.
type slowly struct {
	cluster.Cluster
	cluster.Conn
	asks   int
	queued func(asks int, placed func(int64))
}

func (s *slowly) Nodes() int                                                        { return 2 }
func (s *slowly) Dial(context.Context, int, *session.Session) (cluster.Conn, error) { return s, nil }
func (s *slowly) Close()                                                            {}

func (s *slowly) Ask(ctx context.Context, _ uint64, _ *wire.Request, placed func(int64)) (*wire.Result, error) {
	if s.asks++; placed != nil {
		s.queued(s.asks, placed)
	}
	if s.asks == 2 {
		return &wire.Result{Status: wire.StatusOK, Token: 7}, nil
	}
	<-ctx.Done()
	return nil, ctx.Err()
}

// TestPlaceOfAMove: who closes the connection that its call waits on leaves the queue (PROTOCOL.md, Leases that follow
// the connection), so that nobody may take its place of before for the one it has.
func TestPlaceOfAMove(t *testing.T) {
	for name, queued := range map[string]func() func(asks int, placed func(int64)){
		"told at each node": func() func(int, func(int64)) {
			return func(_ int, placed func(int64)) { placed(7) }
		},
		"told late by the node that was left": func() func(int, func(int64)) {
			var first func(int64)
			return func(asks int, placed func(int64)) {
				if first == nil {
					first = placed
				}
				if asks == 2 {
					first(7)
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := &episode{
				cfg: &Config{Clients: 1}, ctx: t.Context(), drained: t.Context(),
				rec: history.NewRecorder(), spaces: spacesOf(0),
			}
			nodes := &slowly{queued: queued()}
			e.cluster = nodes
			c := &client{e: e, s: session.New(), owner: "a", turn: turn{hops: true, ttl: time.Minute,
				queueTTL: time.Minute}}
			op := c.op(history.Acquire)
			op.Open = true
			got := c.do(op, c.acquireRequest(wire.FlagWait))
			if !got.OK() || got.Asks != 2 {
				t.Fatalf("asked %d times, answered %v %v; want twice, and OK", got.Asks, got.Outcome, got.Code)
			}
			if got.Placed != 0 && got.Placed < got.Call+movesAfter {
				t.Errorf("its place is of %v after it asked: it moved after %v", got.Placed-got.Call, movesAfter)
			}
			if name != "told at each node" && got.Placed != 0 {
				t.Errorf("the place that it left counts from %v on", got.Placed-got.Call)
			}
			if name == "told at each node" && got.Placed == 0 {
				t.Error("the place that it has is not known")
			}
			for _, op := range e.rec.History().Ops {
				if op.Outcome != history.Answered {
					t.Errorf("%+v is left over", op)
				}
			}
		})
	}
}
