package compat_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc/codes"

	"github.com/pathlockd/pathlockd/compat"
	pb "github.com/pathlockd/pathlockd/compat/pathlockdv1"
)

// What clients that mean harm, or are broken, can do to the server and to others.

// bystander asks all the time, and tells how long its slowest answer took.
type bystander struct {
	stop chan struct{}
	done sync.WaitGroup

	asked   int
	slowest time.Duration
}

func watch(t *testing.T, addr string) *bystander {
	c, _ := client(t, addr)
	b := &bystander{stop: make(chan struct{})}
	ctx := within(t)
	b.done.Go(func() {
		for {
			select {
			case <-b.stop:
				return
			default:
			}
			began := time.Now()
			if _, err := c.IsOwnerAlive(ctx, &pb.IsOwnerAliveRequest{OwnerId: "bystander"}); err != nil {
				t.Errorf("a bystander was refused: %v", err)
				return
			}
			b.asked++
			b.slowest = max(b.slowest, time.Since(began))
		}
	})
	return b
}

func (b *bystander) end() {
	close(b.stop)
	b.done.Wait()
}

// heap is what is in use after a collection, bytes.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse)
}

// besieged runs an attack beside a bystander and holds the memory it costs against a
// bound.
func besieged(t *testing.T, addr string, most int64, attack func() int) {
	t.Helper()
	by := watch(t, addr)
	before := heap()
	n := attack()
	grew := heap() - before
	by.end()
	t.Logf("%d times; memory grew by %.1f MiB (at most %d); %d answers to a bystander, the slowest after %v",
		n, float64(grew)/(1<<20), most>>20, by.asked, by.slowest.Round(time.Millisecond))
	if grew > most {
		t.Errorf("memory grew by %d bytes, at most %d are bearable", grew, most)
	}
	if by.asked == 0 || by.slowest > 60*time.Second {
		t.Errorf("a bystander had %d answers, the slowest after %v", by.asked, by.slowest)
	}
}

// rawConn speaks frames.
type rawConn struct {
	net.Conn
	*http2.Framer
	block bytes.Buffer
	enc   *hpack.Encoder
	next  uint32
}

func dialRaw(t *testing.T, addr string) *rawConn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	r := &rawConn{Conn: c, Framer: http2.NewFramer(c, c), next: 1}
	r.enc = hpack.NewEncoder(&r.block)
	io.WriteString(c, http2.ClientPreface)
	r.WriteSettings()
	return r
}

// open starts a call and answers its stream.
func (r *rawConn) open(method string, extra ...hpack.HeaderField) (uint32, error) {
	r.block.Reset()
	for _, f := range append([]hpack.HeaderField{
		{Name: ":method", Value: "POST"}, {Name: ":scheme", Value: "http"}, {Name: ":authority", Value: "x"},
		{Name: ":path", Value: "/pathlockd.v1.PathLock/" + method}, {Name: "content-type", Value: "application/grpc"},
		{Name: "te", Value: "trailers"},
	}, extra...) {
		r.enc.WriteField(f)
	}
	id := r.next
	r.next += 2
	return id, r.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: r.block.Bytes(), EndHeaders: true})
}

// swallow reads and drops what the server sends, until it closes.
func (r *rawConn) swallow() <-chan struct{} {
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		for {
			if _, err := r.ReadFrame(); err != nil {
				return
			}
		}
	}()
	return gone
}

// TestUnfinishedMessages: connections that send all but the end of many messages are
// closed once they hold too much together.
func TestUnfinishedMessages(t *testing.T) {
	const limit = 8 << 20
	_, addr := serve(t, compat.ServerOptions{Unfinished: limit}, 0)
	besieged(t, addr, 4*limit, func() int {
		closed := make(chan struct{}, 8)
		half := make([]byte, 16<<10)
		for range 8 {
			r := dialRaw(t, addr)
			gone := r.swallow()
			go func() { <-gone; closed <- struct{}{} }()
			for range 64 { // 64 KiB each: what a call may send before it is its turn
				id, err := r.open("Acquire")
				prefix := binary.BigEndian.AppendUint32([]byte{0}, 4<<20-1)
				if err == nil {
					err = r.WriteData(id, false, prefix)
				}
				for range 3 {
					if err == nil {
						err = r.WriteData(id, false, half)
					}
				}
				if err != nil {
					break // closed
				}
			}
		}
		select {
		case <-closed:
		case <-time.After(90 * time.Second):
			t.Error("no connection was closed")
		}
		return 8 * 64
	})
}

