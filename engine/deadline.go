package engine

import (
	"container/heap"
	"slices"
	"strings"
)

// timerKind is what ends at a deadline. Within one millisecond kinds end in this
// order.
type timerKind uint8

const (
	timeLease timerKind = iota
	timeWaiter
	timeEdge
	timeKept
)

// timer is one armed deadline. It belongs to the state it is armed in; views
// never look at it.
type timer struct {
	at         int64 // ms of the lease clock
	kind       timerKind
	key        string // in the tree that its kind says
	prev, next *timer
	in         *bucket // nil: not armed
}

// deadlines is every deadline of a state. Those of one millisecond share a
// bucket, so that to arm, move and disarm one costs a map look-up: a lease is
// extended by most requests and runs out almost never.
//
// The order in which they come due is (time, kind, key), which is a function of
// the set: a replica that was rebuilt from disk agrees with one that was not.
type deadlines struct {
	buckets map[int64]*bucket // none of them empty, but for the one being drained
	times   timeHeap          // of every bucket, and of some that are gone
	last    *bucket           // the bucket asked for last
	spare   []*timer          // to be used again
}

// spareTimers bounds the memory kept to be used again.
const spareTimers = 4096

// timer answers a timer that is not armed.
func (d *deadlines) timer(kind timerKind, key string) *timer {
	if n := len(d.spare); n > 0 {
		t := d.spare[n-1]
		d.spare = d.spare[:n-1]
		t.kind, t.key = kind, key
		return t
	}
	return &timer{kind: kind, key: key}
}

// free disarms a timer whose owner is gone and keeps it to be used again.
func (d *deadlines) free(t *timer) {
	d.disarm(t)
	if len(d.spare) < spareTimers {
		*t = timer{}
		d.spare = append(d.spare, t)
	}
}

// slackTimes is how many times of buckets that are gone may stay in the heap
// before it is made anew: leases that are taken and let go within a long TTL
// leave one each.
const slackTimes = 1024

type bucket struct {
	at   int64
	head *timer
	due  []*timer // in order, once the bucket came due; what was disarmed since is nil
}

// arm sets t to ring at the given time, wherever it stood before.
func (d *deadlines) arm(t *timer, at int64) {
	if t.in != nil {
		if t.at == at {
			return
		}
		d.disarm(t)
	}
	b := d.bucket(at)
	t.at, t.in = at, b
	if b.due != nil {
		i, _ := slices.BinarySearchFunc(b.due, t, compareDue)
		b.due = slices.Insert(b.due, i, t)
		return
	}
	t.prev, t.next = nil, b.head
	if b.head != nil {
		b.head.prev = t
	}
	b.head = t
}

func (d *deadlines) bucket(at int64) *bucket {
	if d.last != nil && d.last.at == at {
		return d.last
	}
	b := d.buckets[at]
	if b == nil {
		b = &bucket{at: at}
		if d.buckets == nil {
			d.buckets = make(map[int64]*bucket)
		}
		d.buckets[at] = b
		heap.Push(&d.times, at)
	}
	d.last = b
	return b
}

// disarm takes t out. A timer that is not armed stays so.
func (d *deadlines) disarm(t *timer) {
	b := t.in
	if b == nil {
		return
	}
	t.in = nil
	if b.due != nil {
		if i, found := slices.BinarySearchFunc(b.due, t, compareDue); found {
			b.due = slices.Delete(b.due, i, i+1)
		}
		return
	}
	if t.prev != nil {
		t.prev.next = t.next
	} else {
		b.head = t.next
	}
	if t.next != nil {
		t.next.prev = t.prev
	}
	t.prev, t.next = nil, nil
	if b.head == nil {
		d.drop(b.at)
	}
}

// drop forgets an empty bucket.
func (d *deadlines) drop(at int64) {
	delete(d.buckets, at)
	if d.last != nil && d.last.at == at {
		d.last = nil
	}
	if len(d.times) > 2*len(d.buckets)+slackTimes {
		d.times = d.times[:0]
		for at := range d.buckets {
			d.times = append(d.times, at)
		}
		heap.Init(&d.times)
	}
}

// pop takes the first timer out that is due at now, nil when there is none.
func (d *deadlines) pop(now int64) *timer {
	b := d.first()
	if b == nil || b.at > now {
		return nil
	}
	if b.due == nil {
		for t := b.head; t != nil; t = t.next {
			b.due = append(b.due, t)
		}
		b.head = nil
		slices.SortFunc(b.due, compareDue)
	}
	t := b.due[0]
	b.due = b.due[1:]
	t.in, t.prev, t.next = nil, nil, nil
	return t
}

// first is the bucket of the earliest deadline, nil when none is armed.
func (d *deadlines) first() *bucket {
	for len(d.times) > 0 {
		b := d.buckets[d.times[0]]
		if b != nil && (b.head != nil || len(b.due) > 0) {
			return b
		}
		at := heap.Pop(&d.times).(int64)
		if b != nil {
			d.drop(at)
		}
	}
	return nil
}

// next is the earliest deadline, ok false when none is armed.
func (d *deadlines) next() (at int64, ok bool) {
	if b := d.first(); b != nil {
		return b.at, true
	}
	return 0, false
}

func compareDue(a, b *timer) int {
	if a.kind != b.kind {
		return int(a.kind) - int(b.kind)
	}
	return strings.Compare(a.key, b.key)
}

type timeHeap []int64

func (h timeHeap) Len() int           { return len(h) }
func (h timeHeap) Less(i, j int) bool { return h[i] < h[j] }
func (h timeHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *timeHeap) Push(x any)        { *h = append(*h, x.(int64)) }
func (h *timeHeap) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}
