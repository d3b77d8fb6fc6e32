package wire

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// goodPath is the rule of paths as contract.md section 2 words it, one clause a
// line, and valid UTF-8 beside.
func goodPath(path string) bool {
	if len(path) < 1 || len(path) > 4096 || strings.ContainsAny(path, "\x00\x1f") || !utf8.ValidString(path) {
		return false
	}
	handler, rest, colon := strings.Cut(path, ":")
	if !colon || handler == "" || strings.Contains(handler, "/") || !strings.HasPrefix(rest, "/") {
		return false
	}
	if rest == "/" {
		return true
	}
	segments := strings.Split(rest[1:], "/")
	for _, s := range segments {
		if s == "" || s == "." || s == ".." {
			return false
		}
	}
	return len(segments) <= 256
}

// goodNamespace is likewise the rule of namespaces.
func goodNamespace(ns string) bool {
	if strings.Contains(ns, ":") {
		return goodPath(ns)
	}
	return len(ns) >= 1 && len(ns) <= 1024 && !strings.ContainsAny(ns, "\x00\x1f/") && utf8.ValidString(ns)
}

// pathTable is every clause of the rule, on both sides: what is said of the path,
// "" for a good one.
var pathTable = []struct{ path, says string }{
	{"h:/", ""},
	{"h:/a", ""},
	{"tenant:/acme/projects/42", ""},
	{"h:/a:b/c:d", ""},
	{"h:/:", ""},
	{"h:/...", ""},
	{"h:/.a/..b/a.", ""},
	{"h:/ /\t/\"/\\", ""},
	{"h:/\x01\x1e\x20\x7f", ""},
	{"h:/été/日本", ""},
	{"é.h-1:/a", ""},
	{"h:/" + strings.Repeat("a/", 255) + "a", ""},
	{"h:/" + strings.Repeat("a/", 256) + "a", "has 257 segments, at most 256 are allowed"},
	{longPath(4096), ""},
	{longPath(4097), "is 4097 bytes long, at most 4096 are allowed"},
	{"", "must not be empty"},
	{"h", "needs a handler and a colon"},
	{"/a", "needs a handler and a colon"},
	{":/a", "has an empty handler"},
	{":", "has an empty handler"},
	{"h:", "needs a slash right after the first colon"},
	{"h:a", "needs a slash right after the first colon"},
	{"h::/a", "needs a slash right after the first colon"},
	{"h/i:/a", "has a slash in its handler"},
	{"h:/a/", "must not end with a slash"},
	{"h://", "has an empty segment"},
	{"h://a", "has an empty segment"},
	{"h:/a//b", "has an empty segment"},
	{"h:/.", `has a segment "."`},
	{"h:/..", `has a segment ".."`},
	{"h:/a/./b", `has a segment "."`},
	{"h:/a/..", `has a segment ".."`},
	{"h:/a\x00b", "must not contain a NUL or 0x1F byte"},
	{"h:/a\x1fb", "must not contain a NUL or 0x1F byte"},
	{"h\x00:/a", "must not contain a NUL or 0x1F byte"},
	{"h\x1f:/a", "must not contain a NUL or 0x1F byte"},
	{"h:/a\xff", "is not valid UTF-8"},
	{"\xc3:/a", "is not valid UTF-8"},
}

func TestCheckPath(t *testing.T) {
	for _, row := range pathTable {
		checkSays(t, "path", row.path, CheckPath("path", row.path), row.says)
		if goodPath(row.path) != (row.says == "") {
			t.Errorf("the reference and the table differ on %q", row.path)
		}
	}
}

