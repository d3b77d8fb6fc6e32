package pathlockd

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestFlappingGrowsNothing: a way to the server breaks again and again, each time after the hello, for minutes, as it
// does beside a balancer that is ill. The program asks nothing. What the client asks by itself on the next connection
// does not grow with it.
func TestFlappingGrowsNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		_, p := f.client()
		counts := func(p *peer) (n int) {
			p.topology = nil
			for {
				p.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
				_, err := p.read()
				var late net.Error
				if errors.As(err, &late) && late.Timeout() {
					return n
				}
				if err != nil {
					t.Fatal(err)
				}
				n++
			}
		}
		first := counts(p)
		last := first
		for range 200 {
			p.Close()
			p = f.accept()
			p.topology = nil
			p.welcome(testLimits)
			last = counts(p)
		}
		if last > first+5 {
			t.Errorf("on the first connection it asked %d requests, on the last %d", first, last)
		}
	})
}

// TestSendWithoutRoomGrowsNothing: a program sends a batch again and again, each time for a moment, while the backlog
// is full and the server is away. Nothing of that stays.
func TestSendWithoutRoomGrowsNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, p := f.client(WithBacklog(1))
		pass(time.Second)
		p.Close()
		pass(10 * time.Millisecond)
		c.Go(&wire.Request{Op: wire.OpHealth}, nil)
		b := c.Batch()
		must(t, b.Add(&wire.Request{Op: wire.OpHealth}, nil))
		for range 1000 {
			ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
			if err := b.Send(ctx); err == nil {
				t.Fatal("there is room")
			}
			cancel()
		}
		s := &c.home.session
		s.mu.Lock()
		defer s.mu.Unlock()
		if n := len(s.mu.room); n > 1 {
			t.Errorf("%d wait for room, and nobody does", n)
		}
	})
}
