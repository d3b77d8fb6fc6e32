package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// verdict is what the files and the journals say together.
type verdict struct {
	Acknowledged int // increments that a worker was told are done
	Found        int // increments in the files
	InDoubt      int // steps that a worker was killed on
	InDoubtFound int // increments among them that are in the files
	Stale        int // steps that were refused for their tokens
	Renames      int // done
	Lost         int // acknowledged, and not found
	Killed       int // worker processes
	Faults       []string
}

// maxFaults is how many faults are described; all are counted.
const maxFaults = 20

func (v *verdict) clean() bool { return v.Lost == 0 && len(v.Faults) == 0 }

func (v *verdict) fault(format string, args ...any) {
	v.Faults = append(v.Faults, fmt.Sprintf(format, args...))
}

// print says it to people.
func (v *verdict) print(w io.Writer) {
	fmt.Fprintf(w, "\n  increments acknowledged   %7d\n", v.Acknowledged)
	fmt.Fprintf(w, "  increments found          %7d   (%d of them in doubt: a worker was killed on them)\n", v.Found,
		v.InDoubtFound)
	fmt.Fprintf(w, "  increments lost           %7d\n", v.Lost)
	fmt.Fprintf(w, "  stale writes refused      %7d\n", v.Stale)
	fmt.Fprintf(w, "  renames                   %7d\n", v.Renames)
	fmt.Fprintf(w, "  steps in doubt            %7d   (at most one for each of %d killed workers)\n",
		v.InDoubt, v.Killed)
	for i, f := range v.Faults {
		if i == maxFaults {
			fmt.Fprintf(w, "  … and %d more\n", len(v.Faults)-i)
			break
		}
		fmt.Fprintf(w, "  fault: %s\n", f)
	}
	if v.clean() {
		fmt.Fprint(w, "\nverdict: clean: every acknowledged increment is there once, and no rename is torn\n")
	} else {
		fmt.Fprintf(w, "\nverdict: BROKEN: %d acknowledged increments are lost, %d faults\n", v.Lost, len(v.Faults))
	}
}

// judge reads everything. killed is how many worker processes were killed.
func judge(dir string, l layout, killed int) (*verdict, error) {
	entries, err := readJournals(filepath.Join(dir, journalDir))
	if err != nil {
		return nil, err
	}
	v := &verdict{Killed: killed}
	found, err := v.readTree(filepath.Join(dir, treeDir), l)
	if err != nil {
		return nil, err
	}
	v.increments(entries, found)
	v.renames(entries, found, l)
	if v.InDoubt > killed {
		v.fault("%d steps are in doubt, and %d workers were killed", v.InDoubt, killed)
	}
	return v, nil
}

// foundFile is a file as it lies in the tree.
type foundFile struct {
	box string
	*content
}

// readTree reads all files, by number, and checks that they are all there, once,
// and ten to a box.
func (v *verdict) readTree(dir string, l layout) (map[int]*foundFile, error) {
	files := make(map[int]*foundFile)
	err := filepath.WalkDir(dir, func(name string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasPrefix(d.Name(), "file-") || strings.Contains(d.Name(), ".") {
			return err
		}
		b, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, name)
		if err != nil {
			return err
		}
		c, err := decodeContent(b)
		if err != nil {
			v.fault("%s is damaged: %v", rel, err)
			return nil
		}
		if other := files[c.id]; other != nil {
			v.fault("file %d is there twice, in %s and %s", c.id, other.box, filepath.Dir(rel))
		}
		if d.Name() != fileName(c.id%boxFiles) {
			v.fault("file %d is named %s", c.id, rel)
		}
		files[c.id] = &foundFile{filepath.ToSlash(filepath.Dir(rel)), c}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the tree: %w", err)
	}
	for id := range l.files {
		first := files[id-id%boxFiles]
		switch f := files[id]; {
		case f == nil:
			v.fault("file %d is gone", id)
		case first != nil && f.box != first.box:
			v.fault("a rename is torn: file %d is in %s and file %d of the same box in %s", id, f.box,
				first.id, first.box)
		}
	}
	return files, nil
}

// increments compares what was acknowledged with what is there.
func (v *verdict) increments(entries []*entry, found map[int]*foundFile) {
	type key struct {
		worker string
		seq    int
	}
	there := make(map[key]int) // file by step
	for _, id := range sortedIDs(found) {
		f := found[id]
		last := int64(0)
		for _, m := range f.marks {
			k := key{m.worker, m.seq}
			if _, twice := there[k]; twice {
				v.fault("increment %d of %s is there twice, the second time in file %d", m.seq, m.worker, id)
			}
			there[k] = id
			v.Found++
			if m.token < last {
				v.fault("file %d was written with token %d after %d", id, m.token, last)
			}
			last = m.token
		}
	}
	for _, e := range entries {
		if e.outcome == inDoubt {
			v.InDoubt++
		}
		if e.outcome == stale {
			v.Stale++
		}
		if e.from != "" {
			continue
		}
		id, is := there[key{e.worker, e.seq}]
		delete(there, key{e.worker, e.seq})
		switch {
		case is && id != e.file:
			v.fault("increment %d of %s, of file %d, is in file %d", e.seq, e.worker, e.file, id)
		case is && (e.outcome == stale || e.outcome == gone):
			v.fault("increment %d of %s, of file %d, was refused and is there", e.seq, e.worker, e.file)
		case is && e.outcome == inDoubt:
			v.InDoubtFound++
		}
		if e.outcome == done {
			v.Acknowledged++
			if !is {
				v.Lost++
			}
		}
	}
	for k, id := range there {
		v.fault("file %d has increment %d of %s, who never wrote it down", id, k.seq, k.worker)
	}
	if v.Found != v.Acknowledged-v.Lost+v.InDoubtFound {
		v.fault("%d increments are found, of %d acknowledged, %d lost, and %d in doubt", v.Found, v.Acknowledged,
			v.Lost, v.InDoubtFound)
	}
}

// renames follows each box through the renames that were done, in the order of
// their tokens, to where it lies. Those in doubt may have been done.
func (v *verdict) renames(entries []*entry, found map[int]*foundFile, l layout) {
	moves := make(map[int][]*entry)
	for _, e := range entries {
		if e.from == "" || e.outcome == stale || e.outcome == gone {
			continue
		}
		moves[e.file/boxFiles] = append(moves[e.file/boxFiles], e)
		if e.outcome == done {
			v.Renames++
		}
	}
	for box := range l.boxes {
		list := moves[box]
		slices.SortFunc(list, func(a, b *entry) int { return cmp.Compare(a.token, b.token) })
		f := found[box*boxFiles]
		if f != nil && !reaches(l.box(box), f.box, list) {
			v.fault("box %d lies in %s, where %d renames did not bring it from %s", box, f.box, len(list), l.box(box))
		}
	}
}

// reaches says whether moves lead from one place to another, each from where the
// one before led.
func reaches(at, to string, moves []*entry) bool {
	for i, m := range moves {
		if m.outcome == inDoubt && reaches(at, to, moves[i+1:]) {
			return true
		}
		if m.from != at {
			return false
		}
		at = m.to
	}
	return at == to
}

func sortedIDs(m map[int]*foundFile) []int {
	ids := make([]int, 0, len(m))
	for id := range m {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}
