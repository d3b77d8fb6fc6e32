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
		flood(t, p, 30<<20)
		p.hangUp()
	}
	g.over(64 << 20)
}

// flood sends pings and reads nothing, until the server closes the connection. It
// fails if the server takes more than most bytes of them.
func flood(t *testing.T, p *peer, most int) (sent int) {
	t.Helper()
	var burst []byte
	for range 4000 {
		burst = wire.AppendRequest(burst, 1<<50, ping())
	}
	for sent < most {
		p.conn.SetWriteDeadline(time.Now().Add(patience))
		n, err := p.conn.Write(burst)
		sent += n
		if errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("after %d bytes the server neither reads on nor closes", sent)
		}
		if err != nil {
			return sent
		}
	}
	t.Errorf("the server took %d bytes of pings, and nobody read its answers", sent)
	return sent
}

// TestNeverReads: a peer that asks and does not read is cut off at a bounded buffer.
func TestNeverReads(t *testing.T) {
	const outbound = 1 << 20
	g := besiege(t, loop.Options{Outbound: outbound})
	for _, addr := range []net.Addr{g.s.tcp, g.s.unix} {
		p := join(t, addr)
		sent := flood(t, p, 64<<20)
		t.Logf("%s: cut off after %.1f MiB of pings", addr.Network(), mib(int64(sent)))
		p.hangUp()
	}
	g.over(32 << 20)
}

// TestNeverReadListings: short questions with long answers are bounded likewise,
// for a connection, and for many that each stay below their limit.
func TestNeverReadListings(t *testing.T) {
	const all = 16 << 20
	g := besiege(t, loop.Options{Unread: all})
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
	eventually(t, "connections are cut off that leave 16 MiB unread together", func() bool { return g.s.Connections() <= others+30 })
	t.Logf("of 40 connections that left %.0f MiB unread, %d were cut off", mib(40*10*size), 40+others-g.s.Connections())
	for _, p := range peers {
		p.hangUp()
	}
	filler.must(&wire.Request{Op: wire.OpReleaseAll, Owner: ns})
	filler.hangUp()
	g.over(12 * all)
}
