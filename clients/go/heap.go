package pathlockd

// leaseHeap is leases, the one that needs something first in front; each knows its
// place. It is container/heap without the interface: taking and giving back a lock
// moves through it, a hundred thousand times a second if it must.
type leaseHeap []*lease

func (h leaseHeap) set(i int, l *lease) {
	h[i] = l
	l.place = i
}

// up moves the lease at i towards the front, as far as it belongs.
func (h leaseHeap) up(i int) {
	l := h[i]
	for i > 0 {
		parent := (i - 1) / 2
		if h[parent].at <= l.at {
			break
		}
		h.set(i, h[parent])
		i = parent
	}
	h.set(i, l)
}

// down moves the lease at i towards the back.
func (h leaseHeap) down(i int) {
	l := h[i]
	for {
		child := 2*i + 1
		if child >= len(h) {
			break
		}
		if child+1 < len(h) && h[child+1].at < h[child].at {
			child++
		}
		if l.at <= h[child].at {
			break
		}
		h.set(i, h[child])
		i = child
	}
	h.set(i, l)
}

func (h *leaseHeap) push(l *lease) {
	*h = append(*h, l)
	h.up(len(*h) - 1)
}

// moved is called when a lease's time has changed.
func (h leaseHeap) moved(l *lease) {
	h.up(l.place)
	h.down(l.place)
}

func (h *leaseHeap) remove(l *lease) {
	old, i := *h, l.place
	last := len(old) - 1
	moved := old[last]
	old[last] = nil
	*h = old[:last]
	l.place = -1
	if i < last {
		h.set(i, moved)
		h.moved(moved)
	}
}

// init puts all of it in order.
func (h leaseHeap) init() {
	for i := range h {
		h[i].place = i
	}
	for i := len(h)/2 - 1; i >= 0; i-- {
		h.down(i)
	}
}
