package trie

import "strings"

// Writer is who may change trees in place. All trees that are to be frozen at
// one moment are changed through one Writer. It belongs to one goroutine at a
// time.
type Writer struct {
	gen  uint64
	mod  uint32
	path []*inner // scratch: the inner nodes on the way to a leaf
}

// NewWriter makes a writer whose changes carry modification mark mod.
func NewWriter(mod uint32) *Writer { return &Writer{gen: 1, mod: mod} }

// Freeze makes every copy of a Tree value taken so far a snapshot: from now on
// the writer copies what it changes.
func (w *Writer) Freeze() { w.gen++ }

// Mark is the modification mark that changes carry now.
func (w *Writer) Mark() uint32 { return w.mod }

// SetMark sets it. Marks must not go back.
func (w *Writer) SetMark(mod uint32) { w.mod = mod }

// Tree maps strings to values. The zero Tree is empty. A copy of a Tree is a
// second handle on the same nodes: a snapshot once the writer froze, and of no
// use otherwise.
type Tree[V any] struct {
	root *node
}

// Empty says that there is no leaf.
func (t *Tree[V]) Empty() bool { return t.root == nil }

// Sum is the summary of all leaves.
func (t *Tree[V]) Sum() Sum { return sumOf(t.root) }

// Get answers the value of key, nil when there is none. It must not be changed,
// and stays valid until the tree's writer next changes that key.
func (t *Tree[V]) Get(key string) *V {
	if l := t.find(key); l != nil {
		return &l.val
	}
	return nil
}

// GetBytes is Get for a key in a scratch buffer.
func (t *Tree[V]) GetBytes(key []byte) *V { return t.Get(view(key)) }

// Key answers the tree's own copy of key, which lives as long as anybody wants
// it, and whether there is one.
func (t *Tree[V]) Key(key string) (string, bool) {
	if l := t.find(key); l != nil {
		return l.key, true
	}
	return "", false
}

func (t *Tree[V]) find(key string) *leaf[V] {
	n, depth := t.root, 0
	for n != nil && n.kind != kindLeaf {
		in := asInner(n)
		if p := in.prefix; p != "" {
			if !strings.HasPrefix(key[depth:], p) {
				return nil
			}
			depth += len(p)
		}
		if depth == len(key) {
			n = in.leaf
			break
		}
		p := in.kid(key[depth])
		if p == nil {
			return nil
		}
		n = *p
		depth++
	}
	if n == nil {
		return nil
	}
	if l := asLeaf[V](n); l.key == key {
		return l
	}
	return nil
}

// Edit answers the value of key for the writer to change in place, nil when
// there is none. The pointer is good until the writer freezes or next changes
// that key. Class and rank stay as they are.
func (t *Tree[V]) Edit(w *Writer, key string) *V {
	l := t.find(key)
	if l == nil {
		return nil
	}
	// A leaf that was changed in this generation and under this mark lies below
	// nodes of which the same is true.
	if l.gen != w.gen || l.mod != w.mod {
		l = ownLeaf[V](w, t.descend(w, key))
	}
	return &l.val
}

// descend walks to the leaf of a key that is there, makes every inner node on
// the way the writer's own, and leaves them in w.path.
func (t *Tree[V]) descend(w *Writer, key string) **node {
	w.path = w.path[:0]
	slot, depth := &t.root, 0
	for (*slot).kind != kindLeaf {
		in := w.own(slot)
		in.mod = w.mod
		w.path = append(w.path, in)
		depth += len(in.prefix)
		if depth == len(key) {
			return &in.leaf
		}
		slot = in.kid(key[depth])
		depth++
	}
	return slot
}

// own makes the inner node in slot one that the writer may change.
func (w *Writer) own(slot **node) *inner {
	in := asInner(*slot)
	if in.gen != w.gen {
		in = copyInner(in, w.gen)
		*slot = &in.node
	}
	return in
}

func ownLeaf[V any](w *Writer, slot **node) *leaf[V] {
	l := asLeaf[V](*slot)
	if l.gen != w.gen {
		c := *l
		l = &c
		l.gen = w.gen
		*slot = &l.node
	}
	l.mod = w.mod
	return l
}

// SetClass makes key's leaf, which must be there and have no rank, count as class
// c from now on, and answers its value like Edit.
func (t *Tree[V]) SetClass(w *Writer, key string, c Class) *V {
	l := ownLeaf[V](w, t.descend(w, key))
	if l.key != key {
		panic("trie: class of a leaf that is missing")
	}
	w.reclass(&l.node, c)
	return &l.val
}

