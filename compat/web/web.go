package web

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pathlockd/pathlockd/compat"
	"github.com/pathlockd/pathlockd/internal/tcp"
)

// Options is what a server is made with.
type Options struct {
	Service *compat.Service // what is called
	TLS     *tls.Config     // has the certificates; each listener clones it and sets the protocols itself
	Plain   bool            // web_json = "plain": the profile of answers when the client names none
	// IgnoreUnknown has fields that a request does not have ignored, not refused (web_unknown_fields = "ignore").
	IgnoreUnknown bool
	Origins       []string  // web_cors_origins: whose pages may call; "*": any; none: CORS is off
	Hosts         []string  // names and addresses of this server besides those of its certificate and of loopback
	ZeroRTT       bool      // web_zero_rtt: HTTP/3 clients may read before the handshake is over
	Events        *EventLog // what event streams read
	// InFlight is how many requests of a connection may be under way at once, besides
	// event streams and waiting acquires; more wait their turn. 0: 256.
	InFlight int
	// Connections is how many TCP connections there may be at once; 0: 8192. Over it the
	// one that has been without a request for the longest is closed.
	Connections int
	Log         *slog.Logger
	// RequestTimeout is how long the node tries to carry a request out, which it then
	// answers. 0: 30 s.
	RequestTimeout time.Duration
}

// limits bound what clients may make the server hold. They are fields for the tests'
// sake, which have no time.
type limits struct {
	handshake  time.Duration // for TLS, and for the headers of each request
	idle       time.Duration // of a connection with no request
	body       time.Duration // for a request's whole body
	turn       time.Duration // for a request to have its turn
	call       time.Duration // from a request's headers to its answer; waiting acquires aside
	write      time.Duration // for reading the answer
	conns      int           // connections; see compat.Conns
	halfOpen   int           // of these, not beyond the handshake
	bodyBytes  int64         // of all bodies being read
	replyBytes int64         // of all answers being written
}

func defaultLimits(request time.Duration) limits {
	return limits{
		handshake: 10 * time.Second, idle: 2 * time.Minute, body: 10 * time.Second, write: 20 * time.Second,
		turn: compat.TurnWithin, call: request + callGrace, conns: 8192, halfOpen: compat.MaxHalfOpen,
		bodyBytes: 64 << 20, replyBytes: 128 << 20,
	}
}

const (
	// MaxBodyBytes bounds a request's body (contract.md section 13); over it the
	// request is refused with RESOURCE_EXHAUSTED.
	MaxBodyBytes = 4 << 20
	// MaxHeaderBytes bounds a request's headers, names and values together; over it the
	// answer is 431. What is over readHeaderBytes is not even read: the HTTP libraries
	// answer it by themselves, without an envelope.
	MaxHeaderBytes, readHeaderBytes = 16 << 10, 64 << 10
	// callGrace is what an answer may take beyond the time that the node gives it.
	callGrace = 5 * time.Second
	// openCalls is how many requests that stay open (event streams, waiting acquires) an
	// HTTP/2 or HTTP/3 connection may have besides the others. Over it the next is
	// refused with RESOURCE_EXHAUSTED.
	openCalls = 256
	// spareStreams is how many streams such a connection has beyond its turns and its
	// open requests: for those that are about to be refused, and those that wait for
	// their turn.
	spareStreams = 64
	// connWindow and streamWindow bound what an HTTP/2 connection, and one request on
	// it, may send ahead of being read, bytes.
	connWindow, streamWindow = 256 << 10, 64 << 10
	// pingAfter is the silence after which an HTTP/2 client is asked whether it lives,
	// and pingWithin how long it may take to answer: together tcp.GoneWithin.
	pingAfter, pingWithin = tcp.GoneWithin - pingWithin, 20 * time.Second
)

// Server serves the interface over as many listeners as it is told to.
type Server struct {
	opt     Options
	lim     limits
	routes  map[string]*route
	origins origins
	names   names
	bodies  *watch // request bodies that are being read
	replies *watch // answers that are being written
	openapi func() []byte

	mostOpen1 int                      // requests of HTTP/1.1 that may stay open
	open1     atomic.Int64             // and how many do
	altSvc    atomic.Pointer[[]string] // header of answers over HTTP/1.1 and 2, once HTTP/3 is served too

	wg sync.WaitGroup
	mu struct {
		sync.Mutex
		listeners []listener
	}
}

// listener is one of a server's ways in.
type listener interface {
	// drain takes no further connection, and ends when every request is answered or
	// ctx is over, and everything with it.
	drain(ctx context.Context)
	// close ends everything at once.
	close()
}

// New makes a server that does not listen yet.
func New(opt Options) (*Server, error) {
	if opt.InFlight <= 0 {
		opt.InFlight = 256
	}
	if opt.RequestTimeout <= 0 {
		opt.RequestTimeout = 30 * time.Second
	}
	if opt.Log == nil {
		opt.Log = slog.Default()
	}
	return newServer(opt, defaultLimits(opt.RequestTimeout))
}

