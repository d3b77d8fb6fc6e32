package loop_test

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/loop"
	"github.com/pathlockd/pathlockd/wire"
)

// vectorFrames are the requests of wire's vectors, good and bad.
func vectorFrames(t testing.TB) (frames [][]byte) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "wire", "testdata", "vectors.json"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Vectors []struct{ Direction, Hex string }
	}
	if err := json.Unmarshal(b, &file); err != nil {
		t.Fatal(err)
	}
	for _, v := range file.Vectors {
		if frame, err := hex.DecodeString(v.Hex); err == nil && v.Direction == "request" {
			frames = append(frames, frame)
		}
	}
	if len(frames) < 100 {
		t.Fatalf("%d requests among the vectors", len(frames))
	}
	return frames
}

var greeting = wire.AppendRequest(nil, 1<<40,
	&wire.Request{Op: wire.OpHello, Hello: &wire.Hello{MinVersion: 1, MaxVersion: 1}})

// said is what a stream of a client's bytes asks: how often each id, and where it
// ends if it cannot be read on.
func said(stream []byte) (asked map[uint64]int, broken bool) {
	asked = make(map[uint64]int)
	var req wire.Request
	for {
		payload, size, _, err := wire.NextFrame(stream, wire.MaxFrameBytes)
		if err != nil {
			return asked, true
		}
		if size == 0 {
			return asked, false
		}
		id, _, _, _ := wire.DecodeRequest(payload, &req)
		if id == 0 {
			return asked, true
		}
		asked[id]++
		stream = stream[size:]
	}
}

// converse sends a stream to a server in pieces, and checks all that it says: whole
// frames; no answer to what was not asked, and none twice; a goodbye at the end of a
// stream that breaks off, and nothing behind it.
func converse(t *testing.T, addr net.Addr, stream, cuts []byte, wait bool) {
	c, err := net.Dial(addr.Network(), addr.String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(patience))
	asked, broken := said(stream)
	var sending sync.WaitGroup
	sending.Go(func() {
		for rest := stream; len(rest) > 0; {
			n := len(rest)
			if len(cuts) > 0 {
				n, cuts = min(1+int(cuts[0]), n), cuts[1:]
			}
			if _, err := c.Write(rest[:n]); err != nil {
				return // the server has closed, and says why
			}
			rest = rest[n:]
		}
		if !broken && !wait {
			c.(*net.UnixConn).CloseWrite()
		}
	})
	defer sending.Wait()
	left := 0
	for _, n := range asked {
		left += n
	}
	var in []byte
	var bye *wire.Error
	piece := make([]byte, 4096)
	for !wait || broken || left > 0 {
		payload, size, _, err := wire.NextFrame(in, wire.MaxFrameBytes)
		if err != nil {
			t.Fatalf("the server's stream: %v", err)
		}
		if size == 0 {
			n, err := c.Read(piece)
			if in = append(in, piece[:n]...); err == nil || n > 0 {
				continue
			}
			if errors.Is(err, os.ErrDeadlineExceeded) {
				t.Fatalf("no end after %d bytes, of %x", len(stream), stream)
			}
			break
		}
		in = in[size:]
		if bye != nil {
			t.Fatalf("%x follows the goodbye", payload)
		}
		id, code, r, n, err := wire.DecodeReply(payload)
		switch {
		case err != nil:
			t.Fatalf("%x: %v", payload, err)
		case id != 0:
			if asked[id]--; asked[id] < 0 {
				t.Fatalf("request %d was answered more often than asked", id)
			}
			left--
		case wire.PushKind(code) == wire.PushGoodbye:
			if bye, err = wire.DecodeGoodbye(&r, n); err != nil || bye.Code == wire.OK || bye.Message == "" {
				t.Fatalf("goodbye %x: %v", payload, err)
			}
		}
	}
	if broken && (bye == nil || bye.Code != wire.InvalidArgument) {
		t.Fatalf("goodbye %v to a stream that cannot be read on: %x", bye, stream)
	}
	if !broken && bye != nil {
		t.Fatalf("goodbye %v to a good stream: %x", bye, stream)
	}
}

// FuzzSession feeds a session any bytes, cut in any way, and watches another one on
// the same server.
func FuzzSession(f *testing.F) {
	frames := vectorFrames(f)
	for i, frame := range frames {
		if len(frame) > 2000 {
			continue
		}
		f.Add(append(bytes.Clone(greeting), frame...), []byte{byte(i), 3, 200})
		if i%5 == 0 && i > 0 {
			f.Add(append(bytes.Clone(frames[i-1]), frame...), []byte{})
		}
	}
	f.Add(append(bytes.Clone(greeting), 0, 0, 0, 0), []byte{})
	f.Add(binary.BigEndian.AppendUint32(nil, 1<<31), []byte{0, 0, 0})
	s := serve(f, loop.Options{Waiting: 64})
	other := join(f, s.unix)
	f.Fuzz(func(t *testing.T, stream, cuts []byte) {
		other.t = t
		converse(t, s.unix, stream, cuts, false)
		id := other.start(ping())[0]
		if res := other.reply(id); res.Code != wire.OK {
			t.Fatalf("another client's ping: %v", res.Err())
		}
		other.order = other.order[:0]
	})
}

// TestEverySplit sends a session's frames cut in two at every place, and a byte at a
// time: all is answered, as if they had come at once.
func TestEverySplit(t *testing.T) {
	s := serve(t, loop.Options{})
	ns := named("split")
	p := &peer{t: t, ops: map[uint64]wire.Op{}}
	frames, _ := p.encode(ping(), write(ns, ns+":/n/x"), describe(ns+":/n/x"), release(ns, ns+":/n/x"), subscribe(ns),
		write("", ""))
	stream := append(bytes.Clone(greeting), frames...)
	for cut := 1; cut < len(stream); cut++ {
		converse(t, s.unix, stream, []byte{byte(cut - 1)}, true)
	}
	converse(t, s.unix, stream, make([]byte, len(stream)), true)
	// A broken end, too.
	stream = append(bytes.Clone(greeting), wire.AppendRequest(nil, 1, ping())...)
	stream = append(stream, 0, 0, 0, 0)
	for cut := 1; cut < len(stream); cut++ {
		converse(t, s.unix, stream, []byte{byte(cut - 1)}, true)
	}
}
