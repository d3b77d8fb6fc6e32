package pathlockd

import (
	"go/parser"
	"go/token"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"
)

// files lists the repository's files that match a pattern, by slash path; what is
// built, fetched or generated data aside.
func files(t *testing.T, pattern string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(".", func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		hidden := strings.HasPrefix(d.Name(), ".") && file != "."
		if d.IsDir() && (hidden || slices.Contains([]string{"testdata", "bin", "node_modules"}, d.Name())) {
			return filepath.SkipDir
		}
		if ok, err := filepath.Match(pattern, d.Name()); err != nil || !ok || d.IsDir() {
			return err
		}
		names = append(names, filepath.ToSlash(file))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(names) == 0 {
		t.Fatalf("no file is called %s", pattern)
	}
	return names
}

func read(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

var (
	fence    = regexp.MustCompile("(?ms)^```.*?^```$")
	inline   = regexp.MustCompile("`[^`\n]*`")
	link     = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading  = regexp.MustCompile(`(?m)^#+ +(.*)$`)
	testName = regexp.MustCompile(`\b(?:Test|Fuzz|Benchmark)[A-Z]\w*`)
	testFunc = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark)[A-Z]\w*)\(`)
	makeWord = regexp.MustCompile("(?m)(?:`|^(?:\\$ )?)make ([a-z][a-z-]*)")
	source   = regexp.MustCompile(`\b(?:bench|clients|cmd|compat|deploy|docs|engine|examples|groups|` +
		`internal|loop|trie|wire)(?:/[\w.-]+)+\.[a-z]+\b`)
	makeRule = regexp.MustCompile(`(?m)^([a-z][a-z-]*):`)
	required = regexp.MustCompile(`(?m)^\t(\S+) (v\S+)`)
	listed   = regexp.MustCompile(`(?m)^\| (\S+\.\S+/\S+) \| v`)
	goBlock  = regexp.MustCompile("(?ms)^```go\n(package main.*?)^```$")
)

// anchors are the fragments that the headings of a page can be linked by: lower
// case, letters, digits and dashes for spaces.
func anchors(page string) map[string]bool {
	found := make(map[string]bool)
	for _, m := range heading.FindAllStringSubmatch(fence.ReplaceAllString(page, ""), -1) {
		slug := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
				return unicode.ToLower(r)
			}
			return -1
		}, m[1])
		found[slug] = true
	}
	return found
}

// TestDocsLinks follows every relative link of every page, and the heading it
// names.
func TestDocsLinks(t *testing.T) {
	for _, page := range files(t, "*.md") {
		text := inline.ReplaceAllString(fence.ReplaceAllString(read(t, page), ""), "")
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			u, err := url.Parse(m[1])
			if err != nil {
				t.Errorf("%s: link %s: %v", page, m[1], err)
				continue
			}
			if u.Scheme != "" {
				continue
			}
			target := page
			if u.Path != "" {
				target = filepath.Join(filepath.Dir(page), filepath.FromSlash(u.Path))
			}
			info, err := os.Stat(target)
			switch {
			case err != nil:
				t.Errorf("%s: link %s leads nowhere", page, m[1])
			case u.Fragment != "" && !info.IsDir() && !anchors(read(t, target))[u.Fragment]:
				t.Errorf("%s: link %s: %s has no such heading", page, m[1], target)
			}
		}
	}
}

// TestDocsNameRealTests says that every test, every make target and every file that a
// page names exists, and that every test of a promise is named in docs/testing.md.
func TestDocsNameRealTests(t *testing.T) {
	tests := make(map[string]bool)
	for _, file := range files(t, "*_test.go") {
		for _, m := range testFunc.FindAllStringSubmatch(read(t, file), -1) {
			tests[m[1]] = true
		}
	}
	targets := make(map[string]bool)
	for _, m := range makeRule.FindAllStringSubmatch(read(t, "Makefile"), -1) {
		targets[m[1]] = true
	}
	for _, page := range files(t, "*.md") {
		text := read(t, page)
		for _, name := range testName.FindAllString(text, -1) {
			// A whole family may be named by its beginning, behind -run.
			if !tests[name] && !strings.Contains(text, "-run '"+name+"'") {
				t.Errorf("%s: names %s, which is no test", page, name)
			}
		}
		for _, code := range append(inline.FindAllString(text, -1), fence.FindAllString(text, -1)...) {
			for _, m := range makeWord.FindAllStringSubmatch(code, -1) {
				if !targets[m[1]] {
					t.Errorf("%s: names make %s, which the Makefile does not have", page, m[1])
				}
			}
			for _, file := range source.FindAllString(code, -1) {
				if _, err := os.Stat(file); err != nil {
					t.Errorf("%s: names %s, which is not there", page, file)
				}
			}
		}
	}
	table := read(t, "docs/testing.md")
	for name := range tests {
		if strings.HasPrefix(name, "TestPromise") && !strings.Contains(table, name) {
			t.Errorf("docs/testing.md does not name %s", name)
		}
	}
}

