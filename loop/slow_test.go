package loop_test

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/loop"
	"github.com/pathlockd/pathlockd/wire"
)

// TestByteByByte: requests that come a byte at a time are answered all the same.
func TestByteByByte(t *testing.T) {
	g := besiege(t, loop.Options{})
	p := dial(t, g.s.tcp)
	ns := named("bytes")
	frames, ids := p.encode(&wire.Request{Op: wire.OpHello, Hello: &wire.Hello{MinVersion: 1, MaxVersion: 1}},
		write(ns, ns+":/n/x"), ping(), release(ns, ns+":/n/x"))
	for i := range frames {
		p.send(frames[i : i+1])
	}
	for _, id := range ids {
		if res := p.reply(id); res.Code != wire.OK {
			t.Errorf("request %d: %v", id, res.Err())
		}
	}
	p.hangUp()
	g.over(32 << 20)
}

// TestSlowLoris: who begins a frame and does not finish it is closed in time, also
// when he sends a byte now and then; who keeps sending whole frames is not, even if
// there is always one that is not all there yet.
func TestSlowLoris(t *testing.T) {
	const within = 300 * time.Millisecond
	g := besiege(t, loop.Options{FrameWithin: within})
	slow := make([]*peer, 200)
	for i := range slow {
		slow[i] = join(t, g.s.unix)
		slow[i].send([]byte{0, 0, 1, 0})
	}
	busy := join(t, g.s.tcp)
	began := time.Now()
	var stop sync.WaitGroup
	stop.Go(func() {
		frames, ids := busy.encode(ping())
		busy.send(frames[:3])
		for time.Since(began) < 4*within+2*time.Second {
			next, more := busy.encode(ping())
			busy.send(append(bytes.Clone(frames[3:]), next[:3]...))
			busy.reply(ids[0])
			frames, ids = next, more
		}
		busy.send(frames[3:])
		busy.reply(ids[0])
	})
	stop.Go(func() {
		drip := time.NewTicker(within / 10)
		defer drip.Stop()
		for range 1000 {
			<-drip.C
			for _, p := range slow[:100] {
				p.conn.SetWriteDeadline(time.Now().Add(patience))
				if _, err := p.conn.Write([]byte{1}); err != nil {
					return
				}
			}
		}
	})
	for _, p := range slow {
		p.endedWith(wire.DeadlineExceeded, "a frame was not finished within 300ms")
	}
	t.Logf("200 slow connections closed after %v", time.Since(began).Round(time.Millisecond))
	if took := time.Since(began); took < within || took > patience {
		t.Errorf("closed after %v", took)
	}
	stop.Wait()
	busy.hangUp()
	g.over(32 << 20)
}

// TestNoHello: who connects and does not say hello is closed in time.
func TestNoHello(t *testing.T) {
	g := besiege(t, loop.Options{HelloWithin: 200 * time.Millisecond})
	var peers []*peer
	for i := range 500 {
		p := dial(t, []net.Addr{g.s.tcp, g.s.unix}[i%2])
		if i%3 == 0 {
			p.start(ping()) // refused, and no hello
		}
		peers = append(peers, p)
	}
	for _, p := range peers {
		p.endedWith(wire.DeadlineExceeded, "no hello within 200ms")
	}
	g.over(32 << 20)
}

// TestHalfClosed: a connection of which one side was shut is closed, or goes on
// working, and harms nobody.
func TestHalfClosed(t *testing.T) {
	g := besiege(t, loop.Options{})
	for _, addr := range []net.Addr{g.s.tcp, g.s.unix} {
		// Its sending side: the server takes it as closed.
		p := join(t, addr)
		frames, ids := p.encode(ping())
		p.send(frames)
		p.conn.(interface{ CloseWrite() error }).CloseWrite()
		p.reply(ids[0])
		if bye := p.ended(); bye != nil {
			t.Errorf("%s: half closed, goodbye %v", addr.Network(), bye)
		}
		// Its receiving side: it cannot be told anything any more. It is closed when
		// an answer fails, or cut off when too much is unread.
		p = join(t, addr)
		p.conn.(interface{ CloseRead() error }).CloseRead()
		_, _ = flood(t, p, 30<<20)
		p.hangUp()
	}
	g.over(64 << 20)
}

