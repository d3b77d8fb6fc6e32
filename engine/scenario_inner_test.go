package engine

import (
	"fmt"
	"slices"

	"github.com/pathlockd/pathlockd/wire"
)

// policy NAMESPACE ALGORITHM|default: the namespace's row, in its group; the
// routes stay as they are
func (s *script) policy(l *scriptLine) {
	req := &wire.Request{Op: wire.OpSetRow, Namespace: s.word(l, 0)}
	if alg := s.word(l, 1); alg != "default" {
		req.Explicit, req.Algorithm = true, s.algorithm(alg)
	}
	res, out := s.apply(l, req, "")
	s.tell("policy", emptyText(&res), out)
}

// root NAMESPACE… and unroot NAMESPACE… change the routes, as the commit of a
// routing change does; no group is told
func (s *script) root(l *scriptLine) {
	s.routes = wire.NewRoutes(s.routes.Version+1, s.cfg.Segments, append(s.routes.Roots(), l.words...))
}

func (s *script) unroot(l *scriptLine) {
	roots := slices.DeleteFunc(s.routes.Roots(), func(r string) bool { return slices.Contains(l.words, r) })
	s.routes = wire.NewRoutes(s.routes.Version+1, s.cfg.Segments, roots)
}

// freeze ROOT [above=NAMESPACE] [until=VERSION]
func (s *script) freeze(l *scriptLine) {
	req := &wire.Request{Op: wire.OpFreeze, Namespace: s.word(l, 0), Target: uint64(s.number(l.opt("until", "0")))}
	res, out := s.apply(l, req, l.opt("above", ""))
	s.tell("freeze", acquireText(&res), out)
}

// thaw ROOT
func (s *script) thaw(l *scriptLine) { s.moving(l, &wire.Request{Op: wire.OpThaw}) }

// open ROOT [ALGORITHM] token= in=NAMESPACE, with the routes as they are now
func (s *script) open(l *scriptLine) {
	req := &wire.Request{Op: wire.OpOpen, Token: int64(s.number(l.opt("token", "0"))), Target: s.routes.Version}
	if len(l.words) > 1 {
		req.Explicit, req.Algorithm = true, s.algorithm(l.words[1])
	}
	s.moving(l, req)
}

// leave ROOT, with the routes as they are now
func (s *script) leave(l *scriptLine) {
	s.moving(l, &wire.Request{Op: wire.OpLeave, Target: s.routes.Version})
}

func (s *script) moving(l *scriptLine, req *wire.Request) {
	req.Namespace = s.word(l, 0)
	res, out := s.apply(l, req, l.opt("in", ""))
	s.tell(l.verb, emptyText(&res), out)
}

// tick DURATION: time passes, and all that ends with it ends
func (s *script) tick(l *scriptLine) {
	s.pass(l)
	for more := true; more; {
		more = s.expire()
	}
}

// step DURATION: time passes, and as much ends as one step may end
func (s *script) step(l *scriptLine) {
	s.pass(l)
	if s.expire() {
		fmt.Fprintln(&s.say, "  more is due")
	}
}

func (s *script) pass(l *scriptLine) {
	ms := int64(s.millis(s.word(l, 0)))
	s.clock.Now, s.clock.Wall = s.clock.Now+ms, s.clock.Wall+ms
	fmt.Fprintf(&s.say, "%s: now %s\n", l.verb, span(s.clock.Now))
}

func (s *script) expire() bool {
	more, out := s.at.step(func(r *scriptReplica) any { return r.state.Expire(s.clock, &r.out) })
	s.tellEvents(out)
	return more.(bool)
}

// restart: the state in memory is made anew from its disk, fences and all
func (s *script) restartAll(*scriptLine) {
	r := s.at.replicas[0]
	before := r.state.View().Digest()
	_, _, err := r.checkpoint()
	if err == nil {
		r.state, err = r.load(true)
	}
	if err != nil {
		s.fail("%v", err)
	}
	same := "the same"
	if r.state.View().Digest() != before {
		same = "another"
	}
	fmt.Fprintf(&s.say, "restart: %s state\n", same)
}

// checkpoint: the state in memory is written to disk, and fences leave memory
func (s *script) checkpoint(*scriptLine) {
	r := s.at.replicas[0]
	set, gone, err := r.checkpoint()
	if err != nil {
		s.fail("%v", err)
	}
	before := r.state.Stats().Fences
	for !r.state.EvictFences(2) {
	}
	fmt.Fprintf(&s.say, "checkpoint: %d rows set, %d deleted, %d fences evicted\n",
		set, gone, before-r.state.Stats().Fences)
}
