package pathlockd

import (
	"cmp"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// peer is one connection at the server's end.
type peer struct {
	net.Conn
	t     testing.TB
	addr  string // that was dialled
	node  string // what it calls itself; "" is "fake"
	mark  string // and its cluster
	hello *wire.Hello
	tells uint64 // features that it has
	id    uint64 // of the hello
	buf   []byte

	// lists has the test see the client's own questions for what an owner holds. Unless set,
	// they are answered with everything that it ever asked for.
	lists bool
	taken *taken

	// topology is what it answers to the client's own question for it, nil to have
	// the test see the question. An empty one unless set.
	topology *wire.Topology
}

// asked is a request as the server got it.
type asked struct {
	id  uint64
	req *wire.Request
	raw string // the payload
	at  time.Time
}

var testLimits = wire.Limits{
	FrameBytes: wire.MaxFrameBytes, InFlight: 256, Waiting: 1024, Subscriptions: 256, BoundOwners: 1024,
	RepeatMillis: 60_000,
}

// welcome answers the hello.
func (p *peer) welcome(l wire.Limits) {
	p.reply(p.id, wire.OpHello, &wire.Result{List: &wire.List{Welcome: &wire.Welcome{
		Version: 1, NodeID: cmp.Or(p.node, "fake"), ClusterID: p.mark, Session: p.hello.Session,
		Epoch: p.hello.Epoch, Limits: l,
		Features: p.hello.Features & p.tells,
	}}})
}

// read reads one request.
func (p *peer) read() (*asked, error) {
	for {
		payload, size, _, err := wire.NextFrame(p.buf, wire.MaxFrameBytes)
		if err != nil {
			return nil, err
		}
		if size == 0 {
			chunk := make([]byte, 4096)
			n, err := p.Read(chunk)
			p.buf = append(p.buf, chunk[:n]...)
			if n == 0 && err != nil {
				return nil, err
			}
			continue
		}
		a := &asked{req: new(wire.Request), raw: string(payload), at: time.Now()}
		own := []byte(a.raw)
		p.buf = p.buf[size:]
		id, _, _, refused := wire.DecodeRequest(own, a.req)
		if a.id = id; refused != nil {
			return nil, refused
		}
		if a.req.Op == wire.OpTopology && p.topology != nil {
			p.reply(a.id, a.req.Op, &wire.Result{List: &wire.List{Topology: p.topology}})
			continue
		}
		if a.req.Op == wire.OpAcquire {
			p.taken.add(a.req)
		}
		if a.req.Op == wire.OpListLocks && !p.lists {
			p.reply(a.id, a.req.Op, p.taken.of(a.req.Owner))
			continue
		}
		return a, nil
	}
}

// taken is what was asked for at a fake server, by owner.
type taken struct {
	mu    sync.Mutex
	locks map[string][]wire.LockInfo
}

func (k *taken) add(req *wire.Request) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.locks == nil {
		k.locks = make(map[string][]wire.LockInfo)
	}
	for _, l := range req.Locks {
		k.locks[req.Owner] = append(k.locks[req.Owner], wire.LockInfo{Owner: req.Owner, Path: l.Path, Mode: l.Mode})
	}
}

func (k *taken) of(owner string) *wire.Result {
	k.mu.Lock()
	defer k.mu.Unlock()
	return &wire.Result{Flag: true, Done: true, List: &wire.List{Infos: slices.Clone(k.locks[owner])}}
}

// next reads one request, which must come; pings are answered on the way.
func (p *peer) next() *asked {
	p.t.Helper()
	for {
		p.SetReadDeadline(time.Now().Add(patience))
		a, err := p.read()
		if err != nil {
			p.t.Fatalf("the fake server reads: %v", err)
		}
		if a.req.Op != wire.OpPing {
			return a
		}
		p.ok(a)
	}
}

// want is next, of an operation.
func (p *peer) want(op wire.Op) *asked {
	p.t.Helper()
	a := p.next()
	if a.req.Op != op {
		p.t.Fatalf("the fake server got %v, want %v", a.req.Op, op)
	}
	return a
}

// wantPast is want; what the keeper asks on the way is answered. It repeats a cancel
// whenever it looks at the connection, which may be right after the first one.
func (p *peer) wantPast(op wire.Op) *asked {
	p.t.Helper()
	for {
		switch a := p.next(); a.req.Op {
		case op:
			return a
		case wire.OpCancel, wire.OpSubscribe, wire.OpUnsubscribe, wire.OpRenew:
			p.ok(a)
		default:
			p.t.Fatalf("the fake server got %v, want %v", a.req.Op, op)
		}
	}
}

// quiet fails if a request comes within a while.
func (p *peer) quiet(d time.Duration) {
	p.t.Helper()
	p.SetReadDeadline(time.Now().Add(d))
	a, err := p.read()
	var timeout net.Error
	if err == nil {
		p.t.Fatalf("the fake server got %v %d, want nothing", a.req.Op, a.id)
	}
	if !errors.As(err, &timeout) || !timeout.Timeout() {
		p.t.Fatalf("the fake server reads: %v", err)
	}
}

// gone waits until the client closes the connection.
func (p *peer) gone() {
	p.t.Helper()
	p.SetReadDeadline(time.Now().Add(patience))
	if _, err := io.Copy(io.Discard, p.Conn); err != nil && !strings.Contains(err.Error(), "reset") {
		p.t.Fatalf("the client did not close the connection: %v", err)
	}
}

// send writes to the client. That it may be gone, or the whole test over, is told to
// nobody: who waits for what was sent fails.
func (p *peer) send(frames []byte) {
	p.SetWriteDeadline(time.Now().Add(patience))
	_, _ = p.Write(frames)
}

func (p *peer) reply(id uint64, op wire.Op, res *wire.Result) {
	p.send(wire.AppendReply(nil, id, op, res))
}

// ok answers a request as a server does that grants everything.
func (p *peer) ok(a *asked) { p.reply(a.id, a.req.Op, granted(a.req)) }

// refuse answers with a code.
func (p *peer) refuse(a *asked, code wire.Code) {
	p.reply(a.id, a.req.Op, &wire.Result{Code: code, Message: "the test says so"})
}

// granted is the result of a request that is granted.
func granted(req *wire.Request) *wire.Result {
	switch req.Op {
	case wire.OpAcquire:
		return &wire.Result{Token: 7, Namespace: namespaceOf(req.Locks[0].Path)}
	case wire.OpSubscribe:
		return &wire.Result{Count: 1, List: &wire.List{Positions: []wire.Position{{Log: 2, Index: 10}}}}
	}
	return &wire.Result{}
}

// namespaceOf is the namespace of a path with routing_prefix_segments 1.
func namespaceOf(path string) string {
	i := strings.IndexByte(path, '/')
	if j := strings.IndexByte(path[i+1:], '/'); j >= 0 {
		return path[:i+1+j]
	}
	return path
}

// serve answers every request with what f says, nil for no answer, until the
// connection ends.
func (p *peer) serve(f func(a *asked) *wire.Result) {
	p.SetReadDeadline(time.Time{})
	for {
		a, err := p.read()
		if err != nil {
			return
		}
		if res := f(a); res != nil {
			p.reply(a.id, a.req.Op, res)
		}
	}
}

// serveAll grants every request, in the background.
func (p *peer) serveAll() {
	go p.serve(func(a *asked) *wire.Result { return granted(a.req) })
}
