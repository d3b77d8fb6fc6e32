package cli

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
)

func TestSpans(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		d            time.Duration
		short, exact string
	}{
		{-time.Second, "0s", "-1s"},
		{0, "0ms", "0s"},
		{999 * time.Millisecond, "999ms", "999ms"},
		{90*time.Second + 500*time.Millisecond, "1m30s", "1m30.5s"},
		{5 * time.Minute, "5m", "5m"},
		{time.Hour, "1h", "1h"},
		{61 * time.Minute, "1h1m", "1h1m"},
		{time.Hour + time.Second, "1h", "1h0m1s"},
		{7 * 24 * time.Hour, "7d", "168h"},
		{25 * time.Hour, "1d1h", "25h"},
	} {
		if got := short(c.d); got != c.short {
			t.Errorf("short(%v) = %s, want %s", c.d, got, c.short)
		}
		got := exact(c.d)
		if got != c.exact {
			t.Errorf("exact(%v) = %s, want %s", c.d, got, c.exact)
		}
		if back, err := parseSpan(got); err != nil || back != c.d {
			t.Errorf("parseSpan(%s) = %v, %v, want %v", got, back, err, c.d)
		}
	}
	if d, err := parseSpan("7d"); err != nil || d != maxSpan {
		t.Errorf("7d is %v, %v", d, err)
	}
	for _, bad := range []string{"", "d", "-1d", "99999d", "1w", "30", "1.5d"} {
		if d, err := parseSpan(bad); err == nil {
			t.Errorf("%q is taken for %v", bad, d)
		}
	}
}

// TestNamesOnATerminal: names are chosen by others.
func TestNamesOnATerminal(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"t:/plain/ünï→": "t:/plain/ünï→", "a\x1b[2Jb": `a\x1b[2Jb`, "two\nlines": `two\nlines`, "\xff": `\xff`,
	} {
		if got := visible(in); got != want {
			t.Errorf("visible(%q) = %s, want %s", in, got, want)
		}
	}
	for in, want := range map[string]string{"t:/a/b-1.c": "t:/a/b-1.c", "": "''", "two words": "'two words'",
		"$(x)": "'$(x)'", "it's": `'it'\''s'`} {
		if got := quote(in); got != want {
			t.Errorf("quote(%q) = %s, want %s", in, got, want)
		}
	}
}

func TestTree(t *testing.T) {
	t.Parallel()
	var root tree
	for _, path := range []string{"t:/a/x", "t:/a/x/1/2", "t:/a/x/3", "t:/a/y", "t:/b", "u:/deep/er/est",
		"t:/a/x", "v:/"} {
		root.insert(heldLock{Path: path, Mode: "write", Owner: "o", FencingToken: 7, ExpiresInMillis: 1500})
	}
	var b bytes.Buffer
	root.write(&b)
	var got []string
	for line := range strings.Lines(b.String()) {
		name, _, _ := strings.Cut(line, "  write")
		got = append(got, strings.TrimSpace(name))
	}
	want := `PATH             MODE   OWNER  TOKEN  SINCE  EXPIRES IN
t:/
├── a
│   ├── x
│   │   │
│   │   ├── 1/2
│   │   └── 3
│   └── y
└── b
u:/deep/er/est
v:/`
	if strings.Join(got, "\n") != want {
		t.Errorf("the tree is\n%s\nwant\n%s", strings.Join(got, "\n"), want)
	}
	if line := strings.Split(b.String(), "\n")[3]; line != "│   ├── x        write  o      7      ?      1s" {
		t.Errorf("a line is\n%s", line)
	}
}

func TestAddresses(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"127.0.0.1:50050": "127.0.0.1:50050", "unix:/run/p.sock": "unix:/run/p.sock",
		"unix:///run/p.sock": "unix:/run/p.sock",
		" a:1 , unix:p.sock": "a:1,unix:p.sock", "[::1]:7": "[::1]:7",
	} {
		if got, err := checkAddr(in); err != nil || got != want {
			t.Errorf("checkAddr(%q) = %s, %v, want %s", in, got, err, want)
		}
	}
	for _, bad := range []string{"", "a", "a:1,", "http://a:1", "unix:", "unix://", "::1:7", "a:"} {
		if got, err := checkAddr(bad); err == nil {
			t.Errorf("%q is taken for %s", bad, got)
		}
	}
}

// TestHelpOfEveryCommand: each says what it does, and its examples are command lines
// that it takes.
func TestHelpOfEveryCommand(t *testing.T) {
	t.Parallel()
	a := &app{}
	seen := 0
	check := func(cmd *cobra.Command) {
		seen++
		if cmd.Short == "" || cmd.Long == "" || cmd.Example == "" {
			t.Errorf("%s lacks a short or long text, or an example", cmd.CommandPath())
		}
		own := false
		for line := range strings.SplitSeq(cmd.Example, "\n") {
			_, line, ours := strings.Cut(line, "pathlock ")
			if !ours {
				t.Errorf("%s: the example %q does not show it", cmd.CommandPath(), line)
				continue
			}
			line, _, _ = strings.Cut(line, " | ")
			line, _, _ = strings.Cut(line, " #")
			line, _, _ = strings.Cut(line, " -- ")
			fresh := (&app{}).root()
			target, rest, err := fresh.Find(strings.Fields(line))
			if err != nil {
				t.Errorf("example %q: %v", line, err)
				continue
			}
			if err := target.ParseFlags(rest); err != nil {
				t.Errorf("example %q: %v", line, err)
			}
			own = own || target.CommandPath() == cmd.CommandPath()
		}
		if !own && cmd.HasParent() && !cmd.HasAvailableSubCommands() {
			t.Errorf("no example of %s shows it", cmd.CommandPath())
		}
	}
	root := a.root()
	check(root)
	each(root, check)
	if seen < 18 {
		t.Errorf("only %d commands were seen", seen)
	}
}
