package pathlockd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// conn is one connection, after its hello.
//
// It is read by the goroutine that runs the client. It is written by whoever
// finds that nobody else does: a caller copies its frame to out under the
// session's lock, and if no write is under way it does one itself, of all that
// came together meanwhile. So a lone caller's request goes out without a change of
// goroutines, and those of many share a system call. Such a write never waits: what
// the socket does not take is left to a goroutine (drain).
type conn struct {
	c      *Client
	l      *lane
	nc     net.Conn
	try    func(b []byte) (n int, err error) // nil: every write is left to a goroutine
	tie    *tie
	addr   address // that it leads to
	limits wire.Limits
	server ServerInfo
	heard  atomic.Int64 // when the last bytes came (Client.now)
	spoke  atomic.Int64 // and the last of an answer, be it a part

	// Under the session's lock.
	out, spare []byte // out is to be written next; the other is being written, or none
	writing    bool
	failed     error         // why it was given up, nil: it was not
	trip       time.Duration // how long a sign of life takes: of the last ones the shortest

	pinged time.Duration // of the keeper: when it asked for a sign of life
	told   time.Duration // of the keeper: when it told last what was answered, while other requests are open

	// Of the reader.
	in     []byte
	have   int // bytes of in that are filled
	landed []landed
	reply  reply
	// since when the server has taken no request; 0: it took the last one
	refusing time.Duration
}

const (
	// flushTurns is how many writes a caller does for others before it leaves them
	// to a goroutine.
	flushTurns = 4
	// readBytes is what one read takes; a longer frame gets a buffer of its size.
	readBytes = 64 << 10
	// spareKept bounds the memory of a buffer that is kept to be used again.
	spareKept = 1 << 20
)

// address is where a server may be.
type address struct{ network, addr string }

func (a address) String() string {
	if a.network == "unix" {
		return "unix:" + a.addr
	}
	return a.addr
}

// parseAddresses reads "host:port", "unix:/path", or several with commas between.
func parseAddresses(list string) ([]address, error) {
	var all []address
	for one := range strings.SplitSeq(list, ",") {
		one = strings.TrimSpace(one)
		if path, unix := strings.CutPrefix(one, "unix:"); unix && path != "" {
			all = append(all, address{"unix", path})
			continue
		}
		if _, port, err := net.SplitHostPort(one); err != nil || port == "" {
			return nil, fmt.Errorf("pathlockd: address %q: want host:port or unix:/path, or several with commas between", one)
		}
		all = append(all, address{"tcp", one})
	}
	return all, nil
}

// connect makes a connection of a lane to one address and says hello on it.
func (c *Client) connect(ctx context.Context, l *lane, a address, patience time.Duration) (*conn, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	cn, err := c.reach(ctx, l, a)
	if err != nil {
		return nil, err
	}
	return cn, cn.open(ctx)
}

// reach makes a connection of a lane to one address.
func (c *Client) reach(ctx context.Context, l *lane, a address) (*conn, error) {
	nc, err := c.opt.dialer(ctx, a.network, a.addr)
	if err != nil {
		return nil, fmt.Errorf("pathlockd: connect to %s: %w", a, err)
	}
	return &conn{c: c, l: l, nc: nc, try: nonblocking(nc), addr: a, in: make([]byte, readBytes)}, nil
}

// open says hello on a connection, and closes it when that fails.
func (cn *conn) open(ctx context.Context) error {
	err := cn.within(ctx, cn.hello)
	if err == nil {
		err = cn.c.recognize(cn)
	}
	if err != nil {
		cn.nc.Close()
		return fmt.Errorf("pathlockd: hello to %s: %w", cn.addr, err)
	}
	return nil
}

// within does something with a connection that is not read yet until a context ends.
func (cn *conn) within(ctx context.Context, do func() error) error {
	stop := context.AfterFunc(ctx, func() { _ = cn.nc.SetDeadline(time.Unix(1, 0)) })
	err := do()
	if !stop() {
		err = context.Cause(ctx)
	}
	return err
}

// recognize refuses a server of another cluster, unless the user named its address:
// what a node tells of its neighbours need not be right where the client is.
func (c *Client) recognize(cn *conn) error {
	ours, _ := c.cluster.Load().(string)
	if named := slices.Contains(c.addrs, cn.addr); named || ours == "" || cn.server.ClusterID == ours {
		if named && cn.l == c.home {
			c.cluster.Store(cn.server.ClusterID)
		}
		return nil
	}
	return fmt.Errorf("it is of cluster %q, this client's is %q", cn.server.ClusterID, ours)
}

// hello opens the connection for the client's session.
func (cn *conn) hello() error {
	id, epoch, request, unknown, late := cn.l.session.hello(time.Duration(cn.l.heard.Load()))
	cn.c.fail(unknown, ErrOutcomeUnknown)
	cn.c.fail(late, errLate)
	cn.tie = &tie{number: cn.c.connections.Add(1), lane: cn.l, as: id}
	cn.tie.prove(cn.c.now())
	cn.c.keeper.tries(cn.tie)
	frame := wire.AppendRequest(nil, request, &wire.Request{Op: wire.OpHello, Hello: &wire.Hello{
		MinVersion: wire.MinProtocol, MaxVersion: wire.MaxProtocol, Session: id[:], Epoch: epoch,
		Client: cn.c.opt.name, Window: uint64(cn.c.opt.window), Meta: cn.c.meta,
		Grace:    uint64(cn.c.opt.grace.Milliseconds()),
		Features: wire.FeatureLeases,
	}})
	if _, err := cn.nc.Write(frame); err != nil {
		return err
	}
	return cn.await("hello", func(payload []byte) (done bool, err error) { return cn.welcome(request, payload) })
}

