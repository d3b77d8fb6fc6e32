package trie

import (
	"bytes"
	"unsafe"
)

// node is the head that every kind of node starts with. A *node points at the
// start of a leaf or of one of the inner nodes and is cast to it by its kind;
// all casts are in this file and in asLeaf.
type node struct {
	gen   uint64 // generation of the writer that may change it in place
	mod   uint32 // highest modification mark at or below
	kind  kind
	class Class  // of a leaf; of an inner node: disordered, or 0
	n     uint16 // of an inner node: number of children
}

type kind uint8

const (
	kindLeaf kind = iota
	kind4
	kind8
	kind16
	kind32
	kind64
	kind256
)

// inner is what the inner nodes have in common. Up to 64 children are kept
// sorted by their byte; a node of 256 is indexed by it.
//
// What a look-up reads stands first, so that with up to 16 children it is one
// cache line and the child's pointer a second: a look-up among a million keys is
// nothing but such misses.
type inner struct {
	node
	prefix string   // bytes between the parent's edge and this node's children
	few    [16]byte // bytes of the children of nodes of up to 16
	leaf   *node    // the leaf whose key ends here
	sum    Sum      // of the leaf and of all that lies below
}

type (
	inner4 struct {
		inner
		kids [4]*node
	}
	inner8 struct {
		inner
		kids [8]*node
	}
	inner16 struct {
		inner
		kids [16]*node
	}
	inner32 struct {
		inner
		keys [32]byte
		kids [32]*node
	}
	inner64 struct {
		inner
		keys [64]byte
		kids [64]*node
	}
	inner256 struct {
		inner
		kids [256]*node
	}
)

// leaf holds one key and its value.
type leaf[V any] struct {
	node
	rank uint64
	key  string
	val  V
}

func asLeaf[V any](n *node) *leaf[V] { return (*leaf[V])(unsafe.Pointer(n)) }
func asInner(n *node) *inner         { return (*inner)(unsafe.Pointer(n)) }

// ranked is the part of a leaf that does not depend on the type of its value.
type ranked struct {
	node
	rank uint64
}

func rankOf(n *node) uint64 { return (*ranked)(unsafe.Pointer(n)).rank }

// newInner makes an empty inner node of kind k.
func newInner(k kind, gen uint64) *inner {
	var in *inner
	switch k {
	case kind4:
		in = &new(inner4).inner
	case kind8:
		in = &new(inner8).inner
	case kind16:
		in = &new(inner16).inner
	case kind32:
		in = &new(inner32).inner
	case kind64:
		in = &new(inner64).inner
	default:
		in = &new(inner256).inner
	}
	in.kind, in.gen = k, gen
	return in
}

// copyInner makes a copy of in that belongs to generation gen.
func copyInner(in *inner, gen uint64) *inner {
	var c *inner
	switch in.kind {
	case kind4:
		v := *(*inner4)(unsafe.Pointer(in))
		c = &v.inner
	case kind8:
		v := *(*inner8)(unsafe.Pointer(in))
		c = &v.inner
	case kind16:
		v := *(*inner16)(unsafe.Pointer(in))
		c = &v.inner
	case kind32:
		v := *(*inner32)(unsafe.Pointer(in))
		c = &v.inner
	case kind64:
		v := *(*inner64)(unsafe.Pointer(in))
		c = &v.inner
	default:
		v := *(*inner256)(unsafe.Pointer(in))
		c = &v.inner
	}
	c.gen = gen
	return c
}

// room is how many children a node of kind k takes.
func (k kind) room() int {
	if k == kind256 {
		return 256
	}
	return 2 << k
}

// sorted answers the arrays of a node that keeps its children sorted, at their
// full length.
func (in *inner) sorted() (keys []byte, kids []*node) {
	switch in.kind {
	case kind4:
		return in.few[:], (*inner4)(unsafe.Pointer(in)).kids[:]
	case kind8:
		return in.few[:], (*inner8)(unsafe.Pointer(in)).kids[:]
	case kind16:
		return in.few[:], (*inner16)(unsafe.Pointer(in)).kids[:]
	case kind32:
		v := (*inner32)(unsafe.Pointer(in))
		return v.keys[:], v.kids[:]
	default:
		v := (*inner64)(unsafe.Pointer(in))
		return v.keys[:], v.kids[:]
	}
}

func (in *inner) wide() *[256]*node { return &(*inner256)(unsafe.Pointer(in)).kids }

// kid answers the place of the child under byte c, nil when there is none.
func (in *inner) kid(c byte) **node {
	if in.kind == kind256 {
		if p := &in.wide()[c]; *p != nil {
			return p
		}
		return nil
	}
	keys, kids := in.sorted()
	if i := bytes.IndexByte(keys[:in.n], c); i >= 0 {
		return &kids[i]
	}
	return nil
}

// each calls f with the children in byte order until it answers false.
func (in *inner) each(f func(c byte, kid *node) bool) bool {
	if in.kind == kind256 {
		for c, kid := range in.wide() {
			if kid != nil && !f(byte(c), kid) {
				return false
			}
		}
		return true
	}
	keys, kids := in.sorted()
	for i, c := range keys[:in.n] {
		if !f(c, kids[i]) {
			return false
		}
	}
	return true
}

// only answers the one child of a node that has just one.
func (in *inner) only() (c byte, kid *node) {
	in.each(func(b byte, k *node) bool { c, kid = b, k; return false })
	return c, kid
}

// add puts a child under a byte that has none, into a node that has room.
func (in *inner) add(c byte, kid *node) {
	if in.kind == kind256 {
		in.wide()[c] = kid
		in.n++
		return
	}
	keys, kids := in.sorted()
	i := int(in.n)
	for i > 0 && keys[i-1] > c {
		keys[i], kids[i] = keys[i-1], kids[i-1]
		i--
	}
	keys[i], kids[i] = c, kid
	in.n++
}

// drop removes the child under c, which is there.
func (in *inner) drop(c byte) {
	in.n--
	if in.kind == kind256 {
		in.wide()[c] = nil
		return
	}
	keys, kids := in.sorted()
	i := bytes.IndexByte(keys[:in.n+1], c)
	copy(keys[i:], keys[i+1:in.n+1])
	copy(kids[i:], kids[i+1:in.n+1])
	kids[in.n] = nil
}

// resized answers a node of kind k with in's contents.
func (in *inner) resized(k kind) *inner {
	out := newInner(k, in.gen)
	out.mod, out.prefix, out.leaf, out.sum, out.class = in.mod, in.prefix, in.leaf, in.sum, in.class
	in.each(func(c byte, kid *node) bool { out.add(c, kid); return true })
	return out
}
