package loop_test

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"net"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/loop"
	"github.com/pathlockd/pathlockd/wire"
)

// TestGarbage: random bytes are answered with errors or a goodbye, whatever they
// look like.
func TestGarbage(t *testing.T) {
	g := besiege(t, loop.Options{})
	rnd := rand.New(rand.NewPCG(1, 2))
	good, _ := (&peer{ops: map[uint64]wire.Op{}}).encode(
		&wire.Request{Op: wire.OpHello, Hello: &wire.Hello{MinVersion: 1, MaxVersion: 1}}, write("g", "g:/n/x"),
		describe("g:/n/x"))
	goodbyes := 0
	for i := range 400 {
		b := make([]byte, 1+rnd.IntN(4000))
		for j := range b {
			b[j] = byte(rnd.Uint32())
		}
		switch i % 4 {
		case 1: // a frame of garbage
			b = append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...)
		case 2: // good frames with some bytes changed
			b = bytes.Clone(good)
			for range 1 + rnd.IntN(4) {
				b[rnd.IntN(len(b))] ^= 1 << rnd.IntN(8)
			}
		case 3: // garbage behind good frames
			b = append(bytes.Clone(good), b...)
		}
		p := dial(t, g.s.unix)
		p.send(b)
		p.conn.(*net.UnixConn).CloseWrite()
		for {
			payload, err := p.frame()
			if err != nil {
				break
			}
			// Every frame is whole, and a reply or push that decodes.
			id, code, _, _, err := wire.DecodeReply(payload)
			if err != nil {
				t.Fatalf("%x is answered with %x: %v", b, payload, err)
			}
			if id == 0 && wire.PushKind(code) == wire.PushGoodbye {
				goodbyes++
			}
		}
		p.hangUp()
	}
	if goodbyes < 100 {
		t.Errorf("%d of 400 garbled connections were told goodbye", goodbyes)
	}
	g.over(64 << 20)
}

func TestBadFrames(t *testing.T) {
	g := besiege(t, loop.Options{})
	for _, c := range []struct {
		name string
		b    []byte
		says string
	}{
		{"length 0", []byte{0, 0, 0, 0}, "length 0"},
		{"length of one too many", binary.BigEndian.AppendUint32(nil, wire.MaxFrameBytes+1), "longer than the limit"},
		{"length of 4 GiB", []byte{0xff, 0xff, 0xff, 0xff, 1, 2, 3}, "longer than the limit"},
		{"no array", []byte{0, 0, 0, 1, 7}, "want a msgpack array"},
		{"an HTTP request", []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), "longer than the limit"},
		{"a TLS hello", []byte{0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc}, "longer than the limit"},
		{"id 0", []byte{0, 0, 0, 3, 0x92, 0, 2}, "id from 1"},
	} {
		for _, addr := range []net.Addr{g.s.tcp, g.s.unix} {
			for _, first := range []bool{true, false} {
				p := dial(t, addr)
				if !first {
					p.greet(&wire.Hello{})
					ids := p.start(ping()) // what came before is answered
					p.reply(ids[0])
				}
				p.send(c.b)
				if bye := p.ended(); bye == nil || bye.Code != wire.InvalidArgument ||
					!bytes.Contains([]byte(bye.Message), []byte(c.says)) {
					t.Errorf("%s over %s: goodbye %v, want %q", c.name, addr.Network(), bye, c.says)
				}
			}
		}
	}
	// What came whole in front of the bad frame is still answered.
	p := join(t, g.s.unix)
	frames, ids := p.encode(ping(), ping())
	p.send(append(frames, 0, 0, 0, 0))
	for _, id := range ids {
		p.reply(id)
	}
	p.endedWith(wire.InvalidArgument, "length 0")
	// What came behind it is not carried out.
	ns := named("behind")
	p = join(t, g.s.unix)
	frames, _ = p.encode(write(ns, ns+":/n/x"))
	p.send(append([]byte{0, 0, 0, 1, 7}, frames...))
	p.endedWith(wire.InvalidArgument, "want a msgpack array")
	p = join(t, g.s.unix)
	p.must(write("another", ns+":/n/x"))
	p.hangUp()
	g.over(32 << 20)
}