// Insert adds a key that is not there, and answers its value for the writer to
// fill in. The tree keeps key: it must not alias a buffer that is reused.
func (t *Tree[V]) Insert(w *Writer, key string, c Class, rank uint64) *V {
	l := &leaf[V]{key: key, rank: rank}
	l.gen, l.mod, l.kind, l.class = w.gen, w.mod, kindLeaf, c
	slot, depth := &t.root, 0
	for {
		n := *slot
		if n == nil {
			*slot = &l.node
			return &l.val
		}
		if n.kind == kindLeaf {
			*slot = &split(w, asLeaf[V](n), l, depth).node
			return &l.val
		}
		in := w.own(slot)
		if p := commonPrefix(in.prefix, key[depth:]); p < len(in.prefix) {
			*slot = &fork(w, in, &l.node, key, depth, p).node
			return &l.val
		}
		depth += len(in.prefix)
		in.mod = w.mod
		own := depth == len(key)
		edge := byte(0)
		if !own {
			edge = key[depth]
		}
		in.expect(edge, own, rank)
		in.sum.gain(c, rank)
		if own {
			if in.leaf != nil {
				panic("trie: insert of a key that is there")
			}
			in.leaf = &l.node
			return &l.val
		}
		next := in.kid(key[depth])
		if next == nil {
			if int(in.n) == in.kind.room() {
				in = in.resized(in.kind + 1)
				*slot = &in.node
			}
			in.add(key[depth], &l.node)
			return &l.val
		}
		slot = next
		depth++
	}
}

// Put makes sure that key is there and counts as class c, and answers the tree's
// own copy of the key, the value for the writer to change, and whether the key is
// new. The key may be in scratch memory: it is copied if it is new. A key that is
// there already must have no rank.
func (t *Tree[V]) Put(w *Writer, key string, c Class) (own string, v *V, fresh bool) {
	w.path = w.path[:0]
	slot, depth := &t.root, 0
	for {
		n := *slot
		switch {
		case n == nil:
			l := newLeaf[V](w, key, c)
			*slot = &l.node
			return l.key, &l.val, true
		case n.kind == kindLeaf && asLeaf[V](n).key == key:
			l := ownLeaf[V](w, slot)
			w.reclass(&l.node, c)
			return l.key, &l.val, false
		case n.kind == kindLeaf:
			l := newLeaf[V](w, key, c)
			*slot = &split(w, asLeaf[V](n), l, depth).node
			return l.key, &l.val, true
		}
		in := w.own(slot)
		if p := commonPrefix(in.prefix, key[depth:]); p < len(in.prefix) {
			l := newLeaf[V](w, key, c)
			*slot = &fork(w, in, &l.node, key, depth, p).node
			return l.key, &l.val, true
		}
		depth += len(in.prefix)
		in.mod = w.mod
		w.path = append(w.path, in)
		if depth == len(key) {
			slot = &in.leaf
			continue
		}
		next := in.kid(key[depth])
		if next == nil {
			l := newLeaf[V](w, key, c)
			if int(in.n) == in.kind.room() {
				in = in.resized(in.kind + 1)
				*slot = &in.node
			}
			in.add(key[depth], &l.node)
			return l.key, &l.val, true
		}
		slot = next
		depth++
	}
}

// newLeaf makes a leaf with a copy of key and counts it in the nodes of w.path.
func newLeaf[V any](w *Writer, key string, c Class) *leaf[V] {
	l := &leaf[V]{key: strings.Clone(key)}
	l.gen, l.mod, l.kind, l.class = w.gen, w.mod, kindLeaf, c
	for _, in := range w.path {
		in.class = disordered // it has no rank
		in.sum.gain(c, 0)
	}
	return l
}

// reclass makes a leaf without a rank count as class c in the nodes of w.path.
func (w *Writer) reclass(l *node, c Class) {
	if rankOf(l) != 0 {
		panic("trie: class of a leaf that has a rank")
	}
	for _, in := range w.path {
		if l.class < None {
			in.sum.Count[l.class]--
		}
		if c < None {
			in.sum.Count[c]++
		}
	}
	l.class = c
}