// await reads frames on a connection that is not open yet until f says that it is done.
func (cn *conn) await(step string, f func(payload []byte) (done bool, err error)) error {
	for {
		// A welcome is short; what is as long as the buffer is none.
		payload, size, _, err := wire.NextFrame(cn.in[:cn.have], readBytes/2)
		if err != nil {
			return &ProtocolError{Step: step, Err: err}
		}
		if size == 0 {
			n, err := cn.nc.Read(cn.in[cn.have:])
			cn.have += n
			if n == 0 && err != nil {
				return err
			}
			continue
		}
		done, err := f(payload)
		cn.have = copy(cn.in, cn.in[size:cn.have])
		if done || err != nil {
			return err
		}
	}
}

// welcome takes a frame that came before the connection was open.
func (cn *conn) welcome(request uint64, payload []byte) (done bool, err error) {
	id, code, r, fields, err := wire.DecodeReply(payload)
	var res wire.Result
	switch {
	case err != nil:
	case id == 0 && wire.PushKind(code) == wire.PushGoodbye:
		return cn.farewell(&r, fields)
	case id != request:
		return false, nil
	default:
		err = res.Decode(wire.OpHello, wire.Code(code), &r, fields)
	}
	if err == nil && res.Code != wire.OK {
		return false, &refusal{wire.OpHello, wire.Error{Code: res.Code, Message: strings.Clone(res.Message)}}
	}
	if err == nil && (res.List == nil || res.List.Welcome == nil) {
		err = errors.New("the welcome is empty")
	}
	if err != nil {
		return false, &ProtocolError{Step: "hello", Err: err}
	}
	w := res.List.Welcome
	cn.limits, cn.tie.tells = w.Limits, w.Features&wire.FeatureLeases != 0
	cn.server = ServerInfo{
		Address: cn.addr.String(), NodeID: strings.Clone(w.NodeID),
		ClusterID: strings.Clone(w.ClusterID), Version: strings.Clone(w.ServerVersion),
	}
	now := cn.c.now()
	cn.heard.Store(int64(now))
	cn.spoke.Store(int64(now))
	cn.trip = now - cn.tie.since()
	return true, nil
}

// farewell takes a goodbye that came before the connection was open.
func (cn *conn) farewell(r *wire.Reader, fields int) (done bool, err error) {
	refused, err := wire.DecodeGoodbye(r, fields)
	if err == nil {
		err = &refusal{wire.OpHello, wire.Error{Code: refused.Code, Message: strings.Clone(refused.Message)}}
	}
	return false, err
}

// claim makes the caller the one who flushes out, unless there is nothing in it or
// somebody writes already, who will go on with it. Called under the session's lock.
func (cn *conn) claim() (mine bool) {
	if cn.writing || len(cn.out) == 0 {
		return false
	}
	cn.writing = true
	return true
}

// flush writes what is in out, and what comes together meanwhile. It does not wait
// for the peer. In a crowd it lets others run first, who may have something to send
// too: that halves what a request of many goroutines costs.
func (cn *conn) flush(crowd bool) {
	if crowd {
		runtime.Gosched()
	}
	var buf []byte
	for turn := 0; ; turn++ {
		if buf = cn.next(buf); len(buf) == 0 {
			return
		}
		if cn.try == nil || turn == flushTurns {
			cn.handOver(buf, buf)
			return
		}
		n, err := cn.try(buf)
		if err != nil {
			cn.giveUp(err)
			return
		}
		if n < len(buf) {
			cn.handOver(buf, buf[n:])
			return
		}
	}
}

// next takes a buffer back that was written and answers the next, nil when there
// is none: then the caller does not write any more.
func (cn *conn) next(written []byte) []byte {
	s := &cn.l.session
	s.mu.Lock()
	defer s.mu.Unlock()
	if written != nil && cap(written) <= spareKept {
		cn.spare = written
	}
	if len(cn.out) == 0 {
		cn.writing = false
		return nil
	}
	buf := cn.out
	cn.out, cn.spare = cn.spare[:0], nil
	return buf
}

// handOver leaves the rest of buf, and what follows, to a goroutine.
func (cn *conn) handOver(buf, rest []byte) {
	cn.c.spawn(func() { cn.drain(buf, rest) })
}

// drain writes the rest of buf and what follows, waiting for the peer.
func (cn *conn) drain(buf, rest []byte) {
	for {
		if _, err := cn.nc.Write(rest); err != nil {
			cn.giveUp(err)
			return
		}
		if buf = cn.next(buf); buf == nil {
			return
		}
		rest = buf
	}
}

// giveUp closes the connection, which the reader will see; the first reason is
// kept.
func (cn *conn) giveUp(err error) {
	s := &cn.l.session
	s.mu.Lock()
	if cn.failed == nil {
		cn.failed = err
	}
	s.mu.Unlock()
	cn.nc.Close()
}
