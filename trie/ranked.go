package trie

import "container/heap"

// ByRank walks the leaves of a subtree that have a rank, in the order of their
// ranks, and does no more work than the leaves it is asked for need: a heap of
// subtrees ordered by the lowest rank in each.
type ByRank[V any] struct {
	todo rankHeap
	min  uint64
}

// ByRank starts a walk over the ranks from min up.
func (s Sub[V]) ByRank(min uint64) *ByRank[V] {
	it := &ByRank[V]{min: min}
	it.push(s.n)
	return it
}

// push takes a subtree up unless nothing in it is of interest.
func (it *ByRank[V]) push(n *node) {
	if n == nil {
		return
	}
	s := sumOf(n)
	if s.First == 0 || s.Last < it.min {
		return
	}
	heap.Push(&it.todo, rankItem{s.First, n})
}

// Next answers the next leaf, ok false when there is none. The tree must not
// have been changed since the walk began.
func (it *ByRank[V]) Next() (key string, rank uint64, v *V, ok bool) {
	for len(it.todo) > 0 {
		n := heap.Pop(&it.todo).(rankItem).n
		if n.kind == kindLeaf {
			l := asLeaf[V](n)
			return l.key, l.rank, &l.val, true
		}
		in := asInner(n)
		it.push(in.leaf)
		in.each(func(_ byte, kid *node) bool { it.push(kid); return true })
	}
	return "", 0, nil, false
}

type rankItem struct {
	rank uint64
	n    *node
}

type rankHeap []rankItem

func (h rankHeap) Len() int           { return len(h) }
func (h rankHeap) Less(i, j int) bool { return h[i].rank < h[j].rank }
func (h rankHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *rankHeap) Push(x any)        { *h = append(*h, x.(rankItem)) }
func (h *rankHeap) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}
