package engine

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/pathlockd/pathlockd/wire"
)

// scriptGroup is one virtual group as a script sees it: replicas that take the
// same steps and differ only in what they have in memory. Whatever a script asks
// is asked of all of them, and they must agree, so that every scenario also shows
// that a state means the same after a restart.
type scriptGroup struct {
	t        *testing.T
	replicas []*scriptReplica
}

// scriptReplica is one state and the disk under it.
type scriptReplica struct {
	name  string
	cfg   Config
	state *State
	disk  scriptDisk
	watch scriptWatch
	out   Output
	// before brings the replica into its own shape ahead of each step.
	before func(r *scriptReplica) error
}

// scriptDisk is the rows of a state by key.
type scriptDisk map[string][]byte

func (d scriptDisk) Fence(key string) (int64, bool) {
	val, ok := d[FenceRow(key)]
	if !ok {
		return 0, false
	}
	token, err := DecodeFence(val)
	if err != nil {
		panic(err) // a disk that cannot be read stops the process
	}
	return token, true
}

// scriptWatch counts the records of each owner, as it was told of them.
type scriptWatch map[string]int

func (w scriptWatch) OwnerCame(owner string) { w[owner]++ }

func (w scriptWatch) OwnerWent(owner string) {
	if w[owner]--; w[owner] == 0 {
		delete(w, owner)
	}
}

// check looks at what must hold between any two steps.
func (r *scriptReplica) check() error {
	if w := r.ownerships(); !maps.Equal(w, r.watch) {
		return fmt.Errorf("it told its watch of the owners %v and has %v", r.watch, w)
	}
	if w := r.grantable(); w != "" {
		return fmt.Errorf("nothing stands in the way of waiter %s", w)
	}
	at, ok := r.state.NextDeadline()
	if first := r.firstDeadline(); ok != (first != 0) || at != first {
		return fmt.Errorf("its next deadline is %d %v, want %d", at, ok, first)
	}
	if !r.state.Touched() {
		return fmt.Errorf("it does not say that it was touched")
	}
	return nil
}

// firstDeadline is the earliest of all that the trees hold, 0 for none.
func (r *scriptReplica) firstDeadline() int64 {
	var all []int64
	r.state.leases.All().Ascend(func(_ string, l *lease) bool { all = append(all, l.deadline); return true })
	r.state.waiters.All().Ascend(func(_ string, w *waiter) bool { all = append(all, w.deadline); return true })
	r.state.edges.All().Ascend(func(_ string, e *edge) bool { all = append(all, e.deadline); return true })
	r.state.kept.All().Ascend(func(_ string, k *kept) bool { all = append(all, k.deadline); return true })
	all = slices.DeleteFunc(all, func(at int64) bool { return at == 0 }) // an ownership record without a lease
	if len(all) == 0 {
		return 0
	}
	return slices.Min(all)
}

// ownerships counts them in the state.
func (r *scriptReplica) ownerships() scriptWatch {
	w := make(scriptWatch)
	r.state.leases.All().Ascend(func(_ string, l *lease) bool {
		w[l.owner]++
		return true
	})
	return w
}

// grantable finds a waiter that a step should have granted. While something is
// past its time and not yet ended there may be some.
func (r *scriptReplica) grantable() (found string) {
	s := r.state
	if s.overdue() {
		return ""
	}
	s.waiters.All().Ascend(func(key string, w *waiter) bool {
		if slices.ContainsFunc(w.wants, func(k want) bool {
			return s.isFrozen(k.key) || s.overFrozen(w.alg, k.mode, k.state, pathOf(k.key))
		}) {
			return true
		}
		a := asking{
			owner: w.owner, ns: w.ns, alg: w.alg, l: s.leases.Get(s.leaseKey(w.owner, w.ns)), wants: w.wants,
			token: w.token, own: w.own, seq: seqOf(key),
		}
		if _, bad := s.hopeless(&a); !bad && s.judge(&a) == (verdict{}) {
			found = fmt.Sprintf("%d of %s", seqOf(key), w.owner)
		}
		return found == ""
	})
	return found
}

func newScriptGroup(t *testing.T, cfg Config) *scriptGroup {
	g := &scriptGroup{t: t}
	for _, r := range []*scriptReplica{
		{name: "in memory", before: func(*scriptReplica) error { return nil }},
		{name: "written and its fences evicted before each step", before: (*scriptReplica).evict},
		{name: "restarted before each step", before: (*scriptReplica).restart},
	} {
		r.cfg, r.disk, r.watch = cfg, make(scriptDisk), make(scriptWatch)
		r.state = New(cfg, r.disk, r.watch)
		g.replicas = append(g.replicas, r)
	}
	return g
}

