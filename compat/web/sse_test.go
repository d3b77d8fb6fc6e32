package web

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	pb "github.com/pathlockd/pathlockd/compat/pathlockdv1"
	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/wire"
)

// withEvents is the change that gives a test's server event streams.
func withEvents(l *EventLog) func(*Options, *limits) {
	return func(o *Options, _ *limits) { o.Events, o.ZeroRTT = l, true }
}

// overEach runs a test over each version of HTTP.
func overEach(t *testing.T, change func(*Options, *limits), test func(t *testing.T, f *face, c *http.Client)) {
	for name, with := range map[string]func(t testing.TB, f *face) *http.Client{
		"HTTP1": func(t testing.TB, _ *face) *http.Client { return client(t, false) },
		"HTTP2": func(t testing.TB, _ *face) *http.Client { return client(t, true) },
		"HTTP3": h3Client,
	} {
		t.Run(name, func(t *testing.T) {
			f := serve(t, change)
			c := with(t, f)
			c.Timeout = 0 // streams stay open
			test(t, f, c)
		})
	}
}

// sseFrame is what a server-sent event stream has between two blank lines.
type sseFrame struct {
	event, id, data, retry, comment string
}

// eventSource is a client of an event stream, as a browser has it.
type eventSource struct {
	t      testing.TB
	c      *http.Client
	url    string
	lastID string

	cancel context.CancelFunc
	res    *http.Response
	in     *bufio.Reader
}

func (f *face) source(t testing.TB, c *http.Client, query string) *eventSource {
	e := &eventSource{t: t, c: c, url: f.url + eventsPath + "?" + query}
	t.Cleanup(e.close)
	return e
}

// open connects, with the id of the last event if there was one.
func (e *eventSource) open() *eventSource {
	e.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	e.cancel = cancel
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, e.url, nil)
	if err != nil {
		e.t.Fatal(err)
	}
	req.Header.Set("Accept", "text/event-stream")
	if e.lastID != "" {
		req.Header.Set("Last-Event-ID", e.lastID)
	}
	if e.res, err = e.c.Do(req); err != nil {
		e.t.Fatal(err)
	}
	if got := e.res.Header.Get("Content-Type"); e.res.StatusCode != 200 || got != "text/event-stream" {
		e.t.Fatalf("status %d, type %q", e.res.StatusCode, got)
	}
	e.in = bufio.NewReader(e.res.Body)
	return e
}

func (e *eventSource) close() {
	if e.cancel != nil {
		e.cancel()
		e.res.Body.Close()
		e.cancel = nil
	}
}

// frame reads the next frame.
func (e *eventSource) frame() (f sseFrame, err error) {
	for {
		line, err := e.in.ReadString('\n')
		if err != nil {
			return f, err
		}
		line = line[:len(line)-1]
		if line == "" {
			if f.id != "" {
				e.lastID = f.id
			}
			return f, nil
		}
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch field {
		case "event":
			f.event = value
		case "id":
			f.id = value
		case "data":
			f.data += value
		case "retry":
			f.retry = value
		case "":
			f.comment = value
		default:
			e.t.Errorf("a line %q", line)
		}
	}
}

// event reads the next frame that a browser would hand on.
func (e *eventSource) event() sseFrame {
	e.t.Helper()
	for {
		f, err := e.frame()
		if err != nil {
			e.t.Fatal(err)
		}
		if f.data != "" {
			return f
		}
	}
}