func newServer(opt Options, lim limits) (*Server, error) {
	allowed, err := parseOrigins(opt.Origins)
	if err != nil {
		return nil, err
	}
	s := &Server{
		opt: opt, lim: lim, origins: allowed, names: newNames(opt.Hosts, opt.TLS),
		bodies: newWatch(lim.bodyBytes, lim.body, readSide), replies: newWatch(lim.replyBytes, lim.write, writeSide),
		openapi: sync.OnceValue(func() []byte { return document(opt.Plain) }),
	}
	s.mostOpen1 = cmp.Or(opt.Connections, lim.conns) * 3 / 4
	s.routes = s.table()
	return s, nil
}

// add notes a listener that was opened.
func (s *Server) add(l listener) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.listeners = append(s.mu.listeners, l)
}

func (s *Server) listeners() []listener {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.listeners
}

// Listen serves HTTP/1.1 and HTTP/2 over TLS at an address, host:port, and answers
// where that is.
func (s *Server) Listen(addr string) (string, error) {
	if s.opt.TLS == nil {
		return "", errors.New("no TLS certificates are configured")
	}
	on, err := tcp.Listen(addr)
	if err != nil {
		return "", err
	}
	conf := s.opt.TLS.Clone()
	conf.NextProtos = []string{"h2", "http/1.1"}
	l := &tcpListener{conns: compat.NewConns(cmp.Or(s.opt.Connections, s.lim.conns), s.lim.halfOpen,
		s.opt.Log.With("interface", "web"))}
	l.http = &http.Server{
		Handler:                      s,
		TLSConfig:                    conf,
		ReadHeaderTimeout:            s.lim.handshake,
		IdleTimeout:                  s.lim.idle,
		WriteTimeout:                 s.lim.call + s.lim.write, // requests that stay open take it off
		MaxHeaderBytes:               readHeaderBytes,
		DisableGeneralOptionsHandler: true,
		ConnState:                    func(c net.Conn, st http.ConnState) { l.conns.State(c, st) },
		ConnContext:                  s.connWith,
		ErrorLog:                     slog.NewLogLogger(s.opt.Log.Handler(), slog.LevelDebug),
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams:          s.streams(),
			MaxReceiveBufferPerConnection: connWindow,
			MaxReceiveBufferPerStream:     streamWindow,
			SendPingTimeout:               pingAfter,
			PingTimeout:                   pingWithin,
			WriteByteTimeout:              s.lim.write,
		},
	}
	s.add(l)
	at := on.Addr().String()
	s.wg.Go(func() {
		if err := l.http.ServeTLS(on, "", ""); err != nil && !errors.Is(err, http.ErrServerClosed) {
			s.opt.Log.Error("HTTP is not served any more", "web_listen", at, "error", err)
		}
	})
	return at, nil
}

// Drain takes no further connection, and ends when every request is answered or ctx
// is over; event streams and waiting acquires should have been ended before
// (compat.Service.Leave).
func (s *Server) Drain(ctx context.Context) {
	var all sync.WaitGroup
	for _, l := range s.listeners() {
		all.Go(func() { l.drain(ctx) })
	}
	all.Wait()
	s.Close()
}

// Close ends everything at once.
func (s *Server) Close() {
	for _, l := range s.listeners() {
		l.close()
	}
	s.wg.Wait()
	s.bodies.stop()
	s.replies.stop()
}

// tcpListener serves HTTP/1.1 and 2.
type tcpListener struct {
	http  *http.Server
	conns *compat.Conns
}

func (l *tcpListener) drain(ctx context.Context) {
	l.conns.End() // what has not asked anything need not be answered
	if err := l.http.Shutdown(ctx); err != nil {
		l.close()
	}
}

func (l *tcpListener) close() { _ = l.http.Close() }

type callsKey struct{}

// connContext is the context of a new connection's requests.
func (s *Server) connContext(ctx context.Context) context.Context {
	return context.WithValue(ctx, callsKey{}, compat.NewCalls(s.opt.InFlight, openCalls, s.lim.turn))
}

// connWith is connContext for one over TCP.
func (s *Server) connWith(ctx context.Context, c net.Conn) context.Context {
	return withConn(s.connContext(ctx), c)
}

// callsOf answers what a request's connection has under way.
func callsOf(r *http.Request) *compat.Calls {
	return r.Context().Value(callsKey{}).(*compat.Calls) //nolint:forcetypeassert // see connContext
}

// streams is how many streams an HTTP/2 or HTTP/3 connection may have.
func (s *Server) streams() int { return s.opt.InFlight + openCalls + compat.KeptTurns + spareStreams }

// open notes a request that stays open, which shut ends. One of HTTP/1.1 has its
// connection for itself: so these may not take all connections together.
func (s *Server) open(r *http.Request) (shut func(), err error) {
	if r.ProtoMajor > 1 {
		calls := callsOf(r)
		return calls.Shut, calls.Open()
	}
	most := int64(s.mostOpen1)
	if s.open1.Add(1) > most {
		s.open1.Add(-1)
		return nil, status.Errorf(codes.ResourceExhausted,
			"%d requests over HTTP/1.1 stay open (waiting acquires, event streams), which is the most; HTTP/2 has "+
				"room for %d on a connection", most, openCalls)
	}
	return func() { s.open1.Add(-1) }, nil
}
