package loop_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// patience is how long a test waits for what has to come.
const patience = 90 * time.Second

// peer is a client that does as it is told: it sends requests, or any bytes, and
// files what the server says.
type peer struct {
	t       testing.TB
	conn    net.Conn
	in      []byte
	last    uint64 // request id
	ops     map[uint64]wire.Op
	replies map[uint64]wire.Result
	order   []uint64 // ids in the order of their replies
	pushes  []push
	welcome *wire.Welcome
}

type push struct {
	kind     wire.PushKind
	queued   wire.Queued
	event    wire.Event
	progress wire.Progress
	topology *wire.Topology
	goodbye  *wire.Error
	lease    wire.LeaseEvent
}

// dial connects and says nothing.
func dial(t testing.TB, addr net.Addr) *peer {
	t.Helper()
	c, err := net.Dial(addr.Network(), addr.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return &peer{t: t, conn: c, ops: make(map[uint64]wire.Op), replies: make(map[uint64]wire.Result)}
}

// join connects and says hello.
func join(t testing.TB, addr net.Addr) *peer {
	t.Helper()
	return joinAs(t, addr, &wire.Hello{})
}

// joinAs says a hello of the versions there are.
func joinAs(t testing.TB, addr net.Addr, h *wire.Hello) *peer {
	t.Helper()
	p := dial(t, addr)
	res := p.greet(h)
	if err := res.Err(); err != nil {
		t.Fatalf("hello: %v", err)
	}
	return p
}

func (p *peer) greet(h *wire.Hello) wire.Result {
	p.t.Helper()
	h.MinVersion, h.MaxVersion = 1, 1
	res := p.ask(&wire.Request{Op: wire.OpHello, Hello: h})
	if res.List != nil {
		p.welcome = res.List.Welcome
	}
	return res
}

// send writes bytes.
func (p *peer) send(b []byte) {
	p.t.Helper()
	p.conn.SetWriteDeadline(time.Now().Add(patience))
	if _, err := p.conn.Write(b); err != nil {
		p.t.Fatalf("write: %v", err)
	}
}

// encode gives requests their ids and answers their frames, and the ids.
func (p *peer) encode(reqs ...*wire.Request) (frames []byte, ids []uint64) {
	for _, req := range reqs {
		p.last++
		p.ops[p.last] = req.Op
		frames = wire.AppendRequest(frames, p.last, req)
		ids = append(ids, p.last)
	}
	return frames, ids
}

// start sends requests in one write and answers their ids.
func (p *peer) start(reqs ...*wire.Request) []uint64 {
	p.t.Helper()
	frames, ids := p.encode(reqs...)
	p.send(frames)
	return ids
}

// ask asks and waits for the answer.
func (p *peer) ask(req *wire.Request) wire.Result {
	p.t.Helper()
	return p.reply(p.start(req)[0])
}

// must asks for what has to be done.
func (p *peer) must(req *wire.Request) wire.Result {
	p.t.Helper()
	res := p.ask(req)
	if err := res.Err(); err != nil || res.Status != wire.StatusOK {
		p.t.Fatalf("%v of %s: %v, status %v %v %s", req.Op, req.Owner, err, res.Status, res.Reason, res.Path)
	}
	return res
}

// refused asks for what has to be refused.
func (p *peer) refused(req *wire.Request, code wire.Code, says string) {
	p.t.Helper()
	res := p.ask(req)
	if res.Code != code || !strings.Contains(res.Message, says) {
		p.t.Errorf("%v: answered %v %q, want %v and %q", req.Op, res.Code, res.Message, code, says)
	}
}

// reply waits for the answer to a request.
func (p *peer) reply(id uint64) wire.Result {
	p.t.Helper()
	for {
		if res, ok := p.replies[id]; ok {
			delete(p.replies, id)
			return res
		}
		p.must1(p.step())
	}
}

// push waits for a push of a kind.
func (p *peer) push(kind wire.PushKind) push {
	p.t.Helper()
	for {
		for i, got := range p.pushes {
			if got.kind == kind {
				p.pushes = append(p.pushes[:i:i], p.pushes[i+1:]...)
				return got
			}
		}
		p.must1(p.step())
	}
}

func (p *peer) must1(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatalf("%v (goodbye: %v)", err, p.goodbye())
	}
}

// goodbye is the goodbye that came, if one did.
func (p *peer) goodbye() *wire.Error {
	for _, got := range p.pushes {
		if got.kind == wire.PushGoodbye {
			return got.goodbye
		}
	}
	return nil
}

