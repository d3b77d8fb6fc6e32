package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestVerdict doctors what a run leaves behind, and sees that each lie is told.
func TestVerdict(t *testing.T) {
	const (
		one = "shelf-00/box-00"
		two = "shelf-01/box-00"
	)
	for _, c := range []struct {
		name    string
		journal string // of w0
		files   map[string]string
		rename  [2]string
		killed  int
		lost    int
		fault   string // part of one; "": none
	}{
		{name: "nothing was done"},
		{name: "what is done is there", journal: "add 1 3 7\ndone 1\n",
			files: map[string]string{one + "/file-3": "file 3\ncount 1\nw0 1 7\n"}},
		{name: "what is done is not there", journal: "add 1 3 7\ndone 1\n", lost: 1},
		{name: "one of two", journal: "add 1 3 7\ndone 1\nadd 2 3 8\ndone 2\n",
			files: map[string]string{one + "/file-3": "file 3\ncount 1\nw0 2 8\n"}, lost: 1},
		{name: "in doubt, and not there", journal: "add 1 3 7\n", killed: 1},
		{name: "in doubt, and there", journal: "add 1 3 7\n",
			files: map[string]string{one + "/file-3": "file 3\ncount 1\nw0 1 7\n"}, killed: 1},
		{name: "in doubt, and nobody was killed", journal: "add 1 3 7\n", fault: "in doubt"},
		{name: "refused, and there", journal: "add 1 3 7\nstale 1\n",
			files: map[string]string{one + "/file-3": "file 3\ncount 1\nw0 1 7\n"}, fault: "refused"},
		{name: "never written down", files: map[string]string{one + "/file-3": "file 3\ncount 1\nw0 1 7\n"},
			fault: "never wrote it down"},
		{name: "in another file", journal: "add 1 3 7\ndone 1\n",
			files: map[string]string{one + "/file-4": "file 4\ncount 1\nw0 1 7\n"}, fault: "is in file 4"},
		{name: "twice", journal: "add 1 3 7\ndone 1\n",
			files: map[string]string{one + "/file-3": "file 3\ncount 2\nw0 1 7\nw0 1 7\n"}, fault: "twice"},
		{name: "tokens go back", journal: "add 1 3 7\ndone 1\nadd 2 3 6\ndone 2\n",
			files: map[string]string{one + "/file-3": "file 3\ncount 2\nw0 1 7\nw0 2 6\n"},
			fault: "with token 6 after 7"},
		{name: "a count that is wrong", files: map[string]string{one + "/file-3": "file 3\ncount 1\n"},
			fault: "damaged"},
		{name: "a file that is another", files: map[string]string{one + "/file-3": "file 4\ncount 0\n"},
			fault: "there twice"},
		{name: "a renamed box", journal: "move 1 0 7 " + one + " shelf-00/box-04\ndone 1\n",
			rename: [2]string{one, "shelf-00/box-04"}},
		{name: "a rename that was not done", journal: "move 1 0 7 " + one + " shelf-00/box-04\ndone 1\n",
			fault: "box 0 lies in"},
		{name: "a rename that nobody did", rename: [2]string{one, "shelf-00/box-04"}, fault: "box 0 lies in"},
		{name: "a rename in doubt, done", journal: "move 1 0 7 " + one + " shelf-00/box-04\n",
			rename: [2]string{one, "shelf-00/box-04"}, killed: 1},
		{name: "a rename in doubt, not done", journal: "move 1 0 7 " + one + " shelf-00/box-04\n", killed: 1},
		{name: "a torn rename", rename: [2]string{two + "/file-5", "shelf-00/file-5"}, fault: "torn"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir, l := t.TempDir(), layoutOf(20)
			if err := l.create(filepath.Join(dir, treeDir)); err != nil {
				t.Fatal(err)
			}
			put(t, filepath.Join(dir, journalDir, "w0"), c.journal)
			for name, text := range c.files {
				put(t, filepath.Join(dir, treeDir, name), text)
			}
			if c.rename[0] != "" {
				if err := os.Rename(filepath.Join(dir, treeDir, c.rename[0]),
					filepath.Join(dir, treeDir, c.rename[1])); err != nil {
					t.Fatal(err)
				}
			}
			v, err := judge(dir, l, c.killed)
			if err != nil {
				t.Fatal(err)
			}
			faults := strings.Join(v.Faults, "\n")
			if v.Lost != c.lost || (c.fault == "") != (faults == "") || !strings.Contains(faults, c.fault) {
				t.Errorf("lost %d, want %d; faults %q, want %q", v.Lost, c.lost, faults, c.fault)
			}
			if v.clean() != (c.lost == 0 && c.fault == "") {
				t.Errorf("clean: %v", v.clean())
			}
		})
	}
}

func put(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestJournal refuses a journal that makes no sense: the verdict would not.
func TestJournal(t *testing.T) {
	for _, text := range []string{"done 1\n", "add 1 2 3\nadd 1 2 3\n", "add 1 2 3\ndone 1\nstale 1\n", "add x\n",
		"what 1\n"} {
		name := filepath.Join(t.TempDir(), "w0")
		put(t, name, text)
		if _, err := readJournal(name, "w0"); err == nil {
			t.Errorf("%q was read", text)
		}
	}
}
