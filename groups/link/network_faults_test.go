package link

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/lni/dragonboat/v4/raftpb"
)

// TestWeatherRepeats: the fates of one way are a function of the seed, whatever happens
// on other ways; another seed has others.
func TestWeatherRepeats(t *testing.T) {
	fates := func(seed uint64, noise bool) (all []Fate) {
		w := NewNetworkFaults(seed)
		w.Set(Any, Any, Rule{Drop: 0.2, Cut: 0.1, Duplicate: 0.3, Delay: 0.5, DelayMin: time.Millisecond,
			DelayMax: time.Second})
		for range 500 {
			if noise {
				w.Outgoing(Passage{From: "b", To: "a", Kind: Messages})
				w.Outgoing(Passage{From: "a", To: "b", Kind: Snapshots})
			}
			all = append(all, w.Outgoing(Passage{From: "a", To: "b", Kind: Messages}))
		}
		return all
	}
	differ := func(x, y []Fate) (n int) {
		for i := range x {
			if x[i] != y[i] {
				n++
			}
		}
		return n
	}
	if n := differ(fates(1, false), fates(1, true)); n != 0 {
		t.Errorf("%d fates of 500 changed with the other ways' traffic", n)
	}
	if n := differ(fates(1, false), fates(2, false)); n < 100 {
		t.Errorf("only %d fates of 500 changed with the seed", n)
	}
	var drop, cut, late, twice int
	for _, f := range fates(3, false) {
		switch {
		case f.Drop:
			drop++
		case f.Cut:
			cut++
		}
		if f.Delay > 0 {
			late++
			if f.Delay < time.Millisecond || f.Delay > time.Second {
				t.Errorf("delay %s", f.Delay)
			}
		}
		twice += f.Copies
	}
	// 500 draws: 100, 40, 180 and 108 are expected.
	if drop < 60 || drop > 140 || cut < 15 || cut > 70 || late < 120 || late > 240 || twice < 60 || twice > 160 {
		t.Errorf("drop %d, cut %d, late %d, twice %d of 500", drop, cut, late, twice)
	}
}

// TestWeatherRules: the most exact rule counts.
func TestWeatherRules(t *testing.T) {
	w := NewNetworkFaults(1)
	drops := func(from, to string) bool { return w.Outgoing(Passage{From: from, To: to, Kind: Messages}).Drop }
	w.Set(Any, Any, Rule{Block: true})
	w.Set(Any, "b", Rule{})
	w.Set("a", Any, Rule{Block: true})
	w.Set("a", "c", Rule{})
	for _, c := range []struct {
		from, to string
		drop     bool
	}{{"x", "y", true}, {"x", "b", false}, {"a", "b", true}, {"a", "c", false}, {"c", "a", true}} {
		if drops(c.from, c.to) != c.drop {
			t.Errorf("%s to %s: dropped is not %v", c.from, c.to, c.drop)
		}
	}
	w.Clear()
	w.Partition([]string{"a"}, []string{"b", "c"})
	if !drops("a", "b") || !drops("b", "a") || !drops("a", "c") || !drops("c", "a") || drops("b", "c") {
		t.Error("a is not cut off from b and c alone")
	}
	w.Clear()
	if drops("a", "b") {
		t.Error("faults after Clear")
	}
	if n := w.Sent(Messages); n != 11 {
		t.Errorf("%d passages are counted, there were 11", n)
	}
}

func pair(t *testing.T, w *NetworkFaults) (*end, *end) {
	faults := func(c *Config) { c.Faults = w }
	return open(t, 1, faults), open(t, 2, faults)
}

// TestBlockOneWay: what is blocked does not arrive while the connection stays; the other
// way is as always; after Clear all is well. No new connection is made meanwhile.
func TestBlockOneWay(t *testing.T) {
	w := NewNetworkFaults(1)
	a, b := pair(t, w)
	there, back := a.to(t, b), b.to(t, a)
	w.Set("node-1", "node-2", Rule{Block: true})
	for i := range 10 {
		if err := there.SendMessageBatch(batch(i, 10)); err != nil {
			t.Fatal(err)
		}
	}
	if err := back.SendMessageBatch(batch(1, 10)); err != nil {
		t.Fatal(err)
	}
	within(t, "a batch of the other way", a.batches)
	if _, err := a.GetConnection(context.Background(), b.link.Addr()); !errors.Is(err, errCut) {
		t.Fatal(err)
	}
	b.to(t, a)
	w.Clear()
	if err := there.SendMessageBatch(batch(100, 10)); err != nil {
		t.Fatal(err)
	}
	if got := number(within(t, "a batch", b.batches)); got != 100 {
		t.Fatalf("batch %d came through", got)
	}
}

