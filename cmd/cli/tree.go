package cli

import (
	"bytes"
	"slices"
	"strings"
)

// tree shows held locks as the tree that their paths are. A node that nothing holds
// and that has one child is written with it in one line.
type tree struct {
	name     string
	locks    []heldLock
	children []*tree // by name
}

// child answers the child with a name, which it makes if need be.
func (t *tree) child(name string) *tree {
	i, found := slices.BinarySearchFunc(t.children, name,
		func(c *tree, name string) int { return strings.Compare(c.name, name) })
	if !found {
		t.children = slices.Insert(t.children, i, &tree{name: name})
	}
	return t.children[i]
}

// insert puts a lock in its place. The roots are handlers: tenant:/ and the like.
func (t *tree) insert(l heldLock) {
	handler, rest, _ := strings.Cut(l.Path, ":/")
	at := t.child(handler + ":/")
	for rest != "" {
		var segment string
		segment, rest, _ = strings.Cut(rest, "/")
		at = at.child(segment)
	}
	at.locks = append(at.locks, l)
}

// write appends the tree as a table.
func (t *tree) write(b *bytes.Buffer) {
	rows := table{{"PATH", "MODE", "OWNER", "TOKEN", "SINCE", "EXPIRES IN"}}
	for _, root := range t.children {
		root.rows(&rows, "", "")
	}
	rows.write(b)
}

// rows appends the node and what is below it: first stands before its name, rest
// before all further lines.
func (t *tree) rows(to *table, first, rest string) {
	name := t.name
	for len(t.locks) == 0 && len(t.children) == 1 {
		t = t.children[0]
		if !strings.HasSuffix(name, "/") {
			name += "/"
		}
		name += t.name
	}
	if len(t.locks) == 0 {
		to.add(first+visible(name), "", "", "", "", "")
	}
	below := rest
	if len(t.children) > 0 {
		below += "│"
	}
	for i := range t.locks {
		l := &t.locks[i]
		label := first + visible(name)
		if i > 0 {
			label = below
		}
		to.add(label, l.how(), visible(l.Owner), l.token(), since(l.Since), within(l.ExpiresInMillis))
	}
	for i, c := range t.children {
		if i < len(t.children)-1 {
			c.rows(to, rest+"├── ", rest+"│   ")
		} else {
			c.rows(to, rest+"└── ", rest+"    ")
		}
	}
}
