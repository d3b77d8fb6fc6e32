package trie

import (
	"strings"
	"unsafe"
)

// Sub is all that lies at and below one prefix of a tree. Like a Tree value it
// stays as it is only while nobody changes the tree, or on a snapshot.
type Sub[V any] struct {
	n *node
	// depth is how many bytes of the keys lead to the bytes that n itself compares.
	depth int
}

// view looks at b as a string, for a call that does not keep it.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// All is the whole tree.
func (t *Tree[V]) All() Sub[V] { return Sub[V]{n: t.root} }

// Sub is what lies at and below prefix.
func (t *Tree[V]) Sub(prefix string) Sub[V] { return below[V](t.root, prefix, 0) }

// SubBytes is Sub for a prefix in a scratch buffer.
func (t *Tree[V]) SubBytes(prefix []byte) Sub[V] { return t.Sub(view(prefix)) }

// below walks from n, whose bytes begin at depth of prefix.
func below[V any](n *node, prefix string, depth int) Sub[V] {
	for n != nil {
		if n.kind == kindLeaf {
			if strings.HasPrefix(asLeaf[V](n).key[depth:], prefix[depth:]) {
				return Sub[V]{n, depth}
			}
			break
		}
		in := asInner(n)
		rest := prefix[depth:]
		if len(rest) <= len(in.prefix) {
			if strings.HasPrefix(in.prefix, rest) {
				return Sub[V]{n, depth}
			}
			break
		}
		if !strings.HasPrefix(rest, in.prefix) {
			break
		}
		depth += len(in.prefix)
		kid := in.kid(prefix[depth])
		if kid == nil {
			break
		}
		n = *kid
		depth++
		if depth == len(prefix) {
			return Sub[V]{n, depth}
		}
	}
	return Sub[V]{}
}

// Empty says that there is no leaf.
func (s Sub[V]) Empty() bool { return s.n == nil }

// Sum is the summary of the subtree.
func (s Sub[V]) Sum() Sum { return sumOf(s.n) }

// Count is how many leaves there are of class c.
func (s Sub[V]) Count(c Class) uint32 {
	if s.n == nil {
		return 0
	}
	if s.n.kind == kindLeaf {
		if s.n.class == c {
			return 1
		}
		return 0
	}
	return asInner(s.n).sum.Count[c]
}

// First is the lowest rank in the subtree, 0 when nothing in it has one.
func (s Sub[V]) First() uint64 {
	switch {
	case s.n == nil:
		return 0
	case s.n.kind == kindLeaf:
		return rankOf(s.n)
	}
	return asInner(s.n).sum.First
}

// Ascend calls f with each leaf in byte order until it answers false, and says
// whether it saw them all.
func (s Sub[V]) Ascend(f func(key string, v *V) bool) bool {
	return ascend(s.n, func(*node) bool { return true }, f)
}

// AscendClass is Ascend over the leaves of some classes; what lies between them
// costs nothing.
func (s Sub[V]) AscendClass(m Mask, f func(key string, v *V) bool) bool {
	return ascend(s.n, func(n *node) bool { return has(n, m) }, f)
}

// AscendSince is Ascend over the leaves changed under modification mark mod or
// a later one.
func (s Sub[V]) AscendSince(mod uint32, f func(key string, v *V) bool) bool {
	return ascend(s.n, func(n *node) bool { return n.mod >= mod }, f)
}

// has says that a leaf of one of the classes lies at or below n.
func has(n *node, m Mask) bool {
	if n.kind == kindLeaf {
		return n.class.Mask()&m != 0
	}
	for c, count := range asInner(n).sum.Count {
		if count > 0 && Class(c).Mask()&m != 0 {
			return true
		}
	}
	return false
}

func ascend[V any](n *node, want func(*node) bool, f func(string, *V) bool) bool {
	if n == nil || !want(n) {
		return true
	}
	if n.kind == kindLeaf {
		l := asLeaf[V](n)
		return f(l.key, &l.val)
	}
	in := asInner(n)
	if !ascend(in.leaf, want, f) {
		return false
	}
	return in.each(func(_ byte, kid *node) bool { return ascend(kid, want, f) })
}

