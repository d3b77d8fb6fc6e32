package web

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/qlog"
	"github.com/quic-go/quic-go/qlogwriter"
	"github.com/quic-go/quic-go/quicvarint"

	"github.com/pathlockd/pathlockd/internal/faketime"
)

// dialTo dials one address, whatever is asked for.
func dialTo(addr string) func(context.Context, string, *tls.Config, *quic.Config) (*quic.Conn, error) {
	return func(ctx context.Context, _ string, tlsConf *tls.Config, conf *quic.Config) (*quic.Conn, error) {
		return quic.DialAddrEarly(ctx, addr, tlsConf, conf)
	}
}

// tickets is a client's memory of servers, which tells when it was given something.
type tickets struct {
	tls.ClientSessionCache
	put chan struct{}
}

func (c *tickets) Put(key string, s *tls.ClientSessionState) {
	c.ClientSessionCache.Put(key, s)
	select {
	case c.put <- struct{}{}:
	default:
	}
}

// visitor is an HTTP/3 client that was here before.
type visitor struct {
	t    testing.TB
	conf *tls.Config
}

func newVisitor(t testing.TB, addr string) *visitor {
	t.Helper()
	cache := &tickets{tls.NewLRUClientSessionCache(1), make(chan struct{}, 1)}
	v := &visitor{t, &tls.Config{RootCAs: pool, ServerName: "localhost", ClientSessionCache: cache,
		NextProtos: []string{"h3"}}}
	conn, err := quic.DialAddr(t.Context(), addr, v.conf, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.CloseWithError(0, "")
	select {
	case <-cache.put:
	case <-time.After(patience):
		t.Fatal("the server gave no ticket")
	}
	return v
}

// dial connects without waiting for the handshake.
func (v *visitor) dial(addr string) *visit {
	v.t.Helper()
	sent := &sentLate{streams: make(map[quic.StreamID]bool)}
	conf := &quic.Config{
		DisablePathMTUDiscovery: true,
		Tracer:                  func(context.Context, bool, quic.ConnectionID) qlogwriter.Trace { return sent },
	}
	conn, err := quic.DialAddrEarly(v.t.Context(), addr, v.conf, conf)
	if err != nil {
		v.t.Fatal(err)
	}
	v.t.Cleanup(func() { conn.CloseWithError(0, "") })
	return &visit{v.t, conn, sent}
}

// sentLate is what a client sent under the final keys, for the first time or again.
type sentLate struct {
	mu      sync.Mutex
	streams map[quic.StreamID]bool
}

func (s *sentLate) AddProducer() qlogwriter.Recorder { return s }

func (s *sentLate) Close() error { return nil }

func (s *sentLate) RecordEvent(e qlogwriter.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, ok := e.(qlog.PacketSent)
	if !ok || p.Header.PacketType != qlog.PacketType1RTT {
		return
	}
	for _, f := range p.Frames {
		if f, ok := f.Frame.(*qlog.StreamFrame); ok {
			s.streams[f.StreamID] = true
		}
	}
}

func (s *sentLate) has(id quic.StreamID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.streams[id]
}

// visit is one connection of a visitor. It speaks HTTP/3 by hand: clients proper send
// no request that changes something before the handshake is over.
type visit struct {
	t    testing.TB
	conn *quic.Conn
	late *sentLate // of a visitor
}

// begin sends a request, whatever state the handshake is in.
func (v *visit) begin(method, path, body string) *quic.Stream {
	v.t.Helper()
	s, err := v.conn.OpenStream()
	if err != nil {
		v.t.Fatal(err)
	}
	if _, err := s.Write(h3Request(method, path, body)); err != nil {
		v.t.Fatal(err)
	}
	_ = s.Close() // the answer may have come already
	if v.late != nil {
		// The library opens streams without a lock against the end of the handshake. Tests
		// hold that back until they are open, which the race detector cannot know: with
		// this lock, which the connection takes at each step, it does.
		v.late.has(0)
	}
	return s
}

// h3Request encodes a request: RFC 9114 section 7.2, RFC 9204 section 4.5 and its
// static table.
func h3Request(method, path, body string) []byte {
	fields := []byte{0, 0, 0xc0 | 23} // :scheme https
	fields = append(fields, map[string]byte{http.MethodGet: 0xc0 | 17, http.MethodPost: 0xc0 | 20}[method])
	for name, value := range []string{"localhost", path} { // :authority is 0, and :path 1
		fields = append(append(fields, 0x50|byte(name), byte(len(value))), value...)
	}
	b := append(quicvarint.Append([]byte{1}, uint64(len(fields))), fields...)
	if body != "" {
		b = append(quicvarint.Append(append(b, 0), uint64(len(body))), body...)
	}
	return b
}

// status reads an answer.
func (v *visit) status(s *quic.Stream) (code int, body string) {
	v.t.Helper()
	if err := s.SetReadDeadline(time.Now().Add(patience)); err != nil {
		v.t.Fatal(err)
	}
	b, err := io.ReadAll(s)
	if err != nil {
		v.t.Fatal(err)
	}
	for len(b) > 0 {
		kind, n, err := quicvarint.Parse(b)
		if err != nil {
			v.t.Fatal(err)
		}
		length, m, err := quicvarint.Parse(b[n:])
		if err != nil {
			v.t.Fatal(err)
		}
		payload := b[n+m:][:length]
		b = b[n+m+int(length):]
		switch kind {
		case 0:
			body += string(payload)
		case 1:
			known := map[string]int{"\xd9": 200, "\xff\x04": 400, "\xff\x07": 425}
			for line, status := range known {
				if strings.HasPrefix(string(payload[2:]), line) {
					code = status
				}
			}
		}
	}
	return code, body
}

func (v *visit) handshake() {
	v.t.Helper()
	select {
	case <-v.conn.HandshakeComplete():
	case <-time.After(patience):
		v.t.Fatal("the handshake did not end")
	}
}

func acquireOf(owner string) string {
	return fmt.Sprintf(`{"ownerId":%q,"ttlMs":30000,"requests":[{"path":"early:/%s"}]}`, owner,
		strings.ReplaceAll(owner, "/", "-"))
}

const inspectBody = `{"path":"early:/x"}`

func zeroRTT(o *Options, _ *limits) { o.ZeroRTT = true }

// want checks answers.
func (v *visit) want(name string, s *quic.Stream, code int, says string) {
	v.t.Helper()
	if got, body := v.status(s); got != code || !strings.Contains(body, says) {
		v.t.Errorf("%s: %d %s; want %d", name, got, body, code)
	}
}

const tooEarly = `"error":{"code":"UNAVAILABLE"`

func TestEarlyData(t *testing.T) {
	f := serve(t, zeroRTT)
	addr := f.listenH3(t)
	v := newVisitor(t, addr)
	// The server's flight is held back: the handshake cannot be over when the requests
	// come, nor while they are handled.
	p := newUDPProxy(t, addr)
	p.hold(fromServer, anyPacket)
	c := v.dial(p.addr)
	get := c.begin(http.MethodGet, "/v1/health", "")
	acquire := c.begin(http.MethodPost, "/v1/acquire", acquireOf(t.Name()))
	inspect := c.begin(http.MethodPost, "/v1/inspectPath", inspectBody)
	incr := c.begin(http.MethodPost, "/v1/incrFencingToken", "")
	await(t, "answers behind the held flight", func() bool { return p.held(fromServer) > 4 })
	p.release()
	c.want("health", get, 200, `"ok":true`)
	c.want("acquire", acquire, http.StatusTooEarly, tooEarly)
	c.want("inspectPath", inspect, 200, "writeOwner")
	c.want("incrFencingToken", incr, http.StatusTooEarly, tooEarly)
	c.handshake()
	if !c.conn.ConnectionState().Used0RTT {
		t.Error("0-RTT was not used")
	}
	c.want("the same after the handshake", c.begin(http.MethodPost, "/v1/acquire", acquireOf(t.Name())),
		200, "STATUS_OK")
}

// The client's end of the handshake is held back: what it sends in 0-RTT is early, and
// what it sends under the new keys is not handled before that end came.
func TestEarlyDataBeforeTheClientIsDone(t *testing.T) {
	f := serve(t, zeroRTT)
	addr := f.listenH3(t)
	v := newVisitor(t, addr)
	p := newUDPProxy(t, addr)
	p.hold(fromClient, isHandshake)
	p.hold(fromServer, anyPacket) // until all is sent
	c := v.dial(p.addr)
	early := c.begin(http.MethodPost, "/v1/acquire", acquireOf(t.Name()))
	get := c.begin(http.MethodGet, "/v1/health", "")
	p.releaseFrom(fromServer)
	c.want("acquire in 0-RTT", early, http.StatusTooEarly, tooEarly)
	c.want("health in 0-RTT", get, 200, `"ok":true`)
	c.handshake() // the client's view of it
	late := c.begin(http.MethodPost, "/v1/acquire", acquireOf(t.Name()))
	await(t, "the end of the handshake is held", func() bool { return p.held(fromClient) > 0 })
	p.release()
	c.want("acquire in 1-RTT", late, 200, "STATUS_OK")
}

// 0-RTT packets come when the handshake has long been over.
func TestEarlyDataBehindTheHandshake(t *testing.T) {
	f := serve(t, zeroRTT)
	addr := f.listenH3(t)
	v := newVisitor(t, addr)
	p := newUDPProxy(t, addr)
	p.hold(fromClient, func(b []byte) bool { return is0RTT(b) || is1RTT(b) })
	p.hold(fromServer, anyPacket)
	c := v.dial(p.addr)
	acquire := c.begin(http.MethodPost, "/v1/acquire", acquireOf(t.Name()))
	get := c.begin(http.MethodGet, "/v1/health", "")
	p.releaseFrom(fromServer)
	c.handshake()
	await(t, "the server's handshake is over", f.handshaken)
	p.releaseOnly(is0RTT) // under the new keys nothing comes, neither anew nor again
	await(t, "answers", func() bool { return p.seen(fromServer, is1RTT) > 1 })
	c.want("acquire", acquire, http.StatusTooEarly, tooEarly)
	c.want("health", get, 200, `"ok":true`)
	p.release()
	c.want("and then", c.begin(http.MethodPost, "/v1/acquire", acquireOf(t.Name())), 200, "STATUS_OK")
}

// 0-RTT packets are lost, and their requests sent again under the new keys: they are
// no longer early. What comes of the first packets later is nothing new.
func TestEarlyDataThatWasLost(t *testing.T) {
	f := serve(t, zeroRTT)
	addr := f.listenH3(t)
	v := newVisitor(t, addr)
	p := newUDPProxy(t, addr)
	p.hold(fromClient, is0RTT)
	p.hold(fromServer, anyPacket)
	c := v.dial(p.addr)
	acquire := c.begin(http.MethodPost, "/v1/acquire", acquireOf(t.Name()))
	p.releaseFrom(fromServer)
	c.want("acquire", acquire, 200, "STATUS_OK")
	if p.held(fromClient) == 0 {
		t.Error("nothing came in 0-RTT")
	}
	p.release()
	c.want("and then", c.begin(http.MethodPost, "/v1/acquire", acquireOf(t.Name())), 200, "STATUS_OK")
}

// The packets are told of after their bytes were handed on: no request may slip through
// in between.
func TestEarlyDataNeverSlipsThrough(t *testing.T) {
	f := serve(t, zeroRTT)
	addr := f.listenH3(t)
	v := newVisitor(t, addr)
	p := newUDPProxy(t, addr)
	early := 0
	for i := range 100 {
		p.hold(fromServer, anyPacket)
		c := v.dial(p.addr)
		var all []*quic.Stream
		for range 8 {
			all = append(all, c.begin(http.MethodPost, "/v1/incrFencingToken", "{}"))
		}
		p.release()
		for _, s := range all {
			// What was lost and sent again may be carried out: by then it is late.
			code, body := c.status(s)
			switch {
			case code == http.StatusTooEarly:
				early++
			case code != 200 || !c.late.has(s.StreamID()):
				t.Fatalf("round %d: %d %s, and it was sent in 0-RTT alone", i, code, body)
			}
		}
		if !c.conn.ConnectionState().Used0RTT {
			t.Fatalf("round %d: 0-RTT was not used", i)
		}
		c.conn.CloseWithError(0, "")
	}
	t.Logf("%d of 800 requests were early", early)
	if early < 400 {
		t.Error("too few to say anything")
	}
}

func TestEarlyDataIsOff(t *testing.T) {
	f := serve(t, nil)
	addr := f.listenH3(t)
	v := newVisitor(t, addr)
	c := v.dial(addr)
	c.handshake()
	if c.conn.ConnectionState().Used0RTT {
		t.Error("0-RTT was used")
	}
	c.want("acquire", c.begin(http.MethodPost, "/v1/acquire", acquireOf(t.Name())), 200, "STATUS_OK")
}

// told is a packet with pieces of streams, as the tracer is told.
func told(kind qlog.PacketType, frames ...*qlog.StreamFrame) qlogwriter.Event {
	e := qlog.PacketReceived{Header: qlog.PacketHeader{PacketType: kind},
		Frames: []qlog.Frame{{Frame: &qlog.PingFrame{}}}}
	for _, f := range frames {
		e.Frames = append(e.Frames, qlog.Frame{Frame: f})
	}
	return e
}

func piece(stream quic.StreamID, from, to int64, fin bool) *qlog.StreamFrame {
	return &qlog.StreamFrame{StreamID: stream, Offset: from, Length: to - from, Fin: fin}
}

// TestEarlyTrace says what is known after what was told.
func TestEarlyTrace(t *testing.T) {
	const zero, one = qlog.PacketType0RTT, qlog.PacketType1RTT
	keys := qlogwriter.Event(qlog.KeyUpdated{KeyType: qlog.KeyTypeClient0RTT})
	gone := qlogwriter.Event(qlog.KeyDiscarded{KeyType: qlog.KeyTypeClient0RTT})
	many := []qlogwriter.Event{keys}
	for i := range quic.StreamID(maxTracked + 2) {
		many = append(many, told(one, piece(1000+4*i, 0, 5, true)))
	}
	last := quic.StreamID(1000 + 4*(maxTracked+1))
	pieces := []qlogwriter.Event{keys}
	for i := range int64(maxSpans + 1) {
		pieces = append(pieces, told(one, piece(0, 2*i+1, 2*i+2, false)))
	}
	const yes, no, unknown = "early", "late", "unknown until it times out"
	for _, c := range []struct {
		name       string
		stream     quic.StreamID
		events     []qlogwriter.Event
		first, all string
	}{
		{"nothing yet", 0, []qlogwriter.Event{keys}, unknown, unknown},
		{"in 0-RTT", 0, []qlogwriter.Event{keys, told(zero, piece(0, 0, 5, true))}, yes, yes},
		{"in 1-RTT", 0, []qlogwriter.Event{keys, told(one, piece(0, 0, 5, true))}, no, no},
		{"another stream's", 4, []qlogwriter.Event{keys, told(zero, piece(0, 0, 5, true), piece(3, 0, 5, true))},
			unknown, unknown},
		{"the rest is to come", 0, []qlogwriter.Event{keys, told(one, piece(0, 0, 5, false))}, no, unknown},
		{"the end alone", 0, []qlogwriter.Event{keys, told(one, piece(0, 0, 5, false)),
			told(one, piece(0, 5, 5, true))}, no, no},
		{"the end came first", 0, []qlogwriter.Event{keys, told(one, piece(0, 5, 9, true))}, unknown, unknown},
		{"and then the beginning", 0, []qlogwriter.Event{keys, told(one, piece(0, 5, 9, true)),
			told(one, piece(0, 0, 5, false))}, no, no},
		{"the end in 0-RTT", 0, []qlogwriter.Event{keys, told(one, piece(0, 0, 5, false)),
			told(zero, piece(0, 5, 9, true))}, yes, yes},
		{"in 1-RTT and then once more in 0-RTT", 0, []qlogwriter.Event{keys, told(one, piece(0, 0, 5, true)),
			told(zero, piece(0, 0, 5, true))}, yes, yes},
		{"a hole", 0, []qlogwriter.Event{keys, told(one, piece(0, 0, 3, false)), told(one, piece(0, 6, 9, true))},
			no, unknown},
		{"a hole that was filled twice", 0, []qlogwriter.Event{keys, told(one, piece(0, 6, 9, true)),
			told(one, piece(0, 4, 6, false)), told(one, piece(0, 0, 5, false))}, no, no},
		{"the keys are gone", 0, []qlogwriter.Event{keys, gone}, no, no},
		{"the keys are gone, and it was in 0-RTT", 0, []qlogwriter.Event{keys, told(zero, piece(0, 0, 5, true)), gone},
			yes, yes},
		{"the keys are gone, and there is a hole", 0, []qlogwriter.Event{keys, told(one, piece(0, 6, 9, true)), gone},
			no, no},
		{"too many", last, many, yes, yes},
		{"one of too many", 1000, many, no, no},
		{"after too many, when the keys are gone", last + 4, append(many, gone), no, no},
		{"in too many pieces", 0, pieces, yes, yes},
	} {
		faketime.Test(t, func(t *testing.T) {
			tr := newEarlyTrace()
			for _, e := range c.events {
				tr.RecordEvent(e)
			}
			for all, want := range map[bool]string{false: c.first, true: c.all} {
				start := time.Now()
				got := map[bool]string{true: yes, false: no}[tr.early(t.Context(), c.stream, all)]
				if time.Since(start) >= settleWithin && got == yes {
					got = unknown
				}
				if got != want {
					t.Errorf("%s (all %v): %s, want %s", c.name, all, got, want)
				}
			}
		})
	}
}

// What is asked before it is told waits for it, and no longer.
func TestEarlyTraceWaits(t *testing.T) {
	ends := map[string]func(*earlyTrace, context.CancelFunc){
		"late": func(tr *earlyTrace, _ context.CancelFunc) {
			tr.RecordEvent(told(qlog.PacketType1RTT, piece(0, 0, 5, true)))
		},
		"early": func(tr *earlyTrace, _ context.CancelFunc) {
			tr.RecordEvent(told(qlog.PacketType0RTT, piece(0, 0, 5, true)))
		},
		"keys are gone": func(tr *earlyTrace, _ context.CancelFunc) {
			tr.RecordEvent(qlog.KeyDiscarded{KeyType: qlog.KeyTypeClient0RTT})
		},
		"connection is over": func(tr *earlyTrace, _ context.CancelFunc) { tr.Close() },
		"request is over":    func(_ *earlyTrace, cancel context.CancelFunc) { cancel() },
	}
	for name, want := range map[string]bool{"late": false, "early": true, "keys are gone": false,
		"connection is over": true, "request is over": true} {
		faketime.Test(t, func(t *testing.T) {
			tr := newEarlyTrace()
			tr.RecordEvent(qlog.KeyUpdated{KeyType: qlog.KeyTypeClient0RTT})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			got := make(chan bool, 1)
			go func() { got <- tr.early(ctx, 0, true) }()
			synctest.Wait()
			select {
			case <-got:
				t.Fatalf("%s: it did not wait", name)
			default:
			}
			start := time.Now()
			ends[name](tr, cancel)
			if early := <-got; early != want || time.Since(start) > 0 {
				t.Errorf("%s: early is %v after %v", name, early, time.Since(start))
			}
		})
	}
}

// A request whose body came in 0-RTT, and what is before it did not: its body does not
// end well, if somebody asked.
func TestEarlyBody(t *testing.T) {
	for _, c := range []struct {
		kind  qlog.PacketType // of the packet with the body
		asked bool
		want  error
	}{
		{qlog.PacketType0RTT, true, errEarly},
		{qlog.PacketType1RTT, true, nil},
		{qlog.PacketType0RTT, false, nil}, // a read
	} {
		tr := newEarlyTrace()
		tr.RecordEvent(qlog.KeyUpdated{KeyType: qlog.KeyTypeClient0RTT})
		tr.RecordEvent(told(qlog.PacketType1RTT, piece(0, 0, 5, false)))
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "/", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.ContentLength, r.Body = -1, streamBody{io.NopCloser(strings.NewReader("body"))}
		r, forget := withEarly(r, tr)
		if c.asked && earlyData(r) {
			t.Error("the beginning counts as early")
		}
		tr.RecordEvent(told(c.kind, piece(0, 5, 9, true)))
		//nolint:errorlint // the value itself is what is answered
		if b, err := io.ReadAll(r.Body); string(b) != "body" || err != c.want {
			t.Errorf("%+v: %q, %v", c, b, err)
		}
		forget()
		if len(tr.mu.streams) > 0 {
			t.Error("the request is still followed")
		}
	}
}

type streamBody struct{ io.ReadCloser }

func (streamBody) StreamID() quic.StreamID { return 0 }