// checkpoint writes to disk what changed since the last one, and answers how many
// rows were set and how many deleted.
func (r *scriptReplica) checkpoint() (set, gone int, err error) {
	v := r.state.Checkpoint()
	err = v.Rows(v.Since(), func(key, val []byte) error {
		if val == nil {
			delete(r.disk, string(key))
			gone++
			return nil
		}
		r.disk[string(key)] = bytes.Clone(val)
		set++
		return nil
	})
	r.state.Written(v.Mark())
	if r.state.Touched() && err == nil {
		err = errors.New("it says that it was touched since its checkpoint")
	}
	return set, gone, err
}

func (r *scriptReplica) evict() error {
	_, _, err := r.checkpoint()
	for !r.state.EvictFences(1) {
	}
	return err
}

func (r *scriptReplica) restart() error {
	if _, _, err := r.checkpoint(); err != nil {
		return err
	}
	s, err := r.load(false)
	r.state = s
	return err
}

// load makes a state from the disk, its fences read into memory or left there.
func (r *scriptReplica) load(fences bool) (*State, error) {
	r.watch = make(scriptWatch)
	s := New(r.cfg, r.disk, r.watch)
	for _, key := range slices.Sorted(maps.Keys(r.disk)) {
		if IsFenceRow([]byte(key)) && !fences {
			continue
		}
		if err := s.Load([]byte(key), r.disk[key]); err != nil {
			return nil, err
		}
	}
	return s, s.Loaded()
}

// step lets every replica take a step, and answers what the first one said.
func (g *scriptGroup) step(f func(r *scriptReplica) any) (any, *Output) {
	g.t.Helper()
	first := g.replicas[0]
	var answer any
	for _, r := range g.replicas {
		if err := r.before(r); err != nil {
			g.t.Fatalf("replica %s: %v", r.name, err)
		}
		r.out.Reset()
		got := f(r)
		if err := r.check(); err != nil {
			g.t.Fatalf("replica %s: %v", r.name, err)
		}
		if r == first {
			answer = got
			continue
		}
		if !reflect.DeepEqual(got, answer) {
			g.t.Fatalf("replica %s answered\n%+v, the one %s\n%+v", r.name, got, first.name, answer)
		}
		if !slices.Equal(r.out.Events, first.out.Events) {
			g.t.Fatalf("replica %s told\n%v, the one %s\n%v", r.name, r.out.Events, first.name, first.out.Events)
		}
		if !reflect.DeepEqual(r.out.Answers, first.out.Answers) {
			g.t.Fatalf("replica %s ended calls\n%v, the one %s\n%v", r.name, r.out.Answers, first.name,
				first.out.Answers)
		}
		if r.state.View().Digest() != first.state.View().Digest() {
			g.t.Fatalf("replica %s has another digest than the one %s", r.name, first.name)
		}
	}
	return answer, &first.out
}

// read asks every replica the same question.
func (g *scriptGroup) read(f func(v *View) string) string {
	g.t.Helper()
	answer := f(g.replicas[0].state.View())
	for _, r := range g.replicas[1:] {
		if got := f(r.state.View()); got != answer {
			g.t.Fatalf("replica %s answered\n%s\nthe one %s\n%s", r.name, got, g.replicas[0].name, answer)
		}
	}
	return answer
}

// apply carries one command out, validated as a server does before it resolves
// the names in it.
func (g *scriptGroup) apply(c Clock, cmd *Command) (wire.Result, *Output) {
	g.t.Helper()
	asked := *cmd.Req
	asked.Domains = slices.Clone(asked.Domains)
	for i, d := range asked.Domains {
		asked.Domains[i] = strings.TrimSuffix(d, ":")
	}
	var res wire.Result
	if err := asked.Validate(); err != nil {
		res.Fail(err)
		return res, new(Output)
	}
	return g.stepWith(cmd, func(r *scriptReplica, cmd *Command) wire.Result {
		return r.state.Apply(c, cmd, &r.out)
	})
}

// stepWith is step with a command. Each replica gets it in a buffer that is
// overwritten afterwards, so that what it keeps must be its own.
func (g *scriptGroup) stepWith(cmd *Command, f func(*scriptReplica, *Command) wire.Result) (wire.Result, *Output) {
	g.t.Helper()
	got, out := g.step(func(r *scriptReplica) any {
		lent, buf := g.lend(cmd)
		res := f(r, lent)
		for i := range buf {
			buf[i] = '!'
		}
		return res
	})
	return got.(wire.Result), out
}

// lend answers a command like cmd that aliases buf.
func (g *scriptGroup) lend(cmd *Command) (lent *Command, buf []byte) {
	g.t.Helper()
	buf, nargs := wire.AppendArgs(nil, cmd.Req)
	args := len(buf)
	buf = append(buf, cmd.NS...)
	c := *cmd
	c.NS, c.Req = view(buf[args:]), new(wire.Request)
	if err := wire.DecodeArgs(cmd.Req.Op, buf[:args], nargs, c.Req); err != nil {
		g.t.Fatal(err)
	}
	c.Meta = c.Req.Meta
	return &c, buf
}
