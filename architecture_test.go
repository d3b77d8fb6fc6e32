// Package pathlockd has no code: it holds the tests that are about the repository
// as a whole.
package pathlockd

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/pathlockd/pathlockd/"

// imports is the import policy: which packages of this module a package may
// import. Tests are free. What is not listed may import nothing of it.
var imports = map[string][]string{
	"wire":              {},
	"trie":              {},
	"engine":            {"trie", "wire"},
	"engine/naive":      {"engine", "wire"},
	"groups":            {"engine", "groups/link", "groups/members", "groups/mesh", "groups/place", "groups/rows", "wire"},
	"loop":              {"internal/tcp", "wire"},
	"internal/faketime": {},
	"internal/near":     {},
	"internal/tcp":      {},
	"clients/go":        {"wire"},
	"compat":            {"compat/pathlockdv1", "internal/tcp", "wire"},
	"compat/web":        {"compat", "compat/pathlockdv1", "compat/proto", "internal/near", "internal/tcp", "wire"},
	"compat/certs":      {},
	"cmd/daemon":        {"groups/members", "compat", "compat/certs", "compat/pathlockdv1", "compat/web", "engine", "groups", "internal/near", "loop", "wire"},
	"cmd/pathlockd":     {"cmd/daemon"},
	"cmd/cli":           {"clients/go", "groups/backup", "wire"},
	"cmd/pathlock":      {"cmd/cli"},
	"bench":             {"bench/ceiling", "bench/cost", "bench/face", "bench/gauge", "bench/load", "bench/scale", "bench/server", "clients/go", "cmd/daemon", "groups", "loop", "wire"},
	"bench/authority":   {},
	"bench/ceiling":     {},
	"bench/cost":        {"engine", "wire"},
	"bench/crash":       {"bench/server", "bench/session", "wire"},
	"bench/demo":        {"bench/server", "clients/go"},
	"bench/fleet":       {"bench/server", "clients/go", "wire"},
	"bench/face":        {"compat/pathlockdv1"},
	"bench/gauge":       {"bench/cost", "groups/members", "groups/mesh", "groups/rows"},
	"bench/load":        {"wire"},
	"bench/scale":       {"groups/place"},
	"bench/server":      {},
	"bench/session":     {"wire"},

	"bench/lab":         {"bench/lab/check", "bench/lab/cluster", "bench/lab/history", "bench/session", "wire"},
	"bench/lab/check":   {"bench/lab/history", "wire"},
	"bench/lab/cluster": {"groups/backup", "bench/lab/history", "bench/server", "bench/session", "groups", "groups/link", "groups/place", "groups/rows", "wire"},
	"bench/lab/history": {"wire"},
	"bench/lab/torture": {"bench/lab", "bench/lab/cluster", "bench/server"},

	"compat/pathlockdv1": {}, // generated
	"compat/proto/gen":   {}, // generates

	"groups/link":    {"groups/members", "internal/tcp"},
	"groups/members": {"internal/tcp", "wire"},
	"groups/mesh":    {"groups/link", "groups/members"},
	"groups/place":   {},
	"groups/backup":  {"engine", "groups/rows", "wire"},
	"groups/rows":    {},
}

// clean says what the deterministic core must not import: no clock, no randomness,
// no I/O, no goroutines' tools.
var clean = map[string][]string{
	"engine": {"time", "math/rand", "math/rand/v2", "crypto/rand", "os", "net", "sync", "context", "log", "log/slog"},
	"trie":   {"time", "math/rand", "math/rand/v2", "crypto/rand", "os", "net", "sync", "context", "log", "log/slog"},
	// Its times are durations that it is told; it never asks for one.
	"groups/place": {"math/rand", "math/rand/v2", "crypto/rand", "os", "net", "sync", "context", "log", "log/slog"},
}

// packageImports lists the imports of every package's code, by folder.
func packageImports(t *testing.T) map[string][]string {
	t.Helper()
	all := make(map[string][]string)
	err := filepath.WalkDir(".", func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (strings.HasPrefix(d.Name(), ".") && file != "." || d.Name() == "testdata" || d.Name() == "node_modules") {
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

// TestImportPolicy holds every package against the policy.
func TestImportPolicy(t *testing.T) {
	all := packageImports(t)
	for folder, names := range all {
		allowed, listed := imports[folder]
		if !listed {
			t.Errorf("package %s is not in the import policy", folder)
		}
		for _, name := range names {
			inside, ours := strings.CutPrefix(name, module)
			if ours && !slices.Contains(allowed, inside) {
				t.Errorf("package %s imports %s, which the policy does not allow", folder, inside)
			}
			if slices.Contains(clean[folder], name) {
				t.Errorf("package %s imports %s: it must be a function of its input", folder, name)
			}
		}
	}
	for folder := range imports {
		if _, there := all[folder]; !there && folder != "bench" && !strings.HasPrefix(folder, "cmd/") && folder != "clients/go" {
			t.Errorf("the import policy names package %s, which does not exist", folder)
		}
	}
}