func TestEventStreamFrames(t *testing.T) {
	l := NewEventLog(8, 0)
	overEach(t, withEvents(l), func(t *testing.T, f *face, c *http.Client) {
		owner := `o"\` + "\n é " + t.Name()
		e := f.source(t, c, "owner_id="+url.QueryEscape(owner)).open()
		if first, err := e.frame(); err != nil || first != (sseFrame{id: "0", retry: "2000"}) {
			t.Fatalf("the stream begins with %+v, %v", first, err)
		}
		quoted, err := json.Marshal(owner)
		if err != nil {
			t.Fatal(err)
		}
		for i, kind := range []wire.EventKind{wire.EventGrant, wire.EventRevoke, wire.EventKilled} {
			l.Add(owner, kind)
			got, err := e.frame()
			want := sseFrame{id: strconv.Itoa(i + 1), data: fmt.Sprintf(`{"id":%d,"type":"%s","ownerId":%s}`, i+1,
				eventTypes[kind], quoted)}
			if err != nil || got != want {
				t.Fatalf("got %+v, %v; want %+v", got, err, want)
			}
		}
	})
}

func TestEventStreamRefusals(t *testing.T) {
	overEach(t, withEvents(NewEventLog(8, 0)), func(t *testing.T, f *face, c *http.Client) {
		for _, x := range []struct{ query, header, says string }{
			{"", "", "owner_id: must not be empty"},
			{"owner_id=", "", "owner_id: must not be empty"},
			{"owner_id=" + strings.Repeat("x", 1025), "", "owner_id"},
			{"owner_id=a%00b", "", "owner_id"},
			{"owner_id=a%ffb", "", "owner_id"},
			{"owner_id=%zz", "", "query"},
			{"owner_id=a&after=x", "", `after "x": must be`},
			{"owner_id=a&after=-1", "", `after "-1": must be`},
			{"owner_id=a&after=18446744073709551616", "", "after"},
			{"owner_id=a&after=1", "1.5", `Last-Event-ID "1.5": must be`},
		} {
			var headers []string
			if x.header != "" {
				headers = []string{"Last-Event-Id", x.header}
			}
			res := f.send(t, c, http.MethodGet, eventsPath+"?"+x.query, "", headers...)
			var e struct {
				Error struct{ Code, Message string }
			}
			if err := json.Unmarshal([]byte(res.body), &e); err != nil || res.StatusCode != 400 ||
				e.Error.Code != "INVALID_ARGUMENT" || !strings.Contains(e.Error.Message, x.says) {
				t.Errorf("%s %s: %d %s, which does not say %q", x.query, x.header, res.StatusCode, res.body, x.says)
			}
		}
	})
}

func TestEventStreamStartsWhereItIsToldTo(t *testing.T) {
	l := NewEventLog(4, 0)
	overEach(t, withEvents(l), func(t *testing.T, f *face, c *http.Client) {
		owner := t.Name()
		for range 6 {
			l.Add(owner, wire.EventGrant)
		}
		for _, x := range []struct {
			name, after, lastID, first string
			gap                        string
		}{
			{"at the newest", "", "", "7", ""},
			{"after", "4", "", "5", ""},
			{"Last-Event-ID", "", "5", "6", ""},
			{"Last-Event-ID before after", "2", "5", "6", ""},
			{"what is gone", "1", "", "3", `{"after":1,"next":3,"ownerId":"` + owner + `"}`},
			{"of another node", "", "9999999999", "3", `{"after":9999999999,"next":3,"ownerId":"` + owner + `"}`},
		} {
			e := f.source(t, c, url.Values{"owner_id": {owner}, "after": {x.after}}.Encode())
			e.lastID = x.lastID
			first, err := e.open().frame()
			if err != nil || first.data != x.gap || x.gap != "" && first.event != "gap" {
				t.Errorf("%s: the stream begins with %+v, %v; want the gap %s", x.name, first, err, x.gap)
			}
			if x.first == "7" {
				continue // nothing comes
			}
			if got := e.event(); got.id != x.first || first.id != strconv.Itoa(atoi(t, x.first)-1) {
				t.Errorf("%s: it goes on with %s after %s, want %s", x.name, got.id, first.id, x.first)
			}
			e.close()
		}
	})
}

func atoi(t testing.TB, s string) int {
	t.Helper()
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestEventStreamMissesNothing reconnects again and again while events come.
func TestEventStreamMissesNothing(t *testing.T) {
	const events = 3000
	l := NewEventLog(events, 0)
	overEach(t, withEvents(l), func(t *testing.T, f *face, c *http.Client) {
		owner := t.Name()
		e := f.source(t, c, "owner_id="+owner).open()
		if _, err := e.frame(); err != nil { // from now on
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		wg.Go(func() {
			for range events {
				l.Add(owner, wire.EventRevoke)
			}
		})
		connects := 1
		for next := 1; next <= events; next++ {
			if next%97 == 0 { // what is still in its buffers is lost with the connection
				e.close()
				e.open()
				connects++
			}
			if got := e.event(); got.id != strconv.Itoa(next) || got.event != "" {
				t.Fatalf("got %+v, want event %d", got, next)
			}
		}
		wg.Wait()
		t.Logf("%d events over %d connects", events, connects)
	})
}

// A client that lost its connection before it had an event misses none either.
func TestEventStreamResumesFromNothing(t *testing.T) {
	l := NewEventLog(8, 0)
	overEach(t, withEvents(l), func(t *testing.T, f *face, c *http.Client) {
		owner := t.Name()
		l.Add(owner, wire.EventGrant)
		e := f.source(t, c, "owner_id="+owner).open()
		if _, err := e.frame(); err != nil {
			t.Fatal(err)
		}
		e.close()
		l.Add(owner, wire.EventGrant)
		if got := e.open().event(); got.id != "2" {
			t.Errorf("got %+v, want event 2", got)
		}
	})
}

func TestEventStreamKeepsAlive(t *testing.T) {
	l := NewEventLog(8, 0)
	l.beat = 10 * time.Millisecond
	overEach(t, withEvents(l), func(t *testing.T, f *face, c *http.Client) {
		e := f.source(t, c, "owner_id="+t.Name()).open()
		for i := range 3 {
			got, err := e.frame()
			if i > 0 && (err != nil || got != sseFrame{comment: "keep-alive"}) {
				t.Fatalf("got %+v, %v", got, err)
			}
		}
	})
	if NewEventLog(1, 0).beat != 15*time.Second {
		t.Error("streams say every", NewEventLog(1, 0).beat, "that they live")
	}
}

// The write deadline of one write must not end a stream that is silent after it.
func TestEventStreamOutlivesItsWriteDeadline(t *testing.T) {
	l := NewEventLog(8, 0)
	change := func(o *Options, lim *limits) {
		o.Events, lim.write, lim.call = l, 50*time.Millisecond, 50*time.Millisecond
	}
	overEach(t, change, func(t *testing.T, f *face, c *http.Client) {
		e := f.source(t, c, "owner_id="+t.Name()).open()
		if _, err := e.frame(); err != nil {
			t.Fatal(err)
		}
		pause := time.NewTimer(300 * time.Millisecond) // it is the passing of time that is tested
		defer pause.Stop()
		<-pause.C
		l.Add(t.Name(), wire.EventGrant)
		if got := e.event(); got.id != "1" {
			t.Errorf("got %+v", got)
		}
	})
}

func TestEventStreamEndsWhenTheNodeLeaves(t *testing.T) {
	overEach(t, withEvents(NewEventLog(8, 0)), func(t *testing.T, f *face, c *http.Client) {
		e := f.source(t, c, "owner_id=a").open()
		if _, err := e.frame(); err != nil {
			t.Fatal(err)
		}
		f.svc.Leave()
		if got, err := e.frame(); !errors.Is(err, io.EOF) {
			t.Errorf("got %+v, %v; want a proper end", got, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		e.close()
		c.CloseIdleConnections()
		f.Drain(ctx)
		if ctx.Err() != nil {
			t.Error("the server did not drain in time")
		}
	})
}

// A client that does not read is told when it reads again, and cut.
func TestEventStreamTellsWhoFallsBehind(t *testing.T) {
	l := NewEventLog(8, 0)
	overEach(t, withEvents(l), func(t *testing.T, f *face, c *http.Client) {
		owner := strings.Repeat("o", 900) + t.Name()
		e := f.source(t, c, "owner_id="+owner).open()
		// The network's buffers take some; then the server has nowhere to write to.
		taken := func(n int) bool {
			l.mu.Lock()
			defer l.mu.Unlock()
			return l.mu.owners[owner].readers[0].last == uint64(n)
		}
		added := 0
		for stuck := false; !stuck; {
			for range 50 {
				l.Add(owner, wire.EventGrant)
				added++
			}
			end := time.Now().Add(time.Second)
			for !taken(added) && !stuck {
				stuck = time.Now().After(end)
				runtime.Gosched()
			}
		}
		for range 4 * liveEvents {
			l.Add(owner, wire.EventGrant)
		}
		last, n := 0, 0
		for {
			got, err := e.frame()
			if err != nil {
				t.Fatalf("after %d events: %v, and no word of it", n, err)
			}
			if got.event == "error" {
				if got.data != `{"error":{"code":"RESOURCE_EXHAUSTED","message":"events were missed: they came faster than they were read, or the node itself did not see them; reconnect, and look at what may have changed"}}` {
					t.Errorf("told %s", got.data)
				}
				break
			}
			if got.data == "" {
				continue
			}
			if n++; atoi(t, got.id) != last+1 {
				t.Fatalf("event %s comes after %d, and nothing was told", got.id, last)
			}
			last = atoi(t, got.id)
		}
		if _, err := e.frame(); !errors.Is(err, io.EOF) {
			t.Errorf("after that: %v", err)
		}
		if n == 0 || n >= added+4*liveEvents {
			t.Errorf("%d of %d events came", n, added+4*liveEvents)
		}
		t.Logf("%d of %d events, then told", n, added+4*liveEvents)
		// It comes back, and is told of the gap.
		if got := e.open().event(); got.event != "gap" {
			t.Errorf("it came back and got %+v", got)
		}
	})
}

func TestEventStreamsOfAConnectionAreBounded(t *testing.T) {
	f := serve(t, withEvents(NewEventLog(8, 0)))
	for name, c := range map[string]*http.Client{"HTTP2": client(t, true), "HTTP3": h3Client(t, f)} {
		t.Run(name, func(t *testing.T) {
			for i := range maxReadersConn {
				f.source(t, c, fmt.Sprint("owner_id=", i)).open()
			}
			res := f.send(t, c, http.MethodGet, eventsPath+"?owner_id=x", "")
			if res.StatusCode != 429 || !strings.Contains(res.body,
				`"RESOURCE_EXHAUSTED","message":"the connection has 128 event streams`) {
				t.Errorf("one more: %d %s", res.StatusCode, res.body)
			}
			// The connection serves what else is asked.
			if res := f.post(t, c, "health", "{}"); res.StatusCode != 200 {
				t.Errorf("health: %d %s", res.StatusCode, res.body)
			}
		})
	}
}