// split answers the node that holds two leaves whose keys agree up to depth.
func split[V any](w *Writer, a, b *leaf[V], depth int) *inner {
	if a.key == b.key {
		panic("trie: insert of a key that is there")
	}
	p := commonPrefix(a.key[depth:], b.key[depth:])
	in := newInner(kind4, w.gen)
	in.prefix = strings.Clone(b.key[depth : depth+p]) // the same of both
	in.mod = max(a.mod, b.mod)
	if b.key < a.key {
		a, b = b, a
	}
	for _, l := range [2]*leaf[V]{a, b} {
		if l.rank == 0 || l.rank < in.sum.Last {
			in.class = disordered
		}
		in.sum.gain(l.class, l.rank)
		in.attach(&l.node, l.key, depth+p)
	}
	return in
}

// fork answers the node that holds in, which belongs to the writer, and a leaf
// whose key leaves in's prefix after p bytes.
func fork(w *Writer, in *inner, l *node, key string, depth, p int) *inner {
	up := newInner(kind4, w.gen)
	up.prefix = in.prefix[:p]
	up.mod = w.mod
	up.sum = in.sum
	edge, rank := in.prefix[p], rankOf(l)
	if rank == 0 || in.sum.First == 0 || depth+p == len(key) || key[depth+p] < edge || rank < in.sum.Last {
		up.class = disordered
	}
	up.sum.gain(l.class, rank)
	in.prefix = strings.Clone(in.prefix[p+1:])
	up.prefix = strings.Clone(up.prefix)
	up.add(edge, &in.node)
	up.attach(l, key, depth+p)
	return up
}

// attach puts a leaf at in, whose children part at byte depth of the keys.
func (in *inner) attach(l *node, key string, depth int) {
	if depth == len(key) {
		in.leaf = l
	} else {
		in.add(key[depth], l)
	}
}

// Delete removes key and says whether it was there.
func (t *Tree[V]) Delete(w *Writer, key string) bool {
	if t.find(key) == nil {
		return false
	}
	w.remove(&t.root, key, 0)
	return true
}

// Remove is Delete for a key that is there.
func (t *Tree[V]) Remove(w *Writer, key string) { w.remove(&t.root, key, 0) }

// remove takes the leaf of key, which is below slot, out of the tree, and answers
// it.
func (w *Writer) remove(slot **node, key string, depth int) (gone *node) {
	if (*slot).kind == kindLeaf {
		gone, *slot = *slot, nil
		return gone
	}
	in := w.own(slot)
	depth += len(in.prefix)
	if depth == len(key) {
		gone, in.leaf = in.leaf, nil
	} else if kid := in.kid(key[depth]); (*kid).kind == kindLeaf {
		gone = *kid
		in.drop(key[depth])
	} else {
		gone = w.remove(kid, key, depth+1)
	}
	in.lose(gone.class, rankOf(gone))
	w.shrink(slot, in)
	return gone
}

// RemoveAll is Remove for keys in ascending order, all of them there, in one walk
// over the nodes they have in common.
func (t *Tree[V]) RemoveAll(w *Writer, keys []string) {
	if len(keys) > 0 {
		w.removeAll(&t.root, keys, 0)
	}
}

func (w *Writer) removeAll(slot **node, keys []string, depth int) {
	if len(keys) == 1 {
		w.remove(slot, keys[0], depth)
		return
	}
	in := w.own(slot) // two keys part below a node that is no leaf
	depth += len(in.prefix)
	if len(keys[0]) == depth {
		in.leaf, keys = nil, keys[1:]
	}
	for len(keys) > 0 {
		c, n := keys[0][depth], 1
		for n < len(keys) && keys[n][depth] == c {
			n++
		}
		kid := in.kid(c)
		w.removeAll(kid, keys[:n], depth+1)
		if *kid == nil {
			in.drop(c)
		}
		keys = keys[n:]
	}
	in.resum()
	for in.n > 0 && in.kind > kind4 && int(in.n) <= (in.kind-1).room()*3/4 {
		in = in.resized(in.kind - 1)
		*slot = &in.node
	}
	w.shrink(slot, in)
}

// shrink gives in, which lost something, the form its contents need.
func (w *Writer) shrink(slot **node, in *inner) {
	switch {
	case in.n == 0:
		*slot = in.leaf
	case in.n == 1 && in.leaf == nil:
		c, kid := in.only()
		if kid.kind == kindLeaf {
			*slot = kid
			return
		}
		*slot = kid
		child := w.own(slot)
		child.prefix = in.prefix + string([]byte{c}) + child.prefix
	case in.kind > kind4 && int(in.n) <= (in.kind-1).room()*3/4:
		*slot = &in.resized(in.kind - 1).node
	}
}

// commonPrefix is the length of the longest common prefix.
func commonPrefix(a, b string) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}
