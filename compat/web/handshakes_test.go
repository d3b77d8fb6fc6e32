package web

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
)

// halfOpenNow is how many handshakes of the server are under way.
func (f *face) halfOpenNow() int {
	for _, l := range f.listeners() {
		if l, ok := l.(*h3Listener); ok {
			l.handshakes.mu.Lock()
			defer l.handshakes.mu.Unlock()
			return l.handshakes.mu.pending.Len()
		}
	}
	return 0
}

// hellos collects first datagrams of so many clients.
func hellos(t testing.TB, n int) (all [][]byte) {
	t.Helper()
	sink, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer sink.Close()
	// One key share, so that all fits one datagram.
	conf := &tls.Config{RootCAs: pool, ServerName: "localhost", NextProtos: []string{"h3"},
		CurvePreferences: []tls.CurveID{tls.X25519}}
	buf := make([]byte, 2000)
	for range n {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			_, _ = quic.DialAddr(ctx, sink.LocalAddr().String(), conf, nil)
			close(done)
		}()
		if err := sink.SetReadDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		size, err := sink.Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		if isLong(buf) && buf[0]&0x30 == 0 {
			all = append(all, append([]byte(nil), buf[:size]...))
		}
		cancel()
		<-done
	}
	return all
}

// bystander asks for something on a new connection, and says how long that took.
func (f *face) bystander(t testing.TB, addr string) time.Duration {
	t.Helper()
	start := time.Now()
	conf := &tls.Config{RootCAs: pool, NextProtos: []string{"h3"}}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	conn, err := hears(ctx, addr, conf)
	for refused := new(quic.TransportError); errors.As(err, &refused) && refused.ErrorCode == quic.ConnectionRefused; {
		// The library keeps 32 that the server has not accepted yet, which a slow machine is behind with. Clients try
		// again.
		time.Sleep(20 * time.Millisecond)
		conn, err = hears(ctx, addr, conf)
	}
	if err != nil {
		t.Fatalf("a bystander: %v", err)
	}
	defer conn.CloseWithError(0, "")
	v := &visit{t: t, conn: conn}
	v.want("a bystander", v.begin(http.MethodGet, "/v1/health", ""), 200, `"ok":true`)
	return time.Since(start)
}

// hears connects, and waits until something is answered: a server refuses connections also once the handshake is over.
func hears(ctx context.Context, addr string, conf *tls.Config) (*quic.Conn, error) {
	conn, err := quic.DialAddr(ctx, addr, conf, &quic.Config{HandshakeIdleTimeout: patience / 2})
	if err != nil {
		return nil, err
	}
	s, err := conn.OpenStream()
	if err == nil {
		_, err = s.Write(h3Request(http.MethodGet, "/v1/health", ""))
	}
	if err == nil {
		_ = s.Close()
		_ = s.SetReadDeadline(time.Now().Add(patience))
		_, err = io.ReadAll(s)
	}
	return conn, err
}

// TestHandshakeFlood has clients begin handshakes by the thousand and go no further:
// the server keeps few of them, and serves others.
func TestHandshakeFlood(t *testing.T) {
	f := serve(t, func(_ *Options, lim *limits) { lim.handshake = 4 * time.Second })
	addr := f.listenH3(t)
	quiet := f.bystander(t, addr)
	flood := hellos(t, 3000)
	before := heap()
	to, err := net.Dial("udp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	var worst time.Duration
	most, limit := 0, f.lim.halfOpen/4
	for i, b := range flood {
		if _, err := to.Write(b); err != nil {
			t.Fatal(err)
		}
		if i%500 == 499 {
			worst = max(worst, f.bystander(t, addr))
			most = max(most, f.halfOpenNow())
		}
	}
	used := heap() - before
	t.Logf("%d beginnings: at most %d kept, %d KiB of heap (%d KiB each); a bystander took %v, and %v before",
		len(flood), most, used>>10, used>>10/int64(max(f.halfOpenNow(), 1)), worst.Round(time.Millisecond),
		quiet.Round(time.Millisecond))
	if most > limit+1 || most < limit/8 { // the bystander's own may come on top
		t.Errorf("%d handshakes are kept, want about %d", most, limit)
	}
	await(t, "the handshakes are given up", func() bool { return f.halfOpenNow() == 0 })
}

// TestHandshakeFloodFromTrueAddresses has clients that show that they are where they
// say, and then do not finish: the oldest make room for new ones.
func TestHandshakeFloodFromTrueAddresses(t *testing.T) {
	f := serve(t, func(_ *Options, lim *limits) { lim.halfOpen = 32 })
	addr := f.listenH3(t)
	p := newUDPProxy(t, addr)
	p.hold(fromClient, isHandshake)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	for range 96 {
		wg.Go(func() {
			conf := &tls.Config{RootCAs: pool, ServerName: "localhost", NextProtos: []string{"h3"}}
			if conn, err := quic.DialAddr(ctx, p.addr, conf, nil); err == nil {
				<-ctx.Done()
				_ = conn.CloseWithError(0, "")
			}
		})
	}
	await(t, "the limit is reached", func() bool { return f.halfOpenNow() >= f.lim.halfOpen })
	var worst time.Duration
	for range 10 {
		worst = max(worst, f.bystander(t, addr))
		if n := f.halfOpenNow(); n > f.lim.halfOpen {
			t.Errorf("%d handshakes are under way, at most %d should be", n, f.lim.halfOpen)
		}
	}
	t.Logf("96 clients do not finish their handshake, %d are kept; a bystander took %v", f.halfOpenNow(),
		worst.Round(time.Millisecond))
}

func TestH3ConnectionsAreBounded(t *testing.T) {
	f := serve(t, func(_ *Options, lim *limits) { lim.conns = 3 })
	addr := f.listenH3(t)
	conf := &tls.Config{RootCAs: pool, NextProtos: []string{"h3"}}
	var open []*quic.Conn
	for range 3 {
		conn, err := quic.DialAddr(t.Context(), addr, conf, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.CloseWithError(0, "")
		open = append(open, conn)
	}
	if conn, err := quic.DialAddr(t.Context(), addr, conf, nil); err == nil {
		conn.CloseWithError(0, "")
		t.Error("a fourth connection was taken")
	}
	open[0].CloseWithError(0, "")
	await(t, "room for another", func() bool {
		conn, err := quic.DialAddr(t.Context(), addr, conf, nil)
		if err != nil {
			return false
		}
		conn.CloseWithError(0, "")
		return true
	})
}