// flood sends pings and reads nothing, until the server takes no more of them, or closes
// the connection. It fails if the server takes more than most bytes.
func flood(t *testing.T, p *peer, most int) (sent int, open bool) {
	t.Helper()
	var burst []byte
	for range 4000 {
		burst = wire.AppendRequest(burst, 1<<50, ping())
	}
	for at := 0; sent < most; at = sent % len(burst) {
		p.conn.SetWriteDeadline(time.Now().Add(time.Second))
		n, err := p.conn.Write(burst[at:])
		sent += n
		if errors.Is(err, os.ErrDeadlineExceeded) && n == 0 {
			return sent, true
		}
		if err != nil && n == 0 {
			return sent, false
		}
	}
	t.Errorf("the server took %d bytes of pings, and nobody read its answers", sent)
	return sent, false
}

// TestNeverReads: of a peer that asks and does not read, nothing more is read after a
// while, and it is closed when it has taken nothing for a time.
func TestNeverReads(t *testing.T) {
	const stall = 3 * time.Second
	g := besiege(t, loop.Options{Stall: stall})
	for _, addr := range []net.Addr{g.s.tcp, g.s.unix} {
		p := join(t, addr)
		sent, _ := flood(t, p, 64<<20)
		t.Logf("%s: %.1f MiB of pings taken", addr.Network(), mib(int64(sent)))
		eventually(t, "it is closed", func() bool { return g.s.Connections() == 1 })
		p.hangUp()
	}
	g.over(32 << 20)
}

// TestReadsLate: who sends for long without reading, and reads then, has all its answers,
// each once; its connection goes on as it was before.
func TestReadsLate(t *testing.T) {
	g := besiege(t, loop.Options{})
	for _, addr := range []net.Addr{g.s.tcp, g.s.unix} {
		p := join(t, addr)
		p.must(ping())
		sent, open := flood(t, p, 64<<20)
		if !open {
			t.Fatalf("%s: closed after %d bytes", addr.Network(), sent)
		}
		one := len(wire.AppendRequest(nil, 1<<50, ping()))
		want := sent / one
		for i := range want {
			payload, err := p.frame()
			if err != nil {
				t.Fatalf("%s: answer %d of %d: %v", addr.Network(), i, want, err)
			}
			if id, code, _, _, err := wire.DecodeReply(payload); id != 1<<50 || code != 0 || err != nil {
				t.Fatalf("%s: answer %d is %x", addr.Network(), i, payload)
			}
		}
		// What the server has of a ping that was cut in two waits for its rest.
		whole := wire.AppendRequest(nil, 1<<50, ping())
		if cut := sent % one; cut > 0 {
			p.send(whole[cut:])
			if _, err := p.frame(); err != nil {
				t.Fatal(err)
			}
		}
		eventually(t, "the connection is back on its loop", func() bool { return g.s.Lanes() == 0 })
		p.must(ping())
		p.hangUp()
	}
	g.over(64 << 20)
}

// TestLongAnswers: who reads answers of almost a frame each more slowly than they are made
// gets all of them, and keeps what is tied to its connection.
func TestLongAnswers(t *testing.T) {
	const locks, asks = 480, 30
	s := serve(t, loop.Options{})
	ns := named("long")
	pad := string(bytes.Repeat([]byte("p"), 3000))
	owner := ns + string(bytes.Repeat([]byte("o"), 1000))
	meta, err := (&wire.Metadata{Command: string(bytes.Repeat([]byte("c"), 4000))}).Encode()
	if err != nil {
		t.Fatal(err)
	}
	for _, addr := range []net.Addr{s.tcp, s.unix} {
		filler := join(t, s.unix)
		for i := range locks {
			req := write(owner, fmt.Sprintf("%s:/n/%s%d", ns, pad, i))
			req.Meta = meta
			filler.must(req)
		}
		p := joinAs(t, addr, &wire.Hello{Grace: 1})
		p.must(flagged(write(ns+"tied", ns+":/tied"), wire.FlagBind))
		reqs := make([]*wire.Request, asks)
		for i := range reqs {
			reqs[i] = &wire.Request{Op: wire.OpScanLocks, Path: ns + ":/n", Page: 512}
		}
		ids := p.start(append(reqs, ping())...)
		eventually(t, "it leaves something unread", func() bool { return s.Lanes() == 1 })
		for _, id := range ids[:asks] {
			res := p.reply(id)
			if res.Code != wire.OK || res.List == nil || len(res.List.Infos) != locks {
				t.Fatalf("%s: %v", addr.Network(), res.Err())
			}
		}
		p.reply(ids[asks])
		if who, left := holder(filler, ns+":/tied"); who != ns+"tied" || left < soon {
			t.Errorf("%s: the lock is held by %q, %v left", addr.Network(), who, left)
		}
		eventually(t, "the connection is back on its loop", func() bool { return s.Lanes() == 0 })
		p.must(ping())
		p.hangUp()
		filler.must(&wire.Request{Op: wire.OpReleaseAll, Owner: owner})
	}
}