// TestDuplicateDelayCut: each does what it says to messages.
func TestDuplicateDelayCut(t *testing.T) {
	w := NewNetworkFaults(1)
	a, b := pair(t, w)
	c := a.to(t, b)
	w.Set(Any, Any, Rule{Duplicate: 1})
	if err := c.SendMessageBatch(batch(1, 10)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if got := number(within(t, "a copy", b.batches)); got != 1 {
			t.Fatalf("batch %d", got)
		}
	}

	w.Set(Any, Any, Rule{Delay: 1, DelayMin: 200 * time.Millisecond, DelayMax: 200 * time.Millisecond})
	sent := time.Now()
	if err := c.SendMessageBatch(batch(2, 10)); err != nil {
		t.Fatal(err)
	}
	w.Clear()
	if err := c.SendMessageBatch(batch(3, 10)); err != nil {
		t.Fatal(err)
	}
	overtook := time.Since(sent) < 200*time.Millisecond // else the machine is too busy to say
	got := []int{number(within(t, "a batch", b.batches)), number(within(t, "a batch", b.batches))}
	if took := time.Since(sent); took < 200*time.Millisecond {
		t.Fatalf("delayed by %s", took)
	}
	if overtook && (got[0] != 3 || got[1] != 2) {
		t.Fatalf("order %v", got)
	}
	eventually(t, "room given back", func() bool { return a.delayed.used() == 0 })

	w.Set(Any, Any, Rule{Cut: 1})
	if err := c.SendMessageBatch(batch(4, 10)); !errors.Is(err, errCut) {
		t.Fatal(err)
	}
	eventually(t, "the connection's end there", func() bool { return b.guestConns() == 0 })
	w.Clear()
	if err := c.SendMessageBatch(batch(5, 10)); err == nil {
		t.Fatal("sent on a connection that was cut")
	}
}

// TestDelayedAtClose: what waits when the link closes ends with it, and what is beyond
// the limit is dropped.
func TestDelayedAtClose(t *testing.T) {
	w := NewNetworkFaults(1)
	w.Set("node-1", "node-2", Rule{Delay: 1, DelayMin: time.Hour})
	a, b := pair(t, w)
	c := a.to(t, b)
	for i := range 70 {
		if err := c.SendMessageBatch(batch(i, 1<<20)); err != nil {
			t.Fatal(err)
		}
	}
	if n := a.delayed.used(); n < 60 || n >= 64 {
		t.Errorf("%d batches of 1 MiB wait", n)
	}
	if err := a.transport.Close(); err != nil {
		t.Fatal(err)
	}
	if n := a.delayed.used(); n != 0 {
		t.Errorf("%d still wait", n)
	}
}

// TestChunkWeather: chunks keep their order, and one that is dropped cuts.
func TestChunkWeather(t *testing.T) {
	w := NewNetworkFaults(1)
	w.Set(Any, Any, Rule{Delay: 0.5, DelayMin: time.Millisecond, DelayMax: 5 * time.Millisecond, Duplicate: 1})
	a, b := pair(t, w)
	c, err := a.GetSnapshotConnection(context.Background(), b.link.Addr())
	if err != nil {
		t.Fatal(err)
	}
	for i := range uint64(20) {
		if err := c.SendChunk(raftpb.Chunk{ChunkId: i}); err != nil {
			t.Fatal(err)
		}
		if got := within(t, "a chunk", b.chunks); got.ChunkId != i {
			t.Fatalf("chunk %d after %d", got.ChunkId, i)
		}
	}
	w.Set(Any, Any, Rule{Drop: 1})
	if err := c.SendChunk(raftpb.Chunk{ChunkId: 20}); !errors.Is(err, errCut) {
		t.Fatal(err)
	}
	c.Close()
}
