package web

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/pathlockd/pathlockd/wire"
)

const (
	// batch is how many events are written at once.
	batch = 128
	// retryAfter is how long clients wait before they come back, milliseconds. A node
	// that restarts is there again after some of it.
	retryAfter = 2000
)

// eventTypes are the names of the kinds of events (contract.md section 12).
var eventTypes = [...]string{wire.EventKilled: "killed", wire.EventRevoke: "revoke", wire.EventGrant: "grant"}

// events serves GET /v1/events/sse: an owner's events as server-sent events (the HTML
// standard, section 9.2).
func (s *Server) events(w http.ResponseWriter, r *http.Request) {
	if s.opt.Events == nil {
		s.fail(w, r, &refusal{code: codes.Unimplemented, why: "this server has no event streams"})
		return
	}
	owner, resume, after, err := wish(r)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	reader, missed, err := s.opt.Events.attach(callsOf(r), owner, resume, after)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	defer reader.detach()
	h := w.Header()
	h["Content-Type"] = typeEvents
	h["Cache-Control"] = noStore
	h["X-Content-Type-Options"] = noSniff
	h["X-Accel-Buffering"] = noBuffering
	out := eventStream{s: s, w: w, owner: owner}
	out.begin(reader.last, missed)
	out.run(r, reader)
}

var (
	typeEvents  = []string{"text/event-stream"}
	noBuffering = []string{"no"} // a proxy's
)

// wish reads whose events are asked for, and after which id; without one the stream
// starts behind the newest.
func wish(r *http.Request) (owner string, resume bool, after uint64, err error) {
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return "", false, 0, badField("query", r.URL.RawQuery, "is not encoded as a query")
	}
	owner = q.Get("owner_id")
	check := wire.Request{Op: wire.OpSubscribe, Owner: owner}
	if at := invalidUTF8([]byte(owner)); at >= 0 {
		return "", false, 0, badField("owner_id", owner, "is not valid UTF-8")
	}
	if err := check.Validate(); err != nil {
		return "", false, 0, &refusal{code: codes.Code(err.Code), why: err.Message}
	}
	field, text := "Last-Event-ID", r.Header.Get("Last-Event-ID")
	if text == "" {
		field, text = "after", q.Get("after")
	}
	if text == "" {
		return owner, false, 0, nil
	}
	after, err = strconv.ParseUint(text, 10, 64)
	if err != nil {
		return "", false, 0, badField(field, text, "must be the id of an event, a whole number from 0")
	}
	return owner, true, after, nil
}

func badField(field, value, why string) error {
	return &refusal{code: codes.InvalidArgument, why: fmt.Sprintf("%s %q: %s", field, short(value), why)}
}

// eventStream is an answer that is being written.
type eventStream struct {
	s     *Server
	w     http.ResponseWriter
	owner string
	buf   []byte
}

// begin prepares the head of the stream: an id, so that a client that reconnects
// before it got an event misses none, and no data, so that it is no event; and what
// was missed, if something was.
func (e *eventStream) begin(last uint64, missed *gap) {
	e.buf = append(e.buf, "retry: "...)
	e.buf = strconv.AppendInt(e.buf, retryAfter, 10)
	e.buf = append(e.buf, '\n')
	e.id(last)
	if missed != nil {
		e.buf = append(e.buf, "event: gap\ndata: {\"after\":"...)
		e.buf = strconv.AppendUint(e.buf, missed.after, 10)
		e.buf = append(e.buf, `,"next":`...)
		e.buf = strconv.AppendUint(e.buf, missed.next, 10)
		e.buf = append(e.buf, `,"ownerId":`...)
		e.buf = append(appendString(e.buf, e.owner), '}', '\n')
	}
	e.buf = append(e.buf, '\n')
}

func (e *eventStream) id(id uint64) {
	e.buf = append(e.buf, "id: "...)
	e.buf = strconv.AppendUint(e.buf, id, 10)
	e.buf = append(e.buf, '\n')
}

// add appends an event.
func (e *eventStream) add(v event) {
	e.id(v.id)
	e.buf = append(e.buf, `data: {"id":`...)
	e.buf = strconv.AppendUint(e.buf, v.id, 10)
	e.buf = append(e.buf, `,"type":"`...)
	e.buf = append(e.buf, eventTypes[v.kind]...)
	e.buf = append(e.buf, `","ownerId":`...)
	e.buf = append(appendString(e.buf, e.owner), "}\n\n"...)
}

// run writes until the client goes, falls behind, or the node leaves.
func (e *eventStream) run(r *http.Request, reader *reader) {
	beat := time.NewTimer(e.s.opt.Events.beat)
	defer beat.Stop()
	var next []event
	for reader.wake(); ; { // what there is already is taken with the first write
		if len(e.buf) > 0 {
			if e.write() != nil {
				return
			}
			beat.Reset(e.s.opt.Events.beat)
		}
		select {
		case <-reader.more:
		case <-beat.C:
			e.buf = append(e.buf, ":keep-alive\n\n"...)
			continue
		case <-r.Context().Done():
			return
		case <-e.s.opt.Service.Leaving():
			return
		}
		if next == nil {
			next = make([]event, 0, batch)
		}
		var err error
		next, err = reader.take(next[:0])
		for _, v := range next {
			e.add(v)
		}
		if err != nil {
			e.cut()
			return
		}
	}
}

// cut tells a client that its next event is not there.
func (e *eventStream) cut() {
	e.buf = append(e.buf, "event: error\ndata: "+`{"error":{"code":"RESOURCE_EXHAUSTED","message":"`+
		"events were missed: they came faster than they were read, or the node itself did not see them; reconnect, "+
		"and look at what may have changed"+`"}}`+"\n\n"...)
	_ = e.write() // the stream ends either way
}

// write sends what was prepared. A client that takes nothing of it for long is cut
// off; between writes there is no deadline.
func (e *eventStream) write() error {
	if err := writeSide(e.w, time.Now().Add(e.s.lim.write)); err != nil {
		return err
	}
	_, err := e.w.Write(e.buf)
	if err == nil {
		err = http.NewResponseController(e.w).Flush()
	}
	if err != nil {
		return err
	}
	e.buf = e.buf[:0]
	return writeSide(e.w, time.Time{})
}
