package conformance_test

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// lookAgain is how often a step that says eventually is tried again.
const lookAgain = 25 * time.Millisecond

// runner carries out a scenario over one face.
type runner struct {
	t       testing.TB
	face    face
	names   names
	vars    map[string]any
	open    map[string]*open
	streams map[string]*stream
	owners  map[any]bool // who asked for locks
	seen    *seen
	at      string // file and line

	lifetimes lifetimes
}

// carryOut runs a scenario.
func (r *runner) carryOut(s *scenario, sight *seen, tidy bool) {
	r.t.Helper()
	r.seen = sight
	defer r.close()
	if tidy {
		defer r.tidy()
	}
	for i := range s.steps {
		r.at = fmt.Sprintf("%s:%d", s.file, s.steps[i].line)
		r.step(&s.steps[i])
		if r.t.Failed() {
			return // what follows would only be confused
		}
	}
	sight.end()
}

func newRunner(t testing.TB, f face, n names) *runner {
	return &runner{
		t: t, face: f, names: n,
		vars: make(map[string]any), open: make(map[string]*open), streams: make(map[string]*stream),
		owners: make(map[any]bool), seen: new(seen),
	}
}

// close ends the subscriptions.
func (r *runner) close() {
	for _, s := range r.streams {
		s.close()
	}
}

// tidy leaves no place in the queue behind, for the next scenario of a small one.
func (r *runner) tidy() {
	for owner := range r.owners {
		if _, refused := r.face.call(context.Background(), "ForceRelease",
			message{"victim_id": owner}); refused != nil {
			r.t.Errorf("%s: tidy up: %v", r.at, refused)
		}
	}
}

func (r *runner) fatal(format string, args ...any) {
	r.t.Helper()
	r.t.Fatalf("%s: %s", r.at, r.names.plain(fmt.Sprintf(format, args...)))
}

func (r *runner) step(s *step) {
	r.t.Helper()
	began := time.Now()
	defer func() { r.lifetimes.step(s, began) }() // also of one that failed
	switch s.verb {
	case "check":
		ok, err := holds(strings.Join(s.words, " "), r.vars)
		if err != nil || !ok {
			r.fatal("%s: does not hold (%v), %v", strings.Join(s.words, " "), err, r.vars)
		}
	case "call", "dumpOwn", "scanOwn":
		r.ask(s)
	case "start":
		r.start(s)
	case "cancel":
		r.opened(s).cancel()
	case "drop":
		r.opened(s).drop()
	case "ends":
		select {
		case o := <-r.opened(s).ended:
			r.judge(s, output("Acquire"), o.answer, o.refused)
		case <-time.After(patience):
			r.fatal("%s does not end", s.name)
		}
	case "told":
		select {
		case place := <-r.opened(s).told:
			r.judge(s, output("Acquire"), place, nil)
		case <-time.After(patience):
			r.fatal("%s is not told its place", s.name)
		}
	case "subscribe":
		st, refused := r.face.subscribe(r.t, r.request(s))
		if refused == nil {
			r.streams[s.name] = st
		}
		r.judge(s, output("Subscribe"), nil, refused)
	case "event":
		r.event(s)
	}
}

func (r *runner) request(s *step) message {
	r.t.Helper()
	return r.requestOf(s.rpc, s.words)
}

// requestOf builds a request. A ttl that is not named is 30 s.
func (r *runner) requestOf(rpc string, words []string) message {
	r.t.Helper()
	d := method(rpc).Input()
	req, err := (&scribe{names: r.names, vars: r.vars}).message(d, words)
	if err != nil {
		r.fatal("%v", err)
	}
	if _, named := req["ttl_ms"]; !named && d.Fields().ByName("ttl_ms") != nil {
		req["ttl_ms"] = int64(30_000)
	}
	if locks, _ := req["requests"].([]any); len(locks) > 0 {
		r.owners[req["owner_id"]] = true
	}
	r.seen.message(d, req)
	r.lifetimes.asked(req)
	return req
}

// ask calls, and again while the step says eventually and the answer is not there
// yet.
func (r *runner) ask(s *step) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		answer, refused := r.call(ctx, s)
		diffs, vars := r.differs(s, output(s.rpc), answer, refused)
		if len(diffs) == 0 {
			r.vars = vars
			return
		}
		if s.eventually && ctx.Err() == nil {
			select {
			case <-time.After(lookAgain):
				continue
			case <-ctx.Done():
			}
		}
		r.fatal("%s", strings.Join(diffs, "\n\t"))
	}
}

func (r *runner) call(ctx context.Context, s *step) (message, *refusal) {
	r.t.Helper()
	switch {
	case s.rpc == "AcquireStream":
		return r.acquireStream(ctx, s)
	case s.verb != "call":
		return r.allPages(ctx, s)
	}
	return r.face.call(ctx, s.rpc, r.request(s))
}

// judge compares what came with what the step expects.
func (r *runner) judge(s *step, d protoreflect.MessageDescriptor, answer message, refused *refusal) {
	r.t.Helper()
	diffs, vars := r.differs(s, d, answer, refused)
	if len(diffs) > 0 {
		r.fatal("%s", strings.Join(diffs, "\n\t"))
	}
	r.vars = vars
}

func (r *runner) differs(s *step, d protoreflect.MessageDescriptor, answer message,
	refused *refusal) ([]string, map[string]any) {
	r.t.Helper()
	switch {
	case refused != nil && s.code == "":
		return []string{"refused: " + refused.code + ": " + refused.message}, nil
	case refused != nil:
		says := r.names.plain(refused.message)
		if refused.code != s.code || !regexp.MustCompile(s.says).MatchString(says) {
			return []string{fmt.Sprintf("refused: %s: %s\n\twant     %s: %s", refused.code, says, s.code, s.says)}, nil
		}
		return nil, r.vars
	case s.code != "":
		return []string{fmt.Sprintf("answered %v, want the refusal %s %s", answer, s.code, s.says)}, nil
	}
	r.seen.message(d, answer)
	want, err := (&scribe{names: r.names, want: true}).message(d, s.want)
	if err != nil {
		r.fatal("%v", err)
	}
	vars := maps.Clone(r.vars)
	return compare(string(d.Name()), want, orEmpty(any(answer)), vars), vars
}
