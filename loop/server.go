package loop

import (
	"context"
	"fmt"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/panjf2000/gnet/v2"
	"github.com/panjf2000/gnet/v2/pkg/logging"

	"github.com/pathlockd/pathlockd/internal/tcp"
	"github.com/pathlockd/pathlockd/wire"
)

// Server serves the native protocol.
type Server struct {
	opt     Options
	handler wire.Handler
	client  *gnet.Client
	partial atomic.Int64 // bytes of unfinished frames, of all connections
	held    atomic.Int64 // bytes of requests not answered yet, likewise
	unread  atomic.Int64 // bytes that peers leave unread, likewise
	count   atomic.Int64 // connections

	stopping atomic.Bool // connections close because the server does
	ending   atomic.Bool // no connection leaves its loop any more
	lanes    sync.WaitGroup

	mu        sync.Mutex
	reactors  map[gnet.EventLoop]*reactor
	current   map[[wire.SessionBytes]byte]holder // by session id
	listeners []net.Listener
	closed    bool

	stop     chan struct{}
	running  sync.WaitGroup
	pulse    pulse
	patience time.Duration // how long a connection may wait to be taken, and is served then
}

// holder is the connection a client's session is on.
type holder struct {
	s     *session
	epoch uint64
}

// New starts a server that listens nowhere yet.
func New(handler wire.Handler, opt Options) (*Server, error) {
	s := &Server{
		opt: opt.defaults(), handler: handler,
		reactors: make(map[gnet.EventLoop]*reactor), current: make(map[[wire.SessionBytes]byte]holder),
		stop: make(chan struct{}), patience: tcp.GoneWithin,
	}
	s.pulse.starts()
	loops := s.opt.Loops
	if loops == 0 {
		loops = runtime.GOMAXPROCS(0)
	}
	var err error
	s.client, err = gnet.NewClient(&events{s: s}, gnet.WithNumEventLoop(loops), gnet.WithTCPNoDelay(gnet.TCPNoDelay),
		gnet.WithTCPKeepAlive(tcp.GoneWithin/2), gnet.WithLogger(gnetLogger{s}), gnet.WithLogLevel(logging.WarnLevel))
	if err == nil {
		err = s.client.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("start the event loops: %w", err)
	}
	s.running.Add(1)
	go s.sweepLoop()
	return s, nil
}

// sweepEvery is how often connections are looked at that keep the server waiting.
const sweepEvery = time.Second

func (s *Server) sweepLoop() {
	defer s.running.Done()
	t := time.NewTicker(sweepEvery)
	defer t.Stop()
	for {
		select {
		case <-s.stop:
			return
		case now := <-t.C:
			if stood := s.pulse.beats(); stood > 0 {
				s.opt.Log.Warn("the process stood still: what native clients sent meanwhile is not taken, and their "+
					"connections are closed", "for", stood.Round(time.Second).String())
			}
			for _, r := range s.loops() {
				r.post(item{do: func() { r.sweep(now) }})
			}
		}
	}
}

func (s *Server) loops() []*reactor {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]*reactor, 0, len(s.reactors))
	for _, r := range s.reactors {
		all = append(all, r)
	}
	return all
}

// Connections is how many connections there are.
func (s *Server) Connections() int { return int(s.count.Load()) }

// reactor answers the one of an event loop.
func (s *Server) reactor(loop gnet.EventLoop) *reactor {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.reactors[loop]
	if r == nil {
		r = newReactor(s, loop)
		s.reactors[loop] = r
	}
	return r
}

// enter makes c the current connection of a session. An earlier one, which the
// client has given up, is closed.
func (s *Server) enter(c *session, ws *wire.Session) *wire.Error {
	s.mu.Lock()
	old := s.current[ws.ID]
	if old.s != nil && old.epoch >= ws.Epoch {
		s.mu.Unlock()
		return wire.Errorf(wire.FailedPrecondition,
			"hello: epoch %d: the session is on its connection %d here, a later one must have a higher epoch", ws.Epoch,
			old.epoch).By(wire.CauseEpoch)
	}
	s.current[ws.ID] = holder{c, ws.Epoch}
	s.mu.Unlock()
	if old.s != nil {
		old.s.r.post(item{do: func() {
			old.s.goodbye(wire.Errorf(wire.Aborted, "the session goes on on a later connection"))
		}})
	}
	return nil
}

// exit takes the connection's session off the list and says whether it goes on, on a
// later connection. One that took it over and is gone as well does not count: what is
// answered to this one only now may have come after its end.
func (s *Server) exit(c *session) (resumed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch now, ok := s.current[c.hello.ID]; {
	case !ok:
		return false
	case now.s != c:
		return true
	}
	delete(s.current, c.hello.ID)
	return false
}

// Goodbye tells every client that the server is about to close. From then on no
// client loses anything for its connection's closing.
func (s *Server) Goodbye(err *wire.Error) {
	s.stopping.Store(true)
	for _, r := range s.loops() {
		r.post(item{do: func() {
			for c := range r.sessions {
				c.goodbye(err)
			}
		}})
	}
}

// Close ends all connections and the event loops. The clients keep what they hold
// and wait for.
func (s *Server) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	s.mu.Unlock()
	s.stopping.Store(true)
	s.CloseListeners()
	close(s.stop)
	s.running.Wait()
	s.ending.Store(true)
	s.endLanes()
	return s.client.Stop()
}

// endLanes closes the connections that are off their loops.
func (s *Server) endLanes() {
	var loops sync.WaitGroup
	for _, r := range s.loops() {
		loops.Add(1)
		r.post(item{do: func() {
			defer loops.Done()
			for c := range r.sessions {
				if c.lane != nil {
					c.lane.lost()
				}
			}
		}})
	}
	loops.Wait()
	s.lanes.Wait()
}

// events is what gnet calls, on the loop of the connection it is about.
type events struct {
	gnet.BuiltinEventEngine
	s *Server
}

// OnOpen implements gnet.EventHandler.
func (e *events) OnOpen(c gnet.Conn) ([]byte, gnet.Action) {
	s := c.Context().(*session)
	if s.r != nil {
		return nil, s.arrive(c)
	}
	s.conn, s.r = c, e.s.reactor(c.EventLoop())
	s.r.sessions[s] = struct{}{}
	return nil, gnet.None
}

// OnTraffic implements gnet.EventHandler.
func (e *events) OnTraffic(c gnet.Conn) gnet.Action { return c.Context().(*session).receive() }

// OnClose implements gnet.EventHandler.
func (e *events) OnClose(c gnet.Conn, _ error) gnet.Action {
	if s := c.Context().(*session); s.lane == nil && !s.closed {
		s.gone()
	}
	return gnet.None
}

// gnetLogger passes gnet's messages on.
type gnetLogger struct{ s *Server }

func (l gnetLogger) log(format string, args []any) {
	l.s.opt.Log.Log(context.Background(), -4, fmt.Sprintf(format, args...), "from", "gnet")
}

func (l gnetLogger) Debugf(format string, args ...any) { l.log(format, args) }
func (l gnetLogger) Infof(format string, args ...any)  { l.log(format, args) }
func (l gnetLogger) Warnf(format string, args ...any)  { l.log(format, args) }
func (l gnetLogger) Errorf(format string, args ...any) { l.log(format, args) }
func (l gnetLogger) Fatalf(format string, args ...any) {
	l.s.opt.Log.Error(fmt.Sprintf(format, args...), "from", "gnet")
}
