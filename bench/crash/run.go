package crash

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"time"

	"github.com/pathlockd/pathlockd/bench/session"
	"github.com/pathlockd/pathlockd/internal/testkit/server"
)

// Config is a run.
type Config struct {
	Bin    string // of pathlockd
	Dir    string // for its data, empty
	Rounds int    // kills
	Seed   uint64
	Logf   func(format string, args ...any) // of progress; nil: none
}

// Times of a run.
const (
	// A server lives for so long under load before it is killed.
	minLife = 150 * time.Millisecond
	maxLife = 1500 * time.Millisecond
	// The last one lives on until leases are over that should be.
	lastLife = 6 * time.Second
	// One server in so many lives longer, so that it writes checkpoints (one each 5 s)
	// and the next one starts from them.
	oneInOld = 4
	oldAge   = 5 * time.Second
	// One kill in so many is followed by others while the next server starts.
	oneInStarts = 3
	// A server that is killed while it starts gets so long at most.
	maxStart = 400 * time.Millisecond
)

// serverArgs makes servers drop what is behind a checkpoint soon.
var serverArgs = []string{"--raft_snapshot_interval_entries=200", "--raft_snapshot_min_log_entries=20"}

// Run kills a server under load, starts it again, looks at everything, and goes on,
// round after round. It answers what was seen, up to the first round that broke a
// promise, and how. An error says that the run itself failed.
func Run(ctx context.Context, cfg Config) (*History, []string, error) {
	if cfg.Logf == nil {
		cfg.Logf = func(string, ...any) {}
	}
	loadCtx, stop := context.WithCancel(ctx)
	r := &run{cfg: cfg, rng: rand.New(rand.NewPCG(cfg.Seed, 0)), rec: NewRecorder(), eyes: newGate()}
	r.load = start(loadCtx, r.rec, cfg.Seed)
	r.observer = &actor{
		load: &load{ctx: ctx, rec: r.rec, gate: r.eyes}, name: "observer", rng: r.rng, s: session.New(), gen: -1,
	}
	violations, err := r.rounds(ctx, stop)
	stop()
	r.load.wg.Wait()
	r.observer.hangUp()
	if r.proc != nil {
		r.proc.Kill()
	}
	return r.rec.History(), violations, errors.Join(err, r.load.err())
}

// run is a run under way. Its goroutine is the only one that starts and kills.
type run struct {
	cfg      Config
	rng      *rand.Rand
	rec      *Recorder
	load     *load
	eyes     *gate // of the observer, who is let in before the actors
	observer *actor
	proc     *server.Process
}

func (r *run) rounds(ctx context.Context, stop func()) ([]string, error) {
	if err := r.begin(ctx); err != nil {
		return nil, err
	}
	for round := 1; round <= r.cfg.Rounds; round++ {
		r.load.gate.up(r.proc.Addr)
		life := minLife + time.Duration(r.rng.Int64N(int64(maxLife-minLife)))
		if round%oneInOld == 2 {
			life += oldAge
		}
		if err := r.live(ctx, life); err != nil {
			return nil, err
		}
		killed := r.rec.Now()
		r.proc.Kill()
		r.load.gate.down()
		r.eyes.down()
		if err := r.restart(ctx); err != nil {
			return nil, err
		}
		r.rec.Outage(killed)
		down := r.rec.Now() - killed
		if err := r.observe(); err != nil {
			return nil, err
		}
		h := r.rec.History()
		r.cfg.Logf("round %d: killed after %v, away for %v; %d requests, %d looks so far",
			round, life.Round(time.Millisecond), down.Round(time.Millisecond), len(h.Ops), len(h.Looks))
		if v := Check(h); len(v) > 0 {
			return v, nil
		}
	}
	r.load.gate.up(r.proc.Addr)
	if err := r.live(ctx, lastLife); err != nil {
		return nil, err
	}
	stop()
	r.load.wg.Wait()
	if err := r.observe(); err != nil {
		return nil, err
	}
	return Check(r.rec.History()), nil
}

// live lets the load run for a while.
func (r *run) live(ctx context.Context, d time.Duration) error {
	over := time.NewTimer(d)
	defer over.Stop()
	select {
	case <-over.C:
		return r.load.err()
	case <-r.proc.Ended():
		return fmt.Errorf("pathlockd ended by itself:\n%s", r.proc.Log())
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// begin starts a server.
func (r *run) begin(ctx context.Context) error {
	p, err := server.Start(ctx, r.cfg.Bin, filepath.Join(r.cfg.Dir, "data"),
		append([]string{"--native_listen=127.0.0.1:0"}, serverArgs...)...)
	if err != nil {
		return err
	}
	r.proc = p
	r.eyes.up(p.Addr)
	return nil
}

// restart starts the next server, and some that do not live to serve.
func (r *run) restart(ctx context.Context) error {
	for r.rng.IntN(oneInStarts) == 0 {
		short, cancel := context.WithTimeout(ctx, time.Duration(r.rng.Int64N(int64(maxStart))))
		err := r.begin(short)
		cancel()
		if err == nil {
			return nil // it was faster
		}
		if !errors.Is(err, context.DeadlineExceeded) {
			return err
		}
	}
	return r.begin(ctx)
}

// observe looks at every path there is while nothing else goes on.
func (r *run) observe() error {
	seen := make(map[string]bool)
	for _, op := range r.rec.History().Ops {
		for _, p := range op.Paths {
			if seen[p] {
				continue
			}
			seen[p] = true
			if err := r.observer.describe(op.Namespace, p); err != nil {
				return err
			}
		}
	}
	return r.observer.dump()
}
