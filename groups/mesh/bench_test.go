package mesh

import (
	"crypto/tls"
	"fmt"
	"io"
	"runtime"
	"sync"
	"testing"
)

// BenchmarkPingPong is a frame of 100 bytes there and back, one at a time.
func BenchmarkPingPong(b *testing.B) {
	back := make(chan struct{}, 1)
	one := open(b, 1, func(c *Config) { c.Frame = func(*Conn, []byte) { back <- struct{}{} } })
	other := open(b, 2, answering)
	c := one.to(b, other)
	f := pattern(1, 100)
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		c.Send(f)
		<-back
	}
}

// BenchmarkPingPongTLS is the same over nothing but TLS: the floor.
func BenchmarkPingPongTLS(b *testing.B) {
	conf := selfSigned(b)
	l, err := tls.Listen("tcp", "127.0.0.1:0", conf)
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		f := make([]byte, 104)
		for {
			if _, err := io.ReadFull(c, f); err != nil {
				return
			}
			if _, err := c.Write(f); err != nil {
				return
			}
		}
	}()
	c, err := tls.Dial("tcp", l.Addr().String(), conf)
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	f := make([]byte, 104)
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		if _, err := c.Write(f); err != nil {
			b.Fatal(err)
		}
		if _, err := io.ReadFull(c, f); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkStream is frames one way as fast as they go, from some senders.
func BenchmarkStream(b *testing.B) {
	for _, bytes := range []int{100, 4096, 1 << 20} {
		for _, senders := range []int{1, 8} {
			b.Run(fmt.Sprintf("bytes=%d/senders=%d", bytes, senders),
				func(b *testing.B) { benchStream(b, bytes, senders) })
		}
	}
}

func benchStream(b *testing.B, bytes, senders int) {
	done := make(chan struct{})
	n := 0
	other := open(b, 2, func(c *Config) {
		c.Frame = func(*Conn, []byte) {
			if n++; n == b.N/senders*senders {
				close(done)
			}
		}
	})
	c := open(b, 1).to(b, other)
	f := pattern(1, bytes)
	b.SetBytes(int64(bytes))
	b.ReportAllocs()
	b.ResetTimer()
	if b.N < senders {
		return
	}
	var all sync.WaitGroup
	for range senders {
		all.Go(func() {
			for range b.N / senders {
				for c.backlog() > maxBacklogBytes/8 {
					runtime.Gosched()
				}
				if !c.Send(f) {
					b.Error(c.reason())
					return
				}
			}
		})
	}
	all.Wait()
	<-done
}

func (c *Conn) backlog() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.queue.unsent
}
