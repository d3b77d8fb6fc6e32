package naive

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/wire"
)

// TestClaims: the engine, one that is reloaded from its rows at random, and the model agree about steps of claims in
// any order.
func TestClaims(t *testing.T) {
	for seed := range 500 {
		rnd := rand.New(rand.NewPCG(uint64(seed), 0))
		cfg := engine.DefaultConfig()
		cfg.MaxKept, cfg.KeptMillis = 1+rnd.IntN(9), []int{50, 20_000}[rnd.IntN(2)]
		s, twin, m := engine.New(cfg, nil, nil), engine.New(cfg, nil, nil), New(cfg)
		now, tokens := int64(1), []int64{0}
		keys, ops := []string{"k", "l", "m", "n"}, []wire.Op{wire.OpReleaseAll, wire.OpRelease, wire.OpRenew}
		if seed%2 == 0 { // many steps of one claim
			keys, ops = keys[:1], ops[:1]
		}
		var trace []string
		for range 80 {
			now += int64(rnd.IntN(4)) * int64(rnd.IntN(20)) * int64(1+999*(rnd.IntN(30)/29))
			c := engine.Clock{Now: now}
			var o1, o2 engine.Output
			s.Expire(c, &o1)
			twin.Expire(c, &o2)
			if err := m.Expire(c, &o1); err != nil {
				t.Fatal(seed, err)
			}
			cmd := func() *engine.Command {
				req := &wire.Request{
					Op: wire.OpClaim, Key: keys[rnd.IntN(len(keys))], Target: uint64(ops[rnd.IntN(len(ops))]),
					Attempt: uint64(7 + rnd.IntN(2)), Kinds: uint64(rnd.IntN(5)), Cursor: []byte{byte(rnd.IntN(9))},
					Token: tokens[rnd.IntN(len(tokens))], GraceMillis: 1 + uint64(rnd.IntN(4)),
				}
				joins := req.Kinds == engine.ClaimBegins || req.Kinds == engine.ClaimGoesOn
				if joins {
					req.GraceMillis *= uint64(rnd.IntN(2000))
					req.TTLMillis = uint64(rnd.IntN(2) * rnd.IntN(5000))
					if rnd.IntN(4) > 0 {
						req.Token = 0
					}
				}
				switch rnd.IntN(8) {
				case 0:
					req = &wire.Request{Op: wire.OpReleaseAll, Owner: "o", Key: keys[rnd.IntN(len(keys))]}
				case 1, 2:
					key := engine.PartKey(wire.OpReleaseAll, keys[rnd.IntN(min(2, len(keys)))],
						tokens[rnd.IntN(len(tokens))], uint64(rnd.IntN(4)))
					req = &wire.Request{Op: wire.OpReleaseAll, Owner: "o", Key: key}
				}
				cmd := &engine.Command{Req: req, Version: uint64(rnd.IntN(2 + int(now/1000)))}
				if rnd.IntN(3) > 0 {
					cmd.Caller = engine.Caller{ID: 1 + uint64(rnd.IntN(5))}
					cmd.Caller.Session[0] = byte(1 + rnd.IntN(3))
				}
				return cmd
			}()
			o1.Reset()
			o2.Reset()
			apply := func(s *engine.State, o *engine.Output) wire.Result { return s.Apply(c, cmd, o) }
			told := m.Apply
			if cmd.Req.Op != wire.OpClaim && rnd.IntN(3) == 0 {
				apply = func(s *engine.State, o *engine.Output) wire.Result {
					return s.Repeat(c, cmd,
						&wire.Result{}, o)
				}
				told = func(c engine.Clock, cmd *engine.Command, res wire.Result, o *engine.Output) error {
					return m.Again(c, cmd, &wire.Result{}, res, o)
				}
			}
			r1, r2 := apply(s, &o1), apply(twin, &o2)
			trace = append(trace, fmt.Sprintf("%d %+v %v -> %v %v %d", now, *cmd.Req, cmd.Caller, r1.Code,
				r1.Status, r1.Token))
			if err := told(c, cmd, r1, &o1); err != nil {
				t.Fatalf("seed %d: model: %v\n%v", seed, err, trace)
			}
			if !reflect.DeepEqual(r1, r2) || s.View().Digest() != twin.View().Digest() {
				t.Fatalf("seed %d: loaded anew it answers %+v, else %+v\n%v", seed, r2, r1, trace)
			}
			if r1.Token != 0 {
				tokens = append(tokens, r1.Token)
			}
			if rnd.IntN(5) == 0 {
				again := engine.New(cfg, nil, nil)
				err := twin.View().Rows(0, func(row, val []byte) error { return again.Load(row, val) })
				if err == nil {
					err = again.Loaded()
				}
				if err != nil {
					t.Fatal(err)
				}
				twin = again
			}
		}
	}
}
