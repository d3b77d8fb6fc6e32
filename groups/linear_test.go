package groups

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/pathlockd/pathlockd/wire"
)

// lockOp is one operation on one path, for the checker.
type lockOp struct {
	op    wire.Op
	owner string
	token int64 // asserted
}

// lockOut is its answer; unknown when the outcome is not known.
type lockOut struct {
	unknown bool
	status  wire.Status
	owner   string // who is in the way, or who holds it
	token   int64
}

// lockState is a mutex with a fence.
type lockState struct {
	owner string
	token int64 // of the last grant, ever
}

// mutexModel is what one path must look like from outside: acquires that do not
// wait, releases, assertions and inspections.
var mutexModel = porcupine.NondeterministicModel{
	Init: func() []any { return []any{lockState{}} },
	Step: func(state, input, output any) []any {
		s, in, out := state.(lockState), input.(lockOp), output.(lockOut)
		next := func(ok bool, s lockState) []any {
			if !ok {
				return nil
			}
			return []any{s}
		}
		switch in.op {
		case wire.OpAcquire:
			free := s.owner == "" || s.owner == in.owner
			switch {
			case out.unknown && free:
				// It happened, with some token, or it did not.
				return []any{s, lockState{in.owner, -1}}
			case out.unknown:
				return []any{s}
			case out.status == wire.StatusOK && s.owner == in.owner:
				return next(s.token == -1 || out.token == s.token, lockState{in.owner, out.token})
			case out.status == wire.StatusOK:
				return next(s.owner == "" && (s.token == -1 || out.token > s.token), lockState{in.owner, out.token})
			}
			return next(!free && out.owner == s.owner, s)
		case wire.OpRelease:
			after := s
			if s.owner == in.owner {
				after.owner = ""
			}
			if out.unknown {
				return []any{s, after}
			}
			return []any{after}
		case wire.OpAssertFencing:
			holds := s.owner == in.owner && (s.token == -1 || s.token == in.token)
			return next(out.unknown || (out.status == wire.StatusOK) == holds || s.token == -1, s)
		}
		return next(out.unknown || out.owner == s.owner, s)
	},
	Equal: func(a, b any) bool { return a == b },
}

// TestPromise2Linearizable lets clients hit few paths while the node loses power
// again and again, and checks what they saw against a mutex.
func TestPromise2Linearizable(t *testing.T) {
	r := newRig(t, nil)
	var (
		mu      sync.Mutex
		history = make(map[string][]porcupine.Operation)
		began   = time.Now()
		stop    = make(chan struct{})
		cut     sync.RWMutex // held while the power is out
		clients sync.WaitGroup
	)
	for w := range 6 {
		clients.Add(1)
		go func() {
			defer clients.Done()
			c := r.session()
			rng := rand.New(rand.NewPCG(7, uint64(w)))
			owner := fmt.Sprintf("w%d", w)
			token := make(map[string]int64)
			for {
				select {
				case <-stop:
					return
				default:
				}
				path := fmt.Sprintf("h:/lin/%d", rng.IntN(3))
				req, in := pickOp(rng, owner, path, token[path])
				call := time.Since(began).Nanoseconds()
				cut.RLock()
				cuts := r.cuts.Load()
				o := c.start(r.next.Add(1), req)
				cut.RUnlock()
				out := lockOut{unknown: true}
				select {
				case res := <-o.done:
					out = outOf(in.op, res)
				case <-time.After(3 * time.Second): // the power went out under it
				case <-stop:
				}
				if r.cuts.Load() != cuts {
					out = lockOut{unknown: true}
				}
				if in.op == wire.OpAcquire && !out.unknown && out.status == wire.StatusOK {
					token[path] = out.token
				}
				ret := time.Since(began).Nanoseconds()
				if out.unknown {
					ret = 1 << 62 // it may still happen
				}
				mu.Lock()
				history[path] = append(history[path], porcupine.Operation{ClientId: w, Input: in, Output: out,
					Call: call, Return: ret})
				mu.Unlock()
				if out.unknown {
					owner += "'" // its old requests may be about; it is somebody else now
					c = r.session()
				}
			}
		}()
	}
	count := func() int {
		mu.Lock()
		defer mu.Unlock()
		n := 0
		for _, ops := range history {
			n += len(ops)
		}
		return n
	}
	for round := range 3 {
		eventually(t, "the clients get on", func() bool { return count() > (round+1)*400 })
		cut.Lock()
		r.powerLoss()
		cut.Unlock()
	}
	eventually(t, "the clients get on", func() bool { return count() > 1600 })
	close(stop)
	clients.Wait()
	model := mutexModel.ToModel()
	for path, ops := range history {
		if res := porcupine.CheckOperationsTimeout(model, ops, time.Minute); res != porcupine.Ok {
			t.Errorf("%s: %d operations are not those of a mutex: %v", path, len(ops), res)
		}
	}
	t.Logf("%d operations on %d paths", count(), len(history))
}

func pickOp(rng *rand.Rand, owner, path string, token int64) (*wire.Request, lockOp) {
	switch n := rng.IntN(10); {
	case n < 4:
		req := write(owner, path, time.Hour)
		req.Flags = wire.FlagNoQueue
		return req, lockOp{op: wire.OpAcquire, owner: owner}
	case n < 8:
		return release(owner, path), lockOp{op: wire.OpRelease, owner: owner}
	case n < 9 && token > 0:
		return &wire.Request{Op: wire.OpAssertFencing, Owner: owner, Token: token, Paths: []string{path}},
			lockOp{op: wire.OpAssertFencing, owner: owner, token: token}
	}
	return &wire.Request{Op: wire.OpInspectPath, Path: path}, lockOp{op: wire.OpInspectPath}
}

func outOf(op wire.Op, res wire.Result) lockOut {
	if res.Code != wire.OK {
		// What surely did not happen might as well be taken for unknown.
		return lockOut{unknown: true}
	}
	return lockOut{status: res.Status, owner: res.Owner, token: res.Token}
}