// TestDependenciesAreListed holds what is imported against the page that says why
// each dependency is there: every module, and the version that go.mod pins.
func TestDependenciesAreListed(t *testing.T) {
	const page = "docs/decisions/0001-dependencies.md"
	text := read(t, page)
	versions := make(map[string]string)
	for _, m := range required.FindAllStringSubmatch(read(t, "go.mod"), -1) {
		versions[m[1]] = m[2]
	}
	seen := make(map[string]bool)
	for _, file := range files(t, "*.go") {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range f.Imports {
			name, err := strconv.Unquote(i.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			for dep := name; dep != "."; dep = path.Dir(dep) {
				version, ok := versions[dep]
				if !ok {
					continue
				}
				if row := "| " + dep + " | " + version + " |"; !seen[dep] && !strings.Contains(text, row) {
					t.Errorf("%s imports %s: %s has no row that begins with %q", file, name, page, row)
				}
				seen[dep] = true
				break
			}
		}
	}
	for _, m := range listed.FindAllStringSubmatch(text, -1) {
		if !seen[m[1]] {
			t.Errorf("%s lists %s, which nothing imports", page, m[1])
		}
	}
}

// TestReadmeProgramBuilds compiles the programs that the README shows.
func TestReadmeProgramBuilds(t *testing.T) {
	programs := goBlock.FindAllStringSubmatch(read(t, "README.md"), -1)
	if len(programs) == 0 {
		t.Fatal("the README shows no program")
	}
	for _, m := range programs {
		file := filepath.Join(t.TempDir(), "main.go")
		if err := os.WriteFile(file, []byte(m[1]), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command("go", "vet", file).CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	}
}

// TestLimitsAreWhereTheyAreSaidToBe: what the last column of the table of limits names is in the folder that it names
// behind it, or that of the file; anywhere, if there is none. The files are there.
func TestLimitsAreWhereTheyAreSaidToBe(t *testing.T) {
	_, table, _ := strings.Cut(read(t, "docs/architecture.md"), "\n## Limits\n")
	all := strings.Builder{}
	in := make(map[string]*strings.Builder) // text of a folder's files
	for _, file := range files(t, "*.go") {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text := read(t, file)
		all.WriteString(text)
		if in[path.Dir(file)] == nil {
			in[path.Dir(file)] = new(strings.Builder)
		}
		in[path.Dir(file)].WriteString(text)
	}
	looked := 0
	for _, row := range regexp.MustCompile(`(?m)^\|.*\| ([^|]*) \|$`).FindAllStringSubmatch(table, -1) {
		var names []string
		has := func(text, where string) {
			for _, name := range names {
				looked++
				if !regexp.MustCompile(`\b` + name + `\b`).MatchString(text) {
					t.Errorf("the table of limits names %s, which is not in %s", name, where)
				}
			}
			names = nil
		}
		for _, token := range inline.FindAllString(row[1], -1) {
			token = strings.Trim(token, "`")
			if folder := in[token]; folder != nil {
				has(folder.String(), token)
			} else if strings.Contains(token, "/") {
				if read(t, token); in[path.Dir(token)] != nil {
					has(in[path.Dir(token)].String(), path.Dir(token))
				}
			} else {
				names = append(names, token[strings.LastIndexByte(token, '.')+1:])
			}
		}
		has(all.String(), "any file")
	}
	if looked < 20 {
		t.Errorf("only %d names of limits were found in the table", looked)
	}
}

// TestPlantedTestsAreThere: the tests that are to find planted bugs are in the package that runs them, and those that
// the Makefile names in one that it runs them in. A test that is moved away is run by nobody, and nothing fails.
func TestPlantedTestsAreThere(t *testing.T) {
	declared := func(folder string) map[string]bool {
		all := make(map[string]bool)
		names, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range names {
			for _, m := range testFunc.FindAllStringSubmatch(read(t, file), -1) {
				all[m[1]] = true
			}
		}
		return all
	}
	quoted := regexp.MustCompile(`"(Test[A-Z]\w*)"`)
	makefile := read(t, "Makefile")
	_, rule, _ := strings.Cut(makefile, "\nplanted:")
	rule, _, _ = strings.Cut(rule, "\n\n")
	found := 0
	for _, file := range files(t, "*planted_test.go") {
		folder := path.Dir(file)
		there := declared(folder)
		for _, m := range quoted.FindAllStringSubmatch(read(t, file), -1) {
			found++
			if !there[m[1]] {
				t.Errorf("%s names %s, which is not in its package", file, m[1])
			}
		}
		if !regexp.MustCompile(`\./(` + folder + `(/\.\.\.)?|` + path.Dir(folder) +
			`/\.\.\.)(\s|$)`).MatchString(rule) {
			t.Errorf("%s is of a package that make planted does not run", file)
		}
	}
	if found < 20 {
		t.Errorf("only %d tests of planted bugs were found", found)
	}
	for list, folders := range map[string][]string{"ALONE": {"groups", "groups/replica"}, "LOADS": {"clients/go"}} {
		_, names, ok := strings.Cut(makefile, "\n"+list+" := ^(")
		names, _, _ = strings.Cut(names, ")$$")
		if !ok {
			t.Fatalf("the Makefile has no %s", list)
		}
		for name := range strings.SplitSeq(names, "|") {
			if !slices.ContainsFunc(folders, func(f string) bool { return declared(f)[name] }) {
				t.Errorf("%s of the Makefile names %s, which is not in %v", list, name, folders)
			}
		}
	}
}
