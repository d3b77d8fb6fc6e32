package events

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/groups/codec"
	"github.com/pathlockd/pathlockd/groups/mesh"
	"github.com/pathlockd/pathlockd/wire"
)

// TestToldFrames: what one node tells another is read as it was written, in frames that are not too long; and a frame
// that is cut short is an error.
func TestToldFrames(t *testing.T) {
	h, far := New(10), &fedPeer{}
	h.FeedLeases(far, 2)
	h.Stream(2).Feeds = append(h.Stream(2).Feeds, far, &fedPeer{t: t})
	var told []engine.Told
	for i := range 3000 {
		told = append(told, engine.Told{Session: engine.Session{byte(i)}, LeaseEvent: wire.LeaseEvent{
			Kind: wire.EventExpired, Owner: fmt.Sprint("o", i), Namespace: "h:/a",
			Acquires: []uint64{uint64(i), 1 << 63},
		}})
	}
	many := make([]uint64, wire.MaxLeaseAcquires)
	for i := range told {
		told[i].Acquires = append(told[i].Acquires, many[:i%len(many)]...)
	}
	h.TellFurther(2, told, 0)
	to := New(10)
	var got, missed int
	for i := range 256 {
		to.Leases.Add(engine.Session{byte(i)}, func(e *wire.LeaseEvent) {
			if e.Kind == 0 {
				missed++
				return
			}
			n := 0
			if _, err := fmt.Sscanf(e.Owner, "o%d", &n); err != nil || n%256 != i || !slices.Equal(e.Acquires,
				told[n].Acquires) ||
				e.Namespace != "h:/a" || e.Kind != wire.EventExpired {
				t.Errorf("session %d was told %+v", i, e)
			}
			got++
		})
	}
	for _, frame := range far.frames {
		if len(frame) > 2*maxLeaseFrame {
			t.Errorf("a frame has %d bytes", len(frame))
		}
		r := codec.Reader{Buf: frame[1:]}
		if frame[0] != FrameLeases || r.Uvarint() != 2 {
			t.Fatalf("frame %x", frame[:3])
		}
		to.LeaseFrame(&r)
		if r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	if got != len(told) || missed != 256 || len(far.frames) < 3 {
		t.Errorf("%d of %d were told in %d frames, and %d that they may have missed some", got, len(told),
			len(far.frames),
			missed)
	}
	short := codec.Reader{Buf: far.frames[1][2 : len(far.frames[1])-3]}
	if to.LeaseFrame(&short); short.Err == nil {
		t.Error("a frame that is cut short is taken")
	}
}

// fedPeer is a node that is fed, as its source sees it. One with a test takes no frames of leases.
type fedPeer struct {
	t      *testing.T
	frames [][]byte
}

func (p *fedPeer) Send(frame []byte) bool {
	if p.t != nil {
		p.t.Errorf("a node that did not ask for it is sent %x", frame[:1])
	}
	p.frames = append(p.frames, slices.Clone(frame))
	return true
}

func (p *fedPeer) Unsent() int { return 0 }

func (p *fedPeer) Close(error) {}

// TestMissedWhileSomeLeave: whoever stays is told that he may have missed some, also when others leave in the meantime.
func TestMissedWhileSomeLeave(t *testing.T) {
	const many = 4 * atOnce
	var (
		h       = New(10)
		told    [many]int
		leaving sync.Once
		stops   []func()
		left    = make(chan struct{})
	)
	for i := range many {
		stops = append(stops, h.Leases.Add(engine.Session{byte(i), byte(i >> 8)}, func(*wire.LeaseEvent) {
			told[i]++
			leaving.Do(func() { // the first hundred, once the lock is let go
				go func() {
					defer close(left)
					for _, stop := range stops[:100] {
						stop()
					}
				}()
			})
			time.Sleep(20 * time.Microsecond) // who waits for the lock for more than a millisecond is next
		}))
	}
	h.Leases.missed()
	<-left
	for i, n := range told[100:] {
		if n == 0 {
			t.Fatalf("connection %d of %d is not told", 100+i, many)
		}
	}
}

// TestToldOfMany: of an entry that ends the leases of very many a node that is fed is told as much as a way takes,
// and then that this was not all.
func TestToldOfMany(t *testing.T) {
	const many = 100_000
	h, far := New(10), &fedPeer{}
	h.FeedLeases(far, 2)
	h.Stream(2).Feeds = append(h.Stream(2).Feeds, far)
	far.frames = nil
	long := strings.Repeat("o", 700)
	told := make([]engine.Told, many)
	for i := range told {
		told[i] = engine.Told{Session: engine.Session{1}, LeaseEvent: wire.LeaseEvent{
			Kind: wire.EventKilled, Owner: long, Namespace: "h:/a", Acquires: []uint64{uint64(i)},
		}}
	}
	heard := 0
	h.Leases.Add(engine.Session{1}, func(*wire.LeaseEvent) { heard++ })
	h.TellFurther(2, told, 0)
	bytes := 0
	for _, frame := range far.frames {
		bytes += len(frame)
	}
	if last := far.frames[len(far.frames)-1]; bytes > mesh.MaxFrameBytes || len(last) != 2 {
		t.Errorf("%d bytes are sent in %d frames, the last of which has %d", bytes, len(far.frames), len(last))
	}
	if heard != many {
		t.Errorf("%d of %d were told here", heard, many)
	}
}

// TestToldSomeAtATime: whoever comes while a node tells of many leases does not wait until it has told of all.
func TestToldSomeAtATime(t *testing.T) {
	var (
		h        = New(10)
		told     = make([]engine.Told, 4*atOnce)
		heard    atomic.Int64
		coming   sync.Once
		came     = make(chan int64)
		patience = 20 * time.Microsecond // of which many make a millisecond: who waits for that long for a lock is next
	)
	h.Leases.Add(engine.Session{}, func(*wire.LeaseEvent) {
		heard.Add(1)
		coming.Do(func() {
			go func() {
				h.Leases.Add(engine.Session{1}, nil)
				came <- heard.Load()
			}()
		})
		time.Sleep(patience)
	})
	h.TellFurther(2, told, 0)
	if n := <-came; n == int64(len(told)) {
		t.Errorf("it came when all %d had been told", n)
	}
}