// AscendFrom is AscendClass over the leaves whose key has prefix and is not below
// from.
func (t *Tree[V]) AscendFrom(prefix string, m Mask, from string, f func(key string, v *V) bool) bool {
	if from < prefix {
		from = prefix
	}
	if !strings.HasPrefix(from, prefix) {
		return true // it lies beyond all keys with the prefix
	}
	s := t.Sub(prefix)
	return ascendFrom(s.n, func(n *node) bool { return has(n, m) }, from, min(s.depth, len(from)), f)
}

// AscendMarks calls f with the leaves of some classes whose key is not below
// from, and with the modification mark each carries.
func (t *Tree[V]) AscendMarks(m Mask, from string, f func(key string, mod uint32) bool) bool {
	last := uint32(0)
	want := func(n *node) bool {
		last = n.mod
		return has(n, m)
	}
	return ascendFrom(t.root, want, from, 0, func(key string, _ *V) bool { return f(key, last) })
}

// ascendFrom is ascend over the leaves whose key is not below from. The keys
// below n agree with it up to depth.
func ascendFrom[V any](n *node, want func(*node) bool, from string, depth int, f func(string, *V) bool) bool {
	if n == nil || !want(n) {
		return true
	}
	if n.kind == kindLeaf {
		if l := asLeaf[V](n); l.key >= from {
			return f(l.key, &l.val)
		}
		return true
	}
	in := asInner(n)
	rest := from[depth:]
	if !strings.HasPrefix(rest, in.prefix) {
		if in.prefix > rest {
			return ascend(n, want, f)
		}
		return true
	}
	depth += len(in.prefix)
	if depth == len(from) {
		return ascend(n, want, f)
	}
	edge := from[depth]
	return in.each(func(b byte, kid *node) bool {
		switch {
		case b < edge:
			return true
		case b == edge:
			return ascendFrom(kid, want, from, depth+1, f)
		}
		return ascend(kid, want, f)
	})
}

// Step is one stop of Walk.
type Step[V any] struct {
	leaf *node  // of the key that ends here
	in   *inner // whose children part here
	at   int
	off  Sub[V] // what the walk did not follow, when no inner node parts here
}

// Value is the value of the key that is exactly the walked key's first bytes, nil
// when there is none.
func (s Step[V]) Value() *V {
	if s.leaf == nil {
		return nil
	}
	return &asLeaf[V](s.leaf).val
}

// Sub is what lies at and below full, which is the walked key's first bytes and
// at least one byte more.
func (s Step[V]) Sub(full string) Sub[V] {
	if s.in == nil {
		return below[V](s.off.n, full, s.off.depth)
	}
	kid := s.in.kid(full[s.at])
	if kid == nil {
		return Sub[V]{}
	}
	return below[V](*kid, full, s.at+1)
}

// Walk goes down towards key and calls f at each of its prefixes, key itself
// included, where a key ends or where keys branch off; at is the prefix's
// length. It stops when f answers false.
func (t *Tree[V]) Walk(key string, f func(at int, s Step[V]) bool) {
	n, depth := t.root, 0
	for n != nil {
		if n.kind == kindLeaf {
			l := asLeaf[V](n)
			at := depth + commonPrefix(l.key[depth:], key[depth:])
			if at == len(l.key) {
				f(at, Step[V]{leaf: n, at: at})
			} else {
				f(at, Step[V]{at: at, off: Sub[V]{n, depth}})
			}
			return
		}
		in := asInner(n)
		if p := commonPrefix(in.prefix, key[depth:]); p < len(in.prefix) {
			f(depth+p, Step[V]{at: depth + p, off: Sub[V]{n, depth}})
			return
		}
		depth += len(in.prefix)
		if !f(depth, Step[V]{in: in, leaf: in.leaf, at: depth}) || depth == len(key) {
			return
		}
		kid := in.kid(key[depth])
		if kid == nil {
			return
		}
		n = *kid
		depth++
	}
}

// Foreign finds the first leaf of class c in byte order that is not mine. mine
// says how many leaves of the class below a prefix are mine, so that subtrees
// that are wholly mine are passed over; accept decides on a leaf. mine is not
// asked for prefixes with stop behind prefix: below it at most a few leaves are
// mine.
func (t *Tree[V]) Foreign(prefix string, c Class, stop byte, mine func(prefix []byte) uint32,
	accept func(key string, v *V) bool) bool {
	s := t.Sub(prefix)
	if s.n == nil {
		return false
	}
	f := foreign[V]{c, stop, len(prefix), mine, accept}
	return f.search(s.n, append(make([]byte, 0, 128), prefix[:s.depth]...), false)
}