// TestRapidReset: calls that are begun and reset at once (CVE-2023-44487).
func TestRapidReset(t *testing.T) {
	_, addr := serve(t, compat.ServerOptions{}, 0)
	besieged(t, addr, 32<<20, func() int {
		n := 0
		for range 4 {
			r := dialRaw(t, addr)
			gone := r.swallow()
			for range 5000 {
				id, err := r.open("Acquire")
				if err == nil {
					err = r.WriteRSTStream(id, http2.ErrCodeCancel)
				}
				if err != nil {
					break
				}
				n++
			}
			r.Close()
			<-gone
		}
		return n
	})
}

// TestStreamFlood: more calls than a connection may have are refused; those of
// others are answered.
func TestStreamFlood(t *testing.T) {
	_, addr := serve(t, compat.ServerOptions{}, 0)
	besieged(t, addr, 64<<20, func() int {
		r := dialRaw(t, addr)
		gone := r.swallow()
		n := 0
		for range 20_000 {
			if _, err := r.open("Acquire"); err != nil {
				break
			}
			n++
		}
		r.Close()
		<-gone
		return n
	})
}

// TestHeaderFlood: headers that never end, and headers that are too many.
func TestHeaderFlood(t *testing.T) {
	_, addr := serve(t, compat.ServerOptions{}, 0)
	besieged(t, addr, 32<<20, func() int {
		n := 0
		for range 4 {
			r := dialRaw(t, addr)
			gone := r.swallow()
			r.block.Reset()
			r.enc.WriteField(hpack.HeaderField{Name: ":method", Value: "POST"})
			err := r.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: r.block.Bytes()})
			for range 2000 {
				if err != nil {
					break
				}
				r.block.Reset()
				r.enc.WriteField(hpack.HeaderField{Name: "x", Value: string(make([]byte, 8<<10)), Sensitive: true})
				err = r.WriteContinuation(1, false, r.block.Bytes())
				n++
			}
			if err == nil {
				t.Error("a connection that sends headers without end was not closed")
			}
			r.Close()
			<-gone
		}
		return n
	})
}

// TestHalfOpenHandshakes: connections that never say what they speak are closed in
// time, and cost little until then.
func TestHalfOpenHandshakes(t *testing.T) {
	_, addr := serve(t, compat.ServerOptions{}, 0)
	besieged(t, addr, 64<<20, func() int {
		const n = 500
		for i := range n {
			c, err := net.Dial("tcp", addr)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { c.Close() })
			if i%2 == 0 {
				io.WriteString(c, http2.ClientPreface[:10])
			}
		}
		return n
	})
}

// TestSilentConnections: a server that stops does not wait for connections that have
// not said anything.
func TestSilentConnections(t *testing.T) {
	srv := compat.NewServer(compat.NewService(shared.get(t), compat.Options{}), compat.ServerOptions{Log: quiet})
	addr, err := srv.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c, _ := client(t, addr)
	for _, said := range []string{"", http2.ClientPreface[:10]} {
		silent, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer silent.Close()
		io.WriteString(silent, said)
	}
	if _, err := c.Health(within(t), &pb.HealthRequest{}); err != nil { // those before were accepted
		t.Fatal(err)
	}
	began := time.Now()
	srv.Drain(within(t))
	if took := time.Since(began); took >= 9*time.Second { // silent ones are given 10 s
		t.Errorf("the drain took %v", took)
	}
}

// TestUnfinishedStreams: streams that are not ended are refused more chunks once all
// of them have brought too much, and what they brought is let go with them.
func TestUnfinishedStreams(t *testing.T) {
	_, addr := serve(t, compat.ServerOptions{}, 0)
	c, _ := client(t, addr)
	chunk := acquire("a")
	for i := range 700 {
		chunk.Requests = append(chunk.Requests,
			&pb.LockRequest{Path: fmt.Sprintf("grpc:/streams/%d/%s", i, strings.Repeat("x/", 500)+"x")})
	}
	besieged(t, addr, 512<<20, func() int {
		const streams, chunks = 32, 5
		ctx, cancel := context.WithCancel(within(t))
		defer cancel()
		refused := make(chan error, streams)
		for range streams {
			go func() {
				stream, err := c.AcquireStream(ctx)
				for range chunks {
					if err == nil {
						err = stream.Send(chunk)
					}
				}
				if err == nil || errors.Is(err, io.EOF) {
					err = stream.RecvMsg(new(pb.AcquireResponse)) // the stream is not ended: only a refusal can come
				}
				refused <- err
			}()
		}
		want(t, <-refused, codes.ResourceExhausted, "67108864")
		return streams
	})
	small := acquire("a", "grpc:/streams/y")
	poll(t, func() bool {
		stream, err := c.AcquireStream(within(t))
		if err != nil {
			t.Fatal(err)
		}
		if err := stream.Send(small); err != nil && !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
		res, err := stream.CloseAndRecv()
		return err == nil && res.Status == pb.AcquireStatus_ACQUIRE_STATUS_OK
	}, func() string { return "streams are refused for good" })
}
