package trie

// Class is what a leaf counts as in the summaries above it.
type Class uint8

// Classes is how many classes are counted; a leaf of class None counts as
// nothing.
const (
	Classes = 4
	None    = Class(Classes)
)

// Mask is a set of classes.
type Mask uint8

// Mask is the set of c alone.
func (c Class) Mask() Mask { return 1 << c }

// Sum is what a node knows about all leaves at and below it.
type Sum struct {
	Count [Classes]uint32 // leaves of each class
	// First and Last are the lowest and the highest rank below, 0 when no leaf
	// below has one.
	First, Last uint64
}

// Zero says that no leaf below counts as anything.
func (s *Sum) Zero() bool { return s.Count == [Classes]uint32{} }

// gain takes one more leaf into account.
func (s *Sum) gain(c Class, rank uint64) {
	if c < None {
		s.Count[c]++
	}
	if rank != 0 {
		if s.First == 0 || rank < s.First {
			s.First = rank
		}
		s.Last = max(s.Last, rank)
	}
}

// bounds widens the range of ranks.
func (s *Sum) bounds(first, last uint64) {
	if first == 0 {
		return
	}
	if s.First == 0 || first < s.First {
		s.First = first
	}
	s.Last = max(s.Last, last)
}

// sumOf is the summary of any node.
func sumOf(n *node) (s Sum) {
	switch {
	case n == nil:
	case n.kind == kindLeaf:
		s.gain(n.class, rankOf(n))
	default:
		s = asInner(n).sum
	}
	return s
}

// disordered, as the class of an inner node, says that its ranks may not ascend with
// the bytes of its children. While they do, as those of a queue do whose keys end in
// the arrival number, the lowest is the first child's: to take the head of a queue
// does not mean to look at all that wait at its node.
const disordered Class = 1

// ascends says that the node's ranks ascend with its keys.
func (in *inner) ascends() bool { return in.class != disordered }

// expect notes that a leaf of a rank is about to be put below byte c, or to be the
// node's own leaf if own is set; it must be called before the leaf is counted.
func (in *inner) expect(c byte, own bool, rank uint64) {
	if in.class == disordered {
		return
	}
	if rank == 0 || own && in.sum.First != 0 || rank < in.sum.Last || !own && in.beyond(c) {
		in.class = disordered
	}
}

// beyond says that there is a child above byte c.
func (in *inner) beyond(c byte) bool {
	if in.kind != kind256 {
		keys, _ := in.sorted()
		return in.n > 0 && keys[in.n-1] > c
	}
	for _, kid := range in.wide()[int(c)+1:] {
		if kid != nil {
			return true
		}
	}
	return false
}

// lose takes one leaf less into account, after the children were changed. The range
// of ranks is narrowed by looking at the children when the rank that went was at
// its end: at the first and the last one while ranks ascend, else at all, 256 at
// most.
func (in *inner) lose(c Class, rank uint64) {
	if c < None {
		in.sum.Count[c]--
	}
	if rank == 0 || rank != in.sum.First && rank != in.sum.Last {
		return
	}
	if in.ascends() {
		in.sum.First, in.sum.Last = in.lowest(), in.highest()
		return
	}
	in.sum.First, in.sum.Last = 0, 0
	if in.leaf != nil {
		r := rankOf(in.leaf)
		in.sum.bounds(r, r)
	}
	in.each(func(_ byte, kid *node) bool {
		in.sum.bounds(rangeOf(kid))
		return true
	})
}

// rangeOf is the lowest and the highest rank at and below n.
func rangeOf(n *node) (first, last uint64) {
	if n.kind == kindLeaf {
		r := rankOf(n)
		return r, r
	}
	s := &asInner(n).sum
	return s.First, s.Last
}

// lowest is the lowest rank of a node whose ranks ascend, 0 when it is empty.
func (in *inner) lowest() uint64 {
	if in.leaf != nil {
		return rankOf(in.leaf)
	}
	if in.n == 0 {
		return 0
	}
	_, kid := in.only() // the first
	first, _ := rangeOf(kid)
	return first
}

// highest is the highest.
func (in *inner) highest() uint64 {
	if in.n == 0 {
		if in.leaf != nil {
			return rankOf(in.leaf)
		}
		return 0
	}
	var kid *node
	if in.kind == kind256 {
		wide := in.wide()
		for i := len(wide) - 1; kid == nil; i-- {
			kid = wide[i]
		}
	} else {
		_, kids := in.sorted()
		kid = kids[in.n-1]
	}
	_, last := rangeOf(kid)
	return last
}

// resum works the summary out anew from the leaf and the children.
func (in *inner) resum() {
	in.sum = sumOf(in.leaf)
	in.each(func(_ byte, kid *node) bool {
		s := sumOf(kid)
		for c, n := range s.Count {
			in.sum.Count[c] += n
		}
		in.sum.bounds(s.First, s.Last)
		return true
	})
}