// TestEventStreamOfRealEvents has a node make them.
func TestEventStreamOfRealEvents(t *testing.T) {
	l := NewEventLog(8, 0)
	untap := shared.get(t).Tap(func(e engine.Event, _ wire.Position) { l.Add(e.Owner, e.Kind) }, l.Miss)
	defer untap()
	overEach(t, withEvents(l), func(t *testing.T, f *face, c *http.Client) {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		a, b, path := t.Name()+"-a", t.Name()+"-b", "sse:/"+strings.ReplaceAll(t.Name(), "/", "-")
		acquire := func(owner string) pb.AcquireStatus {
			res, err := f.svc.Acquire(ctx, &pb.AcquireRequest{OwnerId: owner, TtlMs: 30_000,
				Requests: []*pb.LockRequest{{Path: path}}})
			if err != nil {
				t.Fatal(err)
			}
			return res.Status
		}
		if s := acquire(a); s != pb.AcquireStatus_ACQUIRE_STATUS_OK {
			t.Fatal(s)
		}
		if s := acquire(b); s != pb.AcquireStatus_ACQUIRE_STATUS_QUEUED {
			t.Fatal(s)
		}
		if _, err := f.svc.RequestRevoke(ctx, &pb.RequestRevokeRequest{OwnerId: a}); err != nil {
			t.Fatal(err)
		}
		if _, err := f.svc.ForceRelease(ctx, &pb.ForceReleaseRequest{VictimId: a}); err != nil {
			t.Fatal(err)
		}
		defer func() {
			if _, err := f.svc.ReleaseAll(ctx, &pb.ReleaseAllRequest{OwnerId: b}); err != nil {
				t.Error(err)
			}
		}()
		for owner, want := range map[string][]string{a: {"revoke", "killed"}, b: {"grant"}} {
			e := f.source(t, c, "after=0&owner_id="+url.QueryEscape(owner)).open() // they were kept for it
			for i, kind := range want {
				if got := e.event(); got.id != strconv.Itoa(i+1) || !strings.Contains(got.data, `"type":"`+kind+`"`) {
					t.Errorf("%s got %+v, want %s", owner, got, kind)
				}
			}
		}
	})
}