func TestCheckNamespace(t *testing.T) {
	for _, row := range append([]struct{ path, says string }{
		{"h", ""},
		{"h.i-j k", ""},
		{"é", ""},
		{".", ""},
		{strings.Repeat("h", 1024), ""},
		{strings.Repeat("h", 1025), "is 1025 bytes long, a bare handler has at most 1024"},
		{"/", "has a slash but no colon"},
		{"h/a", "has a slash but no colon"},
		{"h\x00", "must not contain a NUL or 0x1F byte"},
		{"h\x1f", "must not contain a NUL or 0x1F byte"},
		{"h\xff", "is not valid UTF-8"},
	}, pathTable...) {
		if row.path == "/a" {
			row.says = "has a slash but no colon"
		}
		if row.path == "h" {
			row.says = ""
		}
		checkSays(t, "namespace", row.path, CheckNamespace("namespace", row.path), row.says)
		if goodNamespace(row.path) != (row.says == "") {
			t.Errorf("the reference and the table differ on %q", row.path)
		}
	}
}

func checkSays(t *testing.T, field, value string, err *Error, says string) {
	t.Helper()
	switch {
	case says == "" && err == nil:
	case says == "" || err == nil:
		t.Errorf("%s %q: %v, want %q", field, Quote(value), err, says)
	case err.Code != InvalidArgument || !strings.HasPrefix(err.Message, field+" ") ||
		!strings.Contains(err.Message, says):
		t.Errorf("%s %q: %v, want %q", field, Quote(value), err, says)
	}
}

func TestQuote(t *testing.T) {
	for _, row := range []struct{ in, out string }{
		{"", `""`},
		{"a\x00\"", `"a\x00\""`},
		{strings.Repeat("a", 96), `"` + strings.Repeat("a", 96) + `"`},
		{strings.Repeat("a", 97), `"` + strings.Repeat("a", 96) + `"…`},
		{strings.Repeat("a", 95) + "é", `"` + strings.Repeat("a", 95) + `"…`},
		{strings.Repeat("a", 93) + "\U0001f512\U0001f512", `"` + strings.Repeat("a", 93) + `"…`},
	} {
		if got := Quote(row.in); got != row.out {
			t.Errorf("Quote(%q) = %s, want %s", row.in, got, row.out)
		}
	}
	if got := Quote(strings.Repeat("\x80", 1000)); len(got) > 4*96+8 {
		t.Errorf("Quote of bytes that are no UTF-8 is %d bytes long", len(got))
	}
}

func TestPathHandler(t *testing.T) {
	for in, want := range map[string]string{"h:/a:b": "h", "h": "h", "h:/": "h"} {
		if got := PathHandler(in); got != want {
			t.Errorf("PathHandler(%q) = %q, want %q", in, got, want)
		}
	}
}

func FuzzCheckPath(f *testing.F) {
	for _, row := range pathTable {
		f.Add(row.path)
	}
	f.Fuzz(func(t *testing.T, path string) {
		err := CheckPath("path", path)
		if (err == nil) != goodPath(path) {
			t.Fatalf("CheckPath(%q) = %v, the reference says %v", path, err, goodPath(path))
		}
		if err != nil && len(err.Message) > mostMessage {
			t.Fatalf("message of %d bytes", len(err.Message))
		}
	})
}

func FuzzCheckNamespace(f *testing.F) {
	for _, row := range pathTable {
		f.Add(row.path)
		f.Add(PathHandler(row.path))
	}
	f.Fuzz(func(t *testing.T, ns string) {
		err := CheckNamespace("namespace", ns)
		if (err == nil) != goodNamespace(ns) {
			t.Fatalf("CheckNamespace(%q) = %v, the reference says %v", ns, err, goodNamespace(ns))
		}
		if err != nil && len(err.Message) > mostMessage {
			t.Fatalf("message of %d bytes", len(err.Message))
		}
	})
}

// TestIsHandler: a handler is all of what comes before its first colon.
func TestIsHandler(t *testing.T) {
	for domain, is := range map[string]bool{"h:": true, "h": false, "h:/": false, "h:/a:": false, "h:x:": false,
		"": false, ":": true} {
		if IsHandler(domain) != is {
			t.Errorf("%q: %v", domain, !is)
		}
	}
}
