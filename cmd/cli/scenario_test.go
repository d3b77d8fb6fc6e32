package cli

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// volatile is what differs from run to run, and what is shown instead.
var volatile = []struct {
	is    *regexp.Regexp
	shown string
}{
	{regexp.MustCompile(`[\w.-]+@[\w.-]+:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`), "USER@HOST:UUID"},
	{regexp.MustCompile(`\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b`), "UUID"},
	{regexp.MustCompile(`"((?:step_|stalled_)?for_ms|applied|term|version)":\d+`), `"$1":N`},
	{regexp.MustCompile(`(\S +)\d+( +pathlockd-0 +settled)`), "${1}TERM$2"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT[\d:.]+Z`), "TIMESTAMP"},
	{regexp.MustCompile(`\b\d\d:\d\d:\d\d\b`), "TIME"},
	{regexp.MustCompile(`"(since_unix_ms|expires_in_ms|waited_ms|took_ms|pid)":\d+`), `"$1":N`},
	{regexp.MustCompile(`"(host|command|go|system)":"[^"]*"`), `"$1":"…"`},
	{regexp.MustCompile(`\S+ pid \d+: .*?( \[.*\])?( \(Ctrl-C gives up\))?\n`), "HOST pid N: COMMAND$1$2\n"},
	{regexp.MustCompile(`(  | in |since |\()\d+(ms|[smhd](\d+[smh])?)\b`), "${1}SPAN"},
	{regexp.MustCompile(`127\.0\.0\.1:\d{2,}`), "ADDR"},
	{regexp.MustCompile(`(\S)  +`), "$1  "},
}

// TestScenarios runs the calls of testdata/*.txt, in order, each file on a daemon of
// its own, and compares what they print. Write what they do print with -rewrite, and
// look at the difference.
//
//	pathlock            calls, one a line; all but the last must succeed
//	env                 variables for the calls from here on
func TestScenarios(t *testing.T) {
	t.Parallel()
	datadriven.Walk(t, "testdata", func(t *testing.T, file string) {
		t.Parallel()
		c := &console{t, []string{"PATHLOCK_ADDR=" + ownDaemon(t).Addr()}}
		datadriven.RunTest(t, file, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "env":
				c.environ = append(c.environ, strings.Fields(d.Input)...)
				return ""
			case "pathlock":
				return c.scenario(strings.Split(d.Input, "\n"))
			}
			d.Fatalf(t, "unknown command %s", d.Cmd)
			return ""
		})
	})
}

// scenario makes calls and shows what they print.
func (c *console) scenario(calls []string) string {
	var b strings.Builder
	for _, call := range calls {
		r := c.do(c.t.Context(), strings.Fields(call)...)
		b.WriteString(r.stdout)
		for line := range strings.Lines(r.stderr) {
			b.WriteString("! " + line)
		}
		if r.code != 0 {
			fmt.Fprintf(&b, "exit code %d\n", r.code)
		}
	}
	return settled(b.String())
}

// settled is output without what is volatile.
func settled(s string) string {
	for _, v := range volatile {
		s = v.is.ReplaceAllString(s, v.shown)
	}
	return s
}

// TestReferenceIsCurrent holds docs/cli.md against the commands.
func TestReferenceIsCurrent(t *testing.T) {
	t.Parallel()
	have, err := os.ReadFile("../../docs/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	if string(have) != Reference() {
		t.Error("docs/cli.md is not what the commands say: go generate ./cmd/cli")
	}
}
