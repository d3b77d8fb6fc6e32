// Package pathlockd has no code: it holds the tests that are about the repository
// as a whole.
package pathlockd

import (
	"go/parser"
	"go/scanner"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

const module = "github.com/pathlockd/pathlockd/"

// imports reads the import policy, the table of packages in docs/architecture.md: which packages of this module a
// package imports. Tests are free.
func imports(t *testing.T) map[string][]string {
	t.Helper()
	policy := make(map[string][]string)
	_, page, _ := strings.Cut(read(t, "docs/architecture.md"), "## The house")
	page, _, _ = strings.Cut(page, "\n## ")
	for line := range strings.Lines(page) {
		row := strings.Split(strings.TrimSpace(line), "|")
		if len(row) != 5 || !strings.HasPrefix(row[1], " `") {
			continue
		}
		folder := strings.Trim(row[1], " `")
		if policy[folder] != nil {
			t.Errorf("docs/architecture.md has two rows for package %s", folder)
		}
		policy[folder] = []string{}
		if cell := strings.TrimSpace(row[3]); cell != "–" {
			for name := range strings.SplitSeq(cell, ", ") {
				policy[folder] = append(policy[folder], strings.Trim(name, "`"))
			}
		}
	}
	if len(policy) < 30 {
		t.Fatalf("the table of packages in docs/architecture.md has %d rows that can be read", len(policy))
	}
	return policy
}

// clean says what the deterministic core must not import: no clock, no randomness,
// no I/O, no goroutines' tools.
var clean = map[string][]string{
	"engine": {"time", "math/rand", "math/rand/v2", "crypto/rand", "os", "net", "sync", "context", "log", "log/slog"},
	"trie":   {"time", "math/rand", "math/rand/v2", "crypto/rand", "os", "net", "sync", "context", "log", "log/slog"},
	// Its times are durations that it is told; it never asks for one.
	"groups/place": {"math/rand", "math/rand/v2", "crypto/rand", "os", "net", "sync", "context", "log", "log/slog"},
}

// seams says which package alone may import what stands behind a seam: groups/raft is that of dragonboat.
var seams = map[string]string{"github.com/lni/dragonboat/v4": "groups/dragon"}

// packageImports lists the imports of every package's code, by folder.
func packageImports(t *testing.T) map[string][]string {
	t.Helper()
	all := make(map[string][]string)
	err := filepath.WalkDir(".", func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (strings.HasPrefix(d.Name(), ".") && file != "." || d.Name() == "testdata" ||
			d.Name() == "node_modules") {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		folder := path.Dir(filepath.ToSlash(file))
		for _, i := range f.Imports {
			name, err := strconv.Unquote(i.Path.Value)
			if err != nil {
				return err
			}
			all[folder] = append(all[folder], name)
		}
		if all[folder] == nil {
			all[folder] = []string{}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestImportPolicy holds every package against the policy: it imports what its row says, no more and no less.
func TestImportPolicy(t *testing.T) {
	all, policy := packageImports(t), imports(t)
	for folder, names := range all {
		allowed, listed := policy[folder]
		if !listed {
			t.Errorf("docs/architecture.md has no row for package %s", folder)
		}
		for _, name := range names {
			inside, ours := strings.CutPrefix(name, module)
			if ours && !slices.Contains(allowed, inside) {
				t.Errorf("package %s imports %s, which its row in docs/architecture.md does not allow", folder, inside)
			}
			if only, seam := seams[name]; seam && folder != only {
				t.Errorf("package %s imports %s, which only %s may: it is behind a seam", folder, name, only)
			}
			if slices.Contains(clean[folder], name) {
				t.Errorf("package %s imports %s: it must be a function of its input", folder, name)
			}
		}
		for _, name := range allowed {
			if !slices.Contains(names, module+name) {
				t.Errorf("docs/architecture.md says that package %s imports %s, which it does not", folder, name)
			}
		}
	}
	for folder := range policy {
		if _, there := all[folder]; !there {
			t.Errorf("docs/architecture.md has a row for package %s, which does not exist", folder)
		}
	}
}

// generated is how files say that nobody is to edit them.
var generated = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)

// TestLinesAreShort: a line of code has at most 120 columns, a tab counting for 4, but where a text or another token
// that cannot be broken is in the way.
func TestLinesAreShort(t *testing.T) {
	const most, unbroken = 120, 55 // columns
	for _, name := range files(t, "*.go") {
		text := read(t, name)
		if generated.MatchString(text) {
			continue
		}
		set := token.NewFileSet()
		file := set.AddFile(name, -1, len(text))
		var s scanner.Scanner
		s.Init(file, []byte(text), nil, scanner.ScanComments)
		long := make(map[int]bool) // lines that have such a token
		for {
			pos, tok, lit := s.Scan()
			if tok == token.EOF {
				break
			}
			if tok != token.COMMENT && len(lit) >= unbroken {
				for line := file.Line(pos); line <= file.Line(pos+token.Pos(len(lit)-1)); line++ {
					long[line] = true
				}
			}
		}
		for i, line := range strings.Split(text, "\n") {
			columns := utf8.RuneCountInString(line) + 3*strings.Count(line, "\t")
			if columns > most && !long[i+1] && !strings.Contains(line, "https://") {
				t.Errorf("%s:%d: has %d columns, at most %d are allowed", name, i+1, columns, most)
			}
		}
	}
}