type foreign[V any] struct {
	c      Class
	stop   byte
	from   int // stop counts from this byte of the keys on
	mine   func(prefix []byte) uint32
	accept func(key string, v *V) bool
}

// search looks at and below n; at is what leads to n's own bytes, and stopped
// says that the stop byte is among them.
func (f *foreign[V]) search(n *node, at []byte, stopped bool) bool {
	if n.kind == kindLeaf {
		l := asLeaf[V](n)
		return n.class == f.c && f.accept(l.key, &l.val)
	}
	in := asInner(n)
	total := in.sum.Count[f.c]
	if total == 0 {
		return false
	}
	at = append(at, in.prefix...)
	if skip := f.from - (len(at) - len(in.prefix)); skip < len(in.prefix) {
		stopped = stopped || strings.IndexByte(in.prefix[max(skip, 0):], f.stop) >= 0
	}
	if !stopped && f.mine(at) >= total {
		return false
	}
	if in.leaf != nil && f.search(in.leaf, at, stopped) {
		return true
	}
	return !in.each(func(b byte, kid *node) bool {
		return !f.search(kid, append(at, b), stopped || b == f.stop && len(at) >= f.from)
	})
}

// before counts the leaves of class c below the children under bytes lower than
// edge, from the side on which there are fewer of them.
func (in *inner) before(edge byte, c Class) (count uint32) {
	of := func(n *node) uint32 {
		if n.kind != kindLeaf {
			return asInner(n).sum.Count[c]
		}
		if n.class == c {
			return 1
		}
		return 0
	}
	var low, high []*node
	if in.kind == kind256 {
		low, high = in.wide()[:edge], in.wide()[edge:]
	} else {
		keys, kids := in.sorted()
		i := 0
		for i < int(in.n) && keys[i] < edge {
			i++
		}
		low, high = kids[:i], kids[i:in.n]
	}
	if len(low) <= len(high) {
		for _, kid := range low {
			if kid != nil {
				count += of(kid)
			}
		}
		return count
	}
	count = in.sum.Count[c]
	if in.leaf != nil {
		count -= of(in.leaf)
	}
	for _, kid := range high {
		if kid != nil {
			count -= of(kid)
		}
	}
	return count
}

// Before is how many leaves of class c in the tree lie under prefix and have a
// key below key, which itself has that prefix: the place of key in its order.
func (t *Tree[V]) Before(prefix, key string, c Class) (count uint32) {
	s := t.Sub(prefix)
	n, depth := s.n, s.depth
	for n != nil && n.kind != kindLeaf {
		in := asInner(n)
		p := commonPrefix(in.prefix, key[depth:])
		if p < len(in.prefix) {
			if depth+p < len(key) && in.prefix[p] < key[depth+p] {
				count += in.sum.Count[c]
			}
			return count
		}
		depth += len(in.prefix)
		if depth == len(key) {
			return count
		}
		if in.leaf != nil && in.leaf.class == c {
			count++
		}
		edge := key[depth]
		if n = nil; in.kid(edge) != nil {
			n = *in.kid(edge)
		}
		count += in.before(edge, c)
		depth++
	}
	if n != nil && n.class == c && asLeaf[V](n).key < key {
		count++
	}
	return count
}

// Ceiling answers the first leaf in byte order whose key has prefix, is not
// below key, and whose rank is at least rank, ok false when there is none.
func (t *Tree[V]) Ceiling(prefix, key string, rank uint64) (found string, v *V, ok bool) {
	s := t.Sub(prefix)
	want := func(n *node) bool { return rank == 0 || lastRank(n) >= rank }
	ascendFrom(s.n, want, key, min(s.depth, len(key)), func(k string, val *V) bool {
		found, v, ok = k, val, true
		return false
	})
	return found, v, ok
}

// lastRank is the highest rank at or below n.
func lastRank(n *node) uint64 {
	if n.kind == kindLeaf {
		return rankOf(n)
	}
	return asInner(n).sum.Last
}
