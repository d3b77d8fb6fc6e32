package web

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"

	"github.com/pathlockd/pathlockd/compat"
	pb "github.com/pathlockd/pathlockd/compat/pathlockdv1"
)

// h3Client makes the server speak HTTP/3, and a client that speaks it. The client asks
// for the same URLs as over TCP.
func h3Client(t testing.TB, f *face) *http.Client {
	t.Helper()
	addr := f.listenH3(t)
	// The URL's port is the one of TCP, so the transport is told where to go.
	tr := &http3.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, Dial: dialTo(addr)}
	t.Cleanup(func() { tr.Close() })
	return &http.Client{Transport: tr, Timeout: patience}
}

func (f *face) listenH3(t testing.TB) string {
	t.Helper()
	addr, err := f.ListenH3("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return addr
}

func TestH3ServesTheRoutes(t *testing.T) {
	f := serve(t, nil)
	c := h3Client(t, f)
	res := f.post(t, c, "acquire", `{"ownerId":"h3","ttlMs":30000,"requests":[{"path":"h3:/a/b"}]}`)
	if res.StatusCode != 200 || res.ProtoMajor != 3 || !strings.Contains(res.body, `"status":"ACQUIRE_STATUS_OK"`) {
		t.Errorf("acquire: %s %d %s", res.Proto, res.StatusCode, res.body)
	}
	if got := res.Header.Get("Alt-Svc"); got != "" {
		t.Errorf("HTTP/3 tells of itself: %q", got)
	}
	res = f.send(t, c, http.MethodGet, "/v1/health", "")
	if res.StatusCode != 200 {
		t.Errorf("health: %d %s", res.StatusCode, res.body)
	}
	res = f.send(t, c, http.MethodGet, "/nowhere", "")
	if res.StatusCode != 404 || !strings.Contains(res.body, `"NOT_FOUND"`) {
		t.Errorf("nowhere: %d %s", res.StatusCode, res.body)
	}
}

func TestAltSvcIsToldOnceThereIsHTTP3(t *testing.T) {
	f := serve(t, nil)
	for _, h2 := range []bool{false, true} {
		if got := f.send(t, client(t, h2), http.MethodGet, "/v1/health", "").Header.Get("Alt-Svc"); got != "" {
			t.Errorf("without HTTP/3: %q", got)
		}
	}
	_, port, err := net.SplitHostPort(f.listenH3(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, h2 := range []bool{false, true} {
		if got := f.send(t, client(t, h2), http.MethodGet, "/v1/health", "").Header.Get("Alt-Svc"); got != `h3=":`+port+
			`"; ma=3600` {
			t.Errorf("with HTTP/3 on port %s: %q", port, got)
		}
	}
}

// A body over the limits of the connection's windows comes through, and headers over
// theirs do not.
func TestH3Limits(t *testing.T) {
	f := serve(t, nil)
	c := h3Client(t, f)
	pad := strings.Repeat(" ", MaxBodyBytes-2000)
	res := f.post(t, c, "health", `{`+pad+`}`)
	if res.StatusCode != 200 {
		t.Errorf("a body just below the limit: %d %s", res.StatusCode, res.body)
	}
	res = f.post(t, c, "health", `{`+pad+strings.Repeat(" ", 4000)+`}`)
	if res.StatusCode != 429 {
		t.Errorf("a body over the limit: %d %s", res.StatusCode, res.body)
	}
	res = f.send(t, c, http.MethodGet, "/v1/health", "", "X-Pad", strings.Repeat("x", MaxHeaderBytes))
	if res.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("headers over the limit: %d", res.StatusCode)
	}
	if res := f.send(t, c, http.MethodGet, "/v1/health", ""); res.StatusCode != 200 {
		t.Errorf("and then: %d %s", res.StatusCode, res.body)
	}
}

// A client that opens streams without end is held back, and others are served.
func TestH3StreamsAreBounded(t *testing.T) {
	f := serve(t, func(o *Options, _ *limits) { o.InFlight = 4 })
	addr := f.listenH3(t)
	conn, err := quic.DialAddr(t.Context(), addr, &tls.Config{RootCAs: pool, NextProtos: []string{"h3"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.CloseWithError(0, "")
	n := 0
	for ; ; n++ {
		s, err := conn.OpenStream()
		if err != nil {
			break
		}
		if _, err := s.Write([]byte{1}); err != nil { // the beginning of a request's headers
			t.Fatal(err)
		}
		if n > f.streams() {
			t.Fatal("streams are not bounded")
		}
	}
	if n != f.streams() {
		t.Errorf("%d streams may be open, want %d", n, f.streams())
	}
	if res := f.send(t, h3Client(t, f), http.MethodGet, "/v1/health", ""); res.StatusCode != 200 {
		t.Errorf("a bystander: %d %s", res.StatusCode, res.body)
	}
}

// handshaken says whether the server has connections, and all their handshakes are
// over.
func (f *face) handshaken() bool {
	for _, l := range f.listeners() {
		if l, ok := l.(*h3Listener); ok {
			l.handshakes.mu.Lock()
			defer l.handshakes.mu.Unlock()
			return l.handshakes.conns.Load() > 0 && l.handshakes.mu.pending.Len() == 0
		}
	}
	return false
}

// BenchmarkH3 says what it costs to know which requests were early: the connection's
// packets are traced then. The request is one that costs next to nothing by itself.
func BenchmarkH3(b *testing.B) {
	for _, traced := range []bool{false, true} {
		for _, path := range []string{"/v1/nowhere", "/v1/health"} {
			b.Run(fmt.Sprintf("zeroRTT=%v%s", traced, path), func(b *testing.B) {
				f := serve(b, func(o *Options, _ *limits) { o.ZeroRTT = traced })
				c := h3Client(b, f)
				b.SetParallelism(16)
				b.ReportAllocs()
				before := cpuTime(b)
				b.RunParallel(func(p *testing.PB) {
					for p.Next() {
						res, err := c.Get(f.url + path)
						if err != nil {
							b.Error(err)
							return
						}
						_, _ = io.Copy(io.Discard, res.Body)
						res.Body.Close()
					}
				})
				// of client and server, whoever else is busy
				b.ReportMetric(float64(cpuTime(b)-before)/float64(b.N), "cpu-ns/op")
			})
		}
	}
}

func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// Draining answers what is under way, and does not wait for clients that have nothing
// under way and stay.
func TestH3Drains(t *testing.T) {
	f := serve(t, nil)
	t.Cleanup(func() { // for the next run on the same node
		svc := compat.NewService(shared.get(t), compat.Options{})
		for _, owner := range []string{t.Name(), "waits-" + t.Name()} {
			if _, err := svc.ForceRelease(context.Background(), &pb.ForceReleaseRequest{VictimId: owner}); err != nil {
				t.Error(err)
			}
		}
	})
	addr := f.listenH3(t)
	idle := h3Dial(t, addr)
	idle.want("health", idle.begin(http.MethodGet, "/v1/health", ""), 200, `"ok":true`)
	busy := h3Dial(t, addr)
	busy.want("acquire", busy.begin(http.MethodPost, "/v1/acquire", acquireOf(t.Name())), 200, "STATUS_OK")
	wait := busy.begin(http.MethodPost, "/v1/acquireWait", strings.Replace(acquireOf(t.Name()), `{"ownerId":"`,
		`{"ownerId":"waits-`, 1))
	var l *h3Listener
	for _, x := range f.listeners() {
		if h, ok := x.(*h3Listener); ok {
			l = h
		}
	}
	await(t, "the wait is under way", func() bool { return l.active.Load() == 1 })
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	done := make(chan struct{})
	go func() {
		f.Drain(ctx)
		close(done)
	}()
	await(t, "no stream is taken any more", func() bool {
		s, err := idle.conn.OpenStream()
		if err != nil {
			return true
		}
		_, _ = s.Write(h3Request(http.MethodGet, "/v1/health", ""))
		_ = s.Close()
		_, err = io.ReadAll(s)
		return err != nil
	})
	select {
	case <-done:
		t.Error("it did not wait for the request under way")
	default:
	}
	f.svc.Leave()
	if _, err := io.ReadAll(wait); err != nil {
		t.Errorf("the answer of what was under way: %v", err)
	}
	<-done
	if ctx.Err() != nil {
		t.Error("it waited for a client that has nothing under way")
	}
	await(t, "the idle client is told", func() bool { return idle.conn.Context().Err() != nil })
}

// h3Dial connects, and speaks HTTP/3 by hand.
func h3Dial(t testing.TB, addr string) *visit {
	t.Helper()
	conn, err := quic.DialAddr(t.Context(), addr, &tls.Config{RootCAs: pool, NextProtos: []string{"h3"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.CloseWithError(0, "") })
	return &visit{t: t, conn: conn}
}
