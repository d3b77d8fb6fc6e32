package engine

import (
	"cmp"
	"container/heap"
	"slices"
	"strings"

	"github.com/zeebo/xxh3"
)

// timerKind is what ends at a deadline. Within one millisecond kinds end in this
// order.
type timerKind uint8

const (
	timeLease timerKind = iota
	timeWaiter
	timeEdge
	timeKept
	timerKinds = iota
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
// The order in which they come due is (time, kind, slot, key), which is a function of
// the set: a replica that was rebuilt from disk agrees with one that was not. The slot
// is a hash of the key, so that a large bucket is put in order a slot at a time: to sort
// 300 000 leases at once held up a log for 20 ms.
type deadlines struct {
	buckets map[int64]*bucket // none of them empty, but for those being drained
	times   timeHeap          // of every bucket, and of some that are gone
	last    *bucket           // the bucket asked for last
	spare   []*timer          // to be used again
	small   int               // instead of smallBucket, in tests
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
	at    int64
	n     int                  // timers in it
	head  *timer               // of those that are in no order and in no slot
	slots *[bucketSlots]*timer // nil: it is small
	due   []*timer             // in order, those of the slots up to cur
	cur   int                  // -1: it has not come due
}

// bucketSlots is how many slots a bucket of more than smallBucket timers has. All replicas have
// as many, and the same hash, whether their buckets are large or not.
const (
	bucketSlots = 256
	smallBucket = 512
)

// slotOf is the slot of a timer: each kind has its own.
func slotOf(t *timer) int {
	const each = bucketSlots / timerKinds
	return int(t.kind)*each + int(xxh3.HashString(t.key)%each)
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
	if b.n++; b.isDue(t) {
		i, _ := slices.BinarySearchFunc(b.due, t, compareDue)
		b.due = slices.Insert(b.due, i, t)
		return
	}
	b.list(t).push(t)
	if b.slots == nil && b.n > cmp.Or(d.small, smallBucket) {
		b.split()
	}
}

// timers is a list of timers in no order.
type timers struct{ head **timer }

// list is where a timer stands that is not in order.
func (b *bucket) list(t *timer) timers {
	if b.slots == nil {
		return timers{&b.head}
	}
	return timers{&b.slots[slotOf(t)]}
}

func (l timers) push(t *timer) {
	t.prev, t.next = nil, *l.head
	if t.next != nil {
		t.next.prev = t
	}
	*l.head = t
}

// isDue says that a timer belongs to those of the bucket that are in order.
func (b *bucket) isDue(t *timer) bool {
	return b.cur >= 0 && (b.slots == nil || slotOf(t) <= b.cur)
}

// split puts the timers of a bucket that has become large into slots.
func (b *bucket) split() {
	t := b.head
	b.head, b.slots = nil, new([bucketSlots]*timer)
	for t != nil {
		next := t.next
		b.list(t).push(t)
		t = next
	}
}

// order puts the next timers in order that come due, of which there are some.
func (b *bucket) order() {
	b.due = b.due[:0]
	list := timers{&b.head}
	for b.cur++; b.slots != nil; b.cur++ {
		if list = (timers{&b.slots[b.cur]}); *list.head != nil {
			break
		}
	}
	for t := *list.head; t != nil; t = t.next {
		b.due = append(b.due, t)
	}
	*list.head = nil
	if b.slots == nil {
		slices.SortFunc(b.due, compareDue)
	} else {
		slices.SortFunc(b.due, func(a, b *timer) int { return strings.Compare(a.key, b.key) })
	}
}

func (d *deadlines) bucket(at int64) *bucket {
	if d.last != nil && d.last.at == at {
		return d.last
	}
	b := d.buckets[at]
	if b == nil {
		b = &bucket{at: at, cur: -1}
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
	b.n--
	if b.isDue(t) {
		if i, found := slices.BinarySearchFunc(b.due, t, compareDue); found {
			b.due = slices.Delete(b.due, i, i+1)
		}
		return
	}
	if t.prev != nil {
		t.prev.next = t.next
	} else {
		*b.list(t).head = t.next
	}
	if t.next != nil {
		t.next.prev = t.prev
	}
	t.prev, t.next = nil, nil
	if b.n == 0 && b.cur < 0 {
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
	if len(b.due) == 0 {
		b.order()
	}
	t := b.due[0]
	b.due = b.due[1:]
	b.n--
	t.in, t.prev, t.next = nil, nil, nil
	return t
}

// first is the bucket of the earliest deadline, nil when none is armed.
func (d *deadlines) first() *bucket {
	for len(d.times) > 0 {
		b := d.buckets[d.times[0]]
		if b != nil && b.n > 0 {
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
	if s := slotOf(a) - slotOf(b); s != 0 {
		return s
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
