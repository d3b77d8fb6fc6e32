package conformance_test

import (
	"context"
	"strings"
	"time"
)

// opened is the open call that a step names.
func (r *runner) opened(s *step) *open {
	r.t.Helper()
	o := r.open[s.name]
	if o == nil {
		r.fatal("no call %s was started", s.name)
	}
	return o
}

// start opens a call, and waits until its request is in the queue or it has ended.
func (r *runner) start(s *step) {
	r.t.Helper()
	req := r.request(s)
	before := r.waiting(req)
	if _, keyed := req["idempotency_key"]; keyed && before > 0 {
		before-- // it may take the place of an earlier call
	}
	o := r.face.start(r.t, s.rpc, req)
	r.open[s.name] = o
	for late := time.After(patience); ; {
		if len(o.ended) > 0 || r.waiting(req) > before {
			return
		}
		select {
		case <-late:
			r.fatal("%s neither waits nor ends", s.name)
		case <-time.After(time.Millisecond):
		}
	}
}

// waiting counts the open calls of a request's owner that wait for its first path.
func (r *runner) waiting(req message) (n int) {
	r.t.Helper()
	locks, _ := req["requests"].([]any)
	if len(locks) == 0 {
		return 0
	}
	answer, refused := r.face.call(context.Background(), "DescribePath", message{"path": locks[0].(message)["path"]})
	if refused != nil {
		return 0 // the call itself will be refused
	}
	waiters, _ := answer["waiters"].([]any)
	for _, w := range waiters {
		if w := w.(message); w["owner"] == req["owner_id"] && w["open"] == true {
			n++
		}
	}
	return n
}

// streamOf is the subscription that a step names.
func (r *runner) streamOf(s *step) *stream {
	r.t.Helper()
	st := r.streams[s.name]
	if st == nil {
		r.fatal("there is no subscription %s", s.name)
	}
	return st
}

// event waits for the next event of a subscription. An interface that tells only
// type and owner is not asked for more.
func (r *runner) event(s *step) {
	r.t.Helper()
	d := output("Subscribe")
	want, err := (&scribe{names: r.names, want: true}).message(d, s.words)
	if err != nil {
		r.fatal("%v", err)
	}
	select {
	case got, ok := <-r.streamOf(s).events:
		if !ok {
			r.fatal("the stream %s ended", s.name)
		}
		r.seen.message(d, got)
		if !r.face.full() {
			for _, more := range []string{"path", "namespace", "fencing_token"} {
				delete(want, more)
			}
		}
		if _, named := want["owner_id"]; !named {
			want["owner_id"] = anything{}
		}
		if diffs := compare("Event", want, got, r.vars); len(diffs) > 0 {
			r.fatal("%s", strings.Join(diffs, "\n\t"))
		}
	case <-time.After(patience):
		r.fatal("no event: %s", strings.Join(s.words, " "))
	}
}
