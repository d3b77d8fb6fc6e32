package crash

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"

	"github.com/pathlockd/pathlockd/bench/session"
	"github.com/pathlockd/pathlockd/wire"
)

// load is all the actors of a run.
type load struct {
	ctx  context.Context
	rec  *Recorder
	gate *gate
	wg   sync.WaitGroup
	mu   struct {
		sync.Mutex
		err error
	}
}

// part is what an actor does, over and over, until the run is over.
type part struct {
	name  string
	count int
	play  func(a *actor, turn int)
}

// parts is the cast.
var parts = []part{
	{"contender", 10, contend},
	{"keeper", 2, keep},
	{"leaser", 4, lease},
	{"permit", 3, permit},
	{"reader", 2, read},
	{"line", 2, line},
	{"policy", 1, policy},
	{"counter", 2, count},
}

// start begins the run. Everything random in it comes from the seed; the timing of
// the machine does not.
func start(ctx context.Context, rec *Recorder, seed uint64) *load {
	l := &load{ctx: ctx, rec: rec, gate: newGate()}
	n := uint64(0)
	for _, p := range parts {
		for i := range p.count {
			n++
			a := &actor{load: l, name: fmt.Sprintf("%s%d", p.name, i), rng: rand.New(rand.NewPCG(seed, n)),
				s: session.New(), gen: -1}
			l.wg.Go(func() {
				defer a.hangUp()
				for turn := 0; ctx.Err() == nil; turn++ {
					p.play(a, turn)
				}
			})
		}
	}
	return l
}

// fail notes a refusal that nobody asked for.
func (l *load) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.err == nil {
		l.mu.err = err
	}
}

func (l *load) err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.err
}

// describe records what a path looks like.
func (a *actor) describe(namespace, path string) error {
	if !a.ready() {
		return a.load.ctx.Err()
	}
	look := Look{From: a.load.rec.Now(), Path: path, Namespace: namespace}
	res, err := a.ask(a.s.Next(), &wire.Request{Op: wire.OpDescribe, Path: path, Page: wire.MaxDescribePage}, nil)
	if err != nil {
		a.gen = -1
		return fmt.Errorf("describe %s: %w", path, err)
	}
	if e := res.Err(); e != nil {
		return fmt.Errorf("describe %s: %w", path, e)
	}
	look.Algorithm, look.Fence = res.Algorithm, res.Token
	if res.List != nil {
		for _, h := range res.List.Infos {
			look.Holders = append(look.Holders, Holder{h.Owner, h.Mode, h.Fence})
		}
		for _, w := range res.List.Waiters {
			look.Waiters = append(look.Waiters, w.Owner)
		}
	}
	a.load.rec.Look(look)
	return nil
}

// glance is describe in the middle of the load: the server may die on it.
func (a *actor) glance(namespace, path string) {
	if err := a.describe(namespace, path); err != nil && a.gen != -1 && a.load.ctx.Err() == nil {
		a.load.fail(err)
	}
}

// dump records who holds what, everywhere.
func (a *actor) dump() error {
	if !a.ready() {
		return a.load.ctx.Err()
	}
	var cursor []byte
	for {
		from := a.load.rec.Now()
		res, err := a.ask(a.s.Next(), &wire.Request{Op: wire.OpDumpLocks, Cursor: cursor, Page: wire.MaxDumpPage}, nil)
		if err != nil {
			return fmt.Errorf("dump: %w", err)
		}
		if e := res.Err(); e != nil {
			return fmt.Errorf("dump: %w", e)
		}
		if res.List != nil {
			for _, h := range res.List.Infos {
				a.load.rec.Look(Look{From: from, Path: h.Path, Partial: true,
					Holders: []Holder{{h.Owner, h.Mode, h.Fence}}})
			}
			cursor = res.List.Cursor
		}
		if res.Done {
			return nil
		}
	}
}
