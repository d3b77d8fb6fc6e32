package web

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
	"github.com/quic-go/quic-go/qlogwriter"

	"github.com/pathlockd/pathlockd/internal/tcp"
)

const (
	// maxUniStreams bounds the unidirectional streams of an HTTP/3 connection. HTTP/3
	// itself needs three.
	maxUniStreams = 16
	// quicConnWindow and quicStreamWindow bound what an HTTP/3 connection, and one
	// request on it, may send ahead of being read, bytes.
	quicConnWindow, quicStreamWindow = 256 << 10, 64 << 10
	// quicIdle is how long a peer may leave what was sent to it without an answer. It is asked
	// whether it lives every quicPing, so a connection with an open request lasts, and one
	// that says nothing counts as gone after tcp.GoneWithin.
	quicIdle, quicPing = tcp.GoneWithin - quicPing, 10 * time.Second
	// partWithin is how long clients may take to leave when the last request was
	// answered and they know that they should.
	partWithin = 500 * time.Millisecond
	// altSvcAge is how long a client may remember that there is HTTP/3, seconds.
	altSvcAge = 3600
)

// h3Listener serves HTTP/3.
type h3Listener struct {
	s          *Server
	udp        *net.UDPConn
	transport  *quic.Transport
	listener   *quic.EarlyListener
	http       *http3.Server
	handshakes *handshakes

	wg   sync.WaitGroup // who waits for handshakes
	once sync.Once      // of end

	active atomic.Int64 // requests under way
	mu     struct {
		sync.Mutex
		idle chan struct{} // closed when the last request of a server that drains was answered
	}
}

// ListenH3 serves HTTP/3 at a UDP address, host:port, and answers where that is. From
// then on the answers over HTTP/1.1 and 2 tell clients of it.
func (s *Server) ListenH3(addr string) (string, error) {
	at, err := net.ResolveUDPAddr("udp", addr)
	if err != nil {
		return "", err
	}
	udp, err := net.ListenUDP("udp", at)
	if err != nil {
		return "", err
	}
	l := &h3Listener{s: s, udp: udp, handshakes: newHandshakes(s.lim.conns, s.lim.halfOpen)}
	l.transport = &quic.Transport{Conn: udp, VerifySourceAddress: l.handshakes.verify, ConnContext: l.handshakes.begin}
	l.listener, err = l.transport.ListenEarly(s.quicTLS(), s.quicConfig())
	if err != nil {
		return "", errors.Join(fmt.Errorf("listen for QUIC: %w", err), l.transport.Close(), udp.Close())
	}
	l.http = &http3.Server{
		Handler:        l,
		MaxHeaderBytes: readHeaderBytes,
		IdleTimeout:    s.lim.idle,
		ConnContext:    l.connContext,
	}
	s.add(l)
	port := udp.LocalAddr().(*net.UDPAddr).Port //nolint:forcetypeassert // it is UDP
	s.altSvc.Store(&[]string{fmt.Sprintf(`h3=":%d"; ma=%d`, port, altSvcAge)})
	where := udp.LocalAddr().String()
	s.wg.Go(func() {
		if err := l.http.ServeListener(l); err != nil && !errors.Is(err, http.ErrServerClosed) {
			s.opt.Log.Error("HTTP/3 is not served any more", "h3_listen", where, "error", err)
		}
	})
	return where, nil
}

// quicTLS is the configuration of HTTP/3's handshakes. QUIC has no TLS before 1.3.
func (s *Server) quicTLS() *tls.Config {
	conf := s.opt.TLS.Clone()
	conf.MinVersion = tls.VersionTLS13
	return http3.ConfigureTLSConfig(conf)
}

func (s *Server) quicConfig() *quic.Config {
	conf := &quic.Config{
		HandshakeIdleTimeout:           s.lim.handshake / 2, // and twice that for all of it
		MaxIdleTimeout:                 quicIdle,
		KeepAlivePeriod:                quicPing,
		InitialStreamReceiveWindow:     quicStreamWindow,
		MaxStreamReceiveWindow:         quicStreamWindow,
		InitialConnectionReceiveWindow: quicConnWindow,
		MaxConnectionReceiveWindow:     quicConnWindow,
		MaxIncomingStreams:             int64(s.streams()),
		MaxIncomingUniStreams:          maxUniStreams,
		Allow0RTT:                      s.opt.ZeroRTT,
	}
	if s.opt.ZeroRTT {
		conf.Tracer = func(context.Context, bool, quic.ConnectionID) qlogwriter.Trace { return newEarlyTrace() }
	}
	return conf
}

// Accept implements http3.QUICListener.
func (l *h3Listener) Accept(ctx context.Context) (*quic.Conn, error) {
	conn, err := l.listener.Accept(ctx)
	if err != nil {
		return nil, err
	}
	l.handshakes.accepted(conn)
	l.wg.Go(func() {
		select {
		case <-conn.HandshakeComplete():
		case <-conn.Context().Done():
		}
		l.handshakes.done(conn.Context())
	})
	return conn, nil
}

// Addr implements http3.QUICListener.
func (l *h3Listener) Addr() net.Addr { return l.listener.Addr() }

// Close implements http3.QUICListener; end is what closes.
func (l *h3Listener) Close() error { return nil }

type traceKey struct{}

// connContext is the context of a new connection's requests.
func (l *h3Listener) connContext(ctx context.Context, conn *quic.Conn) context.Context {
	if t, ok := conn.QlogTrace().(*earlyTrace); ok {
		ctx = context.WithValue(ctx, traceKey{}, t)
	}
	return l.s.connContext(ctx)
}

// ServeHTTP implements http.Handler.
func (l *h3Listener) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l.active.Add(1)
	defer l.answered()
	if t, ok := r.Context().Value(traceKey{}).(*earlyTrace); ok {
		var forget func()
		r, forget = withEarly(r, t)
		defer forget()
	}
	l.s.ServeHTTP(w, r)
}

// answered notes the end of a request.
func (l *h3Listener) answered() {
	if l.active.Add(-1) > 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.idle != nil && l.active.Load() == 0 {
		close(l.mu.idle)
		l.mu.idle = nil
	}
}

// drain implements listener.
func (l *h3Listener) drain(ctx context.Context) {
	idle := make(chan struct{})
	l.mu.Lock()
	l.mu.idle = idle
	l.mu.Unlock()
	l.active.Add(1) // so that the last one is always told
	gone, cancel := context.WithCancel(ctx)
	defer cancel()
	var parted sync.WaitGroup
	parted.Go(func() { _ = l.http.Shutdown(gone) }) // who stays is cut off
	l.answered()
	select {
	case <-idle:
		// What was answered last is still on its way, and may have to be sent again.
		timer := time.AfterFunc(partWithin, cancel)
		defer timer.Stop()
	case <-ctx.Done():
	}
	parted.Wait()
	l.end()
}

// close implements listener.
func (l *h3Listener) close() {
	_ = l.http.Close()
	l.end()
}

// end closes all that is below HTTP, once that is closed.
func (l *h3Listener) end() {
	l.once.Do(func() {
		_ = l.listener.Close()
		_ = l.transport.Close()
		_ = l.udp.Close()
		l.wg.Wait()
		l.handshakes.wg.Wait()
	})
}
