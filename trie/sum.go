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

// lose takes one leaf less into account, after the children were changed. The
// range of ranks can be narrowed only by looking at the children, which is done
// when the rank that went was at its end: at most 256 of them.
func (in *inner) lose(c Class, rank uint64) {
	if c < None {
		in.sum.Count[c]--
	}
	if rank == 0 || rank != in.sum.First && rank != in.sum.Last {
		return
	}
	in.sum.First, in.sum.Last = 0, 0
	if in.leaf != nil {
		r := rankOf(in.leaf)
		in.sum.bounds(r, r)
	}
	in.each(func(_ byte, kid *node) bool {
		if kid.kind == kindLeaf {
			r := rankOf(kid)
			in.sum.bounds(r, r)
		} else {
			s := &asInner(kid).sum
			in.sum.bounds(s.First, s.Last)
		}
		return true
	})
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
