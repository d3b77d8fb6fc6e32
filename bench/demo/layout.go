package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
)

// The tree is shelves of boxes of files:
//
//	tree/shelf-02/box-11/file-4         a file
//	tree/shelf-02/box-11/file-4.fence   its sidecar, which goes where its box goes
//	tree/shelf-02/box-11.fence          the sidecar of the name box-11, which stays
//
// A box is renamed to a free name, on any shelf.
const (
	boxFiles  = 10
	fenceTail = ".fence"
	namespace = "demo:/tree" // of the locks: their paths are below it, as the files are in the tree
)

// layout is how large the tree is.
type layout struct {
	files, boxes, shelves, names int // names: places on a shelf
}

func layoutOf(files int) layout {
	l := layout{files: files, boxes: (files + boxFiles - 1) / boxFiles}
	for l.shelves = 1; l.shelves*l.shelves < l.boxes; {
		l.shelves++
	}
	l.names = (l.boxes+l.shelves-1)/l.shelves + 3
	return l
}

func shelfName(i int) string { return fmt.Sprintf("shelf-%02d", i) }
func boxName(i int) string   { return fmt.Sprintf("box-%02d", i) }
func fileName(i int) string  { return fmt.Sprintf("file-%d", i) }

// box is where box i is at first.
func (l layout) box(i int) string {
	return shelfName(i/(l.names-3)) + "/" + boxName(i%(l.names-3))
}

// create makes the tree. File i is number i%boxFiles of box i/boxFiles.
func (l layout) create(dir string) error {
	for i := range l.shelves {
		if err := os.MkdirAll(filepath.Join(dir, shelfName(i)), 0o755); err != nil {
			return fmt.Errorf("create the tree: %w", err)
		}
	}
	for i := range l.files {
		box := filepath.Join(dir, l.box(i/boxFiles))
		if err := os.MkdirAll(box, 0o755); err != nil {
			return fmt.Errorf("create the tree: %w", err)
		}
		if err := os.WriteFile(filepath.Join(box, fileName(i%boxFiles)), newContent(i).encode(), 0o644); err != nil {
			return fmt.Errorf("create the tree: %w", err)
		}
	}
	return nil
}

// pickBox answers a box that is on some shelf, or was a moment ago.
func (l layout) pickBox(dir string, rng *rand.Rand) (string, error) {
	for range 100 * l.shelves {
		shelf := shelfName(rng.IntN(l.shelves))
		entries, err := os.ReadDir(filepath.Join(dir, shelf))
		if err != nil {
			return "", err
		}
		var boxes []string
		for _, e := range entries {
			if e.IsDir() {
				boxes = append(boxes, shelf+"/"+e.Name())
			}
		}
		if len(boxes) > 0 {
			return boxes[rng.IntN(len(boxes))], nil
		}
	}
	return "", fmt.Errorf("%s: there are no boxes", dir)
}

// pickName answers a name for a box, most likely a free one.
func (l layout) pickName(dir string, rng *rand.Rand) (name string) {
	for range 10 {
		name = shelfName(rng.IntN(l.shelves)) + "/" + boxName(rng.IntN(l.names))
		if _, err := os.Lstat(filepath.Join(dir, name)); err != nil {
			break
		}
	}
	return name
}

// content is what a file holds: which one it is, and a line for each increment.
type content struct {
	id    int
	marks []mark
}

// mark is one increment: number seq of a worker process, done under a token.
type mark struct {
	worker string
	seq    int
	token  int64
}

func newContent(id int) *content { return &content{id: id} }

// encode writes the count out, so that it can be compared with the lines.
func (c *content) encode() []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "file %d\ncount %d\n", c.id, len(c.marks))
	for _, m := range c.marks {
		fmt.Fprintf(&b, "%s %d %d\n", m.worker, m.seq, m.token)
	}
	return []byte(b.String())
}

func decodeContent(b []byte) (*content, error) {
	lines := strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
	c, count := new(content), 0
	if len(lines) < 2 {
		return nil, fmt.Errorf("a file of %d lines", len(lines))
	}
	if _, err := fmt.Sscanf(lines[0], "file %d", &c.id); err != nil {
		return nil, fmt.Errorf("first line %q: %w", lines[0], err)
	}
	if _, err := fmt.Sscanf(lines[1], "count %d", &count); err != nil {
		return nil, fmt.Errorf("second line %q: %w", lines[1], err)
	}
	for _, l := range lines[2:] {
		var m mark
		if _, err := fmt.Sscanf(l, "%s %d %d", &m.worker, &m.seq, &m.token); err != nil {
			return nil, fmt.Errorf("line %q: %w", l, err)
		}
		c.marks = append(c.marks, m)
	}
	if count != len(c.marks) {
		return nil, fmt.Errorf("the count is %d, of %d increments", count, len(c.marks))
	}
	return c, nil
}