// TestNeverReadListings: short questions with long answers are bounded likewise,
// for a connection, and for many that each stay below their limit.
func TestNeverReadListings(t *testing.T) {
	const all = 16 << 20
	g := besiege(t, loop.Options{Unread: all})
	g.rows = 12 << 20 // paths of 3 KB: a memtable of the databases is 8 MiB, and the one before it half as long
	ns := named("list")
	filler := join(t, g.s.unix)
	var ids []uint64
	pad := string(bytes.Repeat([]byte("p"), 3000))
	for i := range 200 {
		ids = append(ids, filler.start(write(ns, fmt.Sprintf("%s:/n/%s%d", ns, pad, i)))...)
	}
	for _, id := range ids {
		filler.reply(id)
	}
	const size = 200 * 3000 // of one answer
	scan := &wire.Request{Op: wire.OpScanLocks, Path: ns, Page: 512}
	filler.must(scan) // who reads gets it
	var peers []*peer
	for range 40 { // 6 MiB each, below the 8 that one may leave
		p := join(t, g.s.unix)
		reqs := make([]*wire.Request, 10)
		for i := range reqs {
			reqs[i] = scan
		}
		p.start(reqs...)
		peers = append(peers, p)
	}
	// Who reads gets what is below the fair share of one connection. A long answer that comes
	// while others leave too much unread may cost its connection, read or not.
	for range 100 {
		filler.must(ping())
	}
	const others = 2 // the filler and the bystander
	eventually(t, "connections are cut off that leave 16 MiB unread together",
		func() bool { return g.s.Connections() <= others+30 })
	t.Logf("of 40 connections that left %.0f MiB unread, %d were cut off", mib(40*10*size), 40+others-g.s.Connections())
	for _, p := range peers {
		p.hangUp()
	}
	filler.must(&wire.Request{Op: wire.OpReleaseAll, Owner: ns})
	filler.hangUp()
	g.over(12 * all)
}

// TestLongListsInEveryPlace: a client that brings long lists at every place of a batch, one
// after the other, leaves none of their memory behind.
func TestLongListsInEveryPlace(t *testing.T) {
	const places = 200    // a MiB each
	const most = 40 << 20 // memtables of the node's databases, of 8 MiB, come and go meanwhile
	s := serve(t, loop.Options{Loops: 1, InFlight: 1024})
	p := join(t, s.unix)
	alive := &wire.Request{Op: wire.OpIsOwnerAlive, Owner: named("nobody"), Domains: []string{"d:/d"}}
	// a byte each, 40 here
	long := &wire.Request{Op: wire.OpAcquire, Owner: "o", TTLMillis: 1, Locks: make([]wire.LockRequest, 25_000)}
	before := heap()
	for i := places - 1; i >= 0; i-- { // so that none is taken again by a shorter one
		reqs := make([]*wire.Request, 0, places)
		for range i {
			reqs = append(reqs, alive)
		}
		ids := p.start(append(reqs, long)...)
		for _, id := range ids {
			p.reply(id)
		}
	}
	after := settledHeap(before, most)
	t.Logf("%.1f MiB of heap left", mib(after))
	if after > most {
		t.Errorf("%.1f MiB of heap are left behind, want at most %.1f", mib(after), mib(most))
	}
}