// ended waits until the server has closed the connection, and answers its goodbye.
func (p *peer) ended() *wire.Error {
	p.t.Helper()
	for {
		switch err := p.step(); {
		case err == nil:
		case errors.Is(err, os.ErrDeadlineExceeded):
			p.t.Fatal("the server does not close the connection")
		default:
			return p.goodbye()
		}
	}
}

// endedWith is ended with a goodbye that says something.
func (p *peer) endedWith(code wire.Code, says string) {
	p.t.Helper()
	bye := p.ended()
	if bye == nil || bye.Code != code || !strings.Contains(bye.Message, says) {
		p.t.Errorf("the goodbye is %v, want %v and %q", bye, code, says)
	}
}

// step reads one frame and files it.
func (p *peer) step() error {
	payload, err := p.frame()
	if err != nil {
		return err
	}
	return p.file(payload)
}

// frame reads one frame's payload, which is the caller's.
func (p *peer) frame() ([]byte, error) {
	for {
		payload, size, _, err := wire.NextFrame(p.in, wire.MaxFrameBytes)
		if err != nil {
			return nil, err
		}
		if size > 0 {
			payload = bytes.Clone(payload)
			p.in = p.in[size:]
			return payload, nil
		}
		p.conn.SetReadDeadline(time.Now().Add(patience))
		var piece [16 << 10]byte
		n, err := p.conn.Read(piece[:])
		p.in = append(p.in, piece[:n]...)
		if n == 0 && err != nil {
			if errors.Is(err, io.EOF) && len(p.in) > 0 {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
	}
}

// file files a reply or a push, and finds fault with one that is not right.
func (p *peer) file(payload []byte) error {
	id, code, r, n, err := wire.DecodeReply(payload)
	if err != nil {
		return err
	}
	if p.goodbye() != nil {
		p.t.Errorf("frame %x follows the goodbye", payload)
	}
	if id == 0 {
		got := push{kind: wire.PushKind(code)}
		switch got.kind {
		case wire.PushQueued:
			err = got.queued.Decode(&r, n)
		case wire.PushEvent:
			err = got.event.Decode(&r, n)
		case wire.PushProgress, wire.PushGap:
			err = got.progress.Decode(&r, n)
		case wire.PushTopology:
			got.topology, err = wire.DecodeTopology(&r, n)
		case wire.PushLease:
			err = got.lease.Decode(&r, n)
			got.lease.Owner, got.lease.Namespace = strings.Clone(got.lease.Owner), strings.Clone(got.lease.Namespace)
		case wire.PushGoodbye:
			got.goodbye, err = wire.DecodeGoodbye(&r, n)
		default:
			err = fmt.Errorf("push of kind %d", got.kind)
		}
		p.pushes = append(p.pushes, got)
		return err
	}
	op, asked := p.ops[id]
	if !asked {
		return fmt.Errorf("reply %x to a request that nobody asked", payload)
	}
	delete(p.ops, id)
	var res wire.Result
	if err := res.Decode(op, wire.Code(code), &r, n); err != nil {
		return err
	}
	if rest := len(r.Rest()); rest > 0 {
		return fmt.Errorf("%d bytes follow the reply %x", rest, payload)
	}
	p.replies[id], p.order = res, append(p.order, id)
	return nil
}

// hangUp closes the connection.
func (p *peer) hangUp() { p.conn.Close() }

// named answers names that no other test has, for owners and namespaces.
func named(prefix string) string { return fmt.Sprintf("%s%d", prefix, names.Add(1)) }

var names atomic.Int64

func ping() *wire.Request { return &wire.Request{Op: wire.OpPing} }

// write is an acquire of one path for a minute.
func write(owner, path string) *wire.Request {
	return &wire.Request{Op: wire.OpAcquire, Owner: owner, TTLMillis: 60_000, Locks: []wire.LockRequest{{Path: path}}}
}

func flagged(req *wire.Request, f wire.Flags) *wire.Request {
	req.Flags |= f
	return req
}

func release(owner, path string) *wire.Request {
	return &wire.Request{Op: wire.OpRelease, Owner: owner, Releases: []wire.ReleaseRequest{{Path: path}}}
}

func describe(path string) *wire.Request { return &wire.Request{Op: wire.OpDescribe, Path: path} }

func subscribe(owner string, from ...wire.Position) *wire.Request {
	return &wire.Request{Op: wire.OpSubscribe, Owner: owner, Positions: from}
}