// TestTruncated: connections that end in the middle of a frame leave nothing.
func TestTruncated(t *testing.T) {
	g := besiege(t, loop.Options{})
	frame := wire.AppendRequest(nil, 1, &wire.Request{Op: wire.OpHello, Hello: &wire.Hello{MinVersion: 1, MaxVersion: 1,
		Client: "truncated"}})
	for _, addr := range []net.Addr{g.s.tcp, g.s.unix} {
		for cut := range len(frame) {
			p := dial(t, addr)
			p.send(frame[:cut])
			p.hangUp()
		}
	}
	// And of long ones.
	long := append(binary.BigEndian.AppendUint32(nil, wire.MaxFrameBytes), make([]byte, 3<<20)...)
	for range 8 {
		p := join(t, g.s.unix)
		p.send(long)
		p.hangUp()
	}
	g.over(64 << 20)
}

// TestLongFrames: frames announced by many and never finished take memory only for
// what came, and no more than the server's limit in all; a short one still goes.
func TestLongFrames(t *testing.T) {
	const limit = 16 << 20
	g := besiege(t, loop.Options{Inbound: limit})
	var peers []*peer
	for range 100 { // announced alone
		p := join(t, g.s.unix)
		p.send(binary.BigEndian.AppendUint32(nil, wire.MaxFrameBytes))
		peers = append(peers, p)
	}
	for range 4 { // by the time these are answered, those have been read, on every loop
		p := join(t, g.s.unix)
		p.must(ping())
		p.hangUp()
	}
	eventually(t, "only they have gone", func() bool { return g.s.Connections() <= 101 })
	if got := g.s.Connections(); got != 101 {
		t.Errorf("%d of 100 connections are left after the announcements alone", got-1)
	}
	turned := 0
	part := make([]byte, 3<<20)
	for _, p := range peers {
		p.conn.SetWriteDeadline(time.Now().Add(patience))
		if _, err := p.conn.Write(part); err != nil {
			turned++ // while it was writing
			continue
		}
	}
	for _, p := range peers[90:] {
		if bye := p.ended(); bye != nil && bye.Code == wire.ResourceExhausted {
			turned++
		}
	}
	if turned < 10 {
		t.Errorf("%d connections were turned away, of 300 MiB over a limit of 16", turned)
	}
	slow := join(t, g.s.tcp)
	frames, ids := slow.encode(ping())
	slow.send(frames[:5])
	slow.send(frames[5:])
	slow.reply(ids[0])
	for _, p := range append(peers, slow) {
		p.hangUp()
	}
	// What they took is free again.
	eventually(t, "they are gone", func() bool { return g.s.Connections() == 1 })
	p := join(t, g.s.unix)
	frame, id := padded(p, ping(), 2<<20)
	p.send(frame)
	p.reply(id)
	p.hangUp()
	g.over(6 * limit)
}

// TestLongFrame: the longest frame there may be is taken, and answered.
func TestLongFrame(t *testing.T) {
	s := serve(t, loop.Options{})
	for _, addr := range []net.Addr{s.tcp, s.unix} {
		p := join(t, addr)
		p.last++
		p.ops[p.last] = wire.OpPing
		payload := wire.AppendUint(wire.AppendUint(wire.AppendArray(nil, 3), p.last), uint64(wire.OpPing))
		payload = wire.AppendBin(payload, make([]byte, wire.MaxFrameBytes-len(payload)-5))
		if len(payload) != wire.MaxFrameBytes {
			t.Fatalf("payload of %d bytes", len(payload))
		}
		p.send(append(binary.BigEndian.AppendUint32(nil, uint32(len(payload))), payload...))
		if res := p.reply(p.last); res.Code != wire.OK {
			t.Errorf("ping of %d bytes: %v", len(payload), res.Err())
		}
		p.must(ping())
	}
}
