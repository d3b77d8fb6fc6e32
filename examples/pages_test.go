package examples_test

import (
	"bufio"
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/pathlockd/pathlockd/internal/testkit/server"
)

var update = flag.Bool("update", false, "write what the commands of the pages print into the pages")

// pages are run from top to bottom, each against a daemon of its own.
var pages = []string{"docs/grpc.md"}

var (
	codeBlock = regexp.MustCompile("(?ms)^```(console|python|js)\n(.*?)^```$(?:\n\n```text\n(.*?)^```$)?")
	// passing is what is another one in each run.
	passing = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f-]{27}|("(?:sinceUnixMs|expiresInMs)": ?)"\d+"|("nextCursor": ?)"[^"]*"`)
)

// TestPages runs the commands and programs that pages show, and compares what they
// print with what the page says.
func TestPages(t *testing.T) {
	t.Parallel()
	need(t, "bash", "node", python, "node-grpc/node_modules/.stamp")
	tools := t.TempDir()
	if err := os.Symlink(grpcurl(t), filepath.Join(tools, "grpcurl")); err != nil {
		t.Fatal(err)
	}
	for _, page := range pages {
		t.Run(page, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join("..", page)
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			r := newPageRun(t, tools)
			blocks := 0
			out := codeBlock.ReplaceAllFunc(text, func(block []byte) []byte {
				blocks++
				return r.block(block)
			})
			if blocks == 0 {
				t.Error("there is nothing to run")
			}
			if *update && !t.Failed() {
				if err := os.WriteFile(file, out, 0o600); err != nil {
					t.Fatal(err)
				}
				return
			}
			if line, got, want := differ(out, text); line > 0 {
				t.Errorf("%s, line %d: came out as\n%s\nbut the page says\n%s\n(go test ./examples -run TestPages "+
					"-update writes it anew)", page, line, got, want)
			}
		})
	}
}

// differ answers the first line that is another one, what passes aside; 0 for none.
func differ(got, want []byte) (line int, _, _ []byte) {
	g, w := bytes.Split(got, []byte("\n")), bytes.Split(want, []byte("\n"))
	for i := range min(len(g), len(w)) {
		if !bytes.Equal(settle(g[i]), settle(w[i])) {
			return i + 1, g[i], w[i]
		}
	}
	if len(g) != len(w) {
		return min(len(g), len(w)), []byte("another number of lines"), nil
	}
	return 0, nil, nil
}

// settle takes out of a line what passes.
func settle(line []byte) []byte {
	for _, other := range hungUp {
		line = bytes.Replace(line, other, timedOut, 1)
	}
	return passing.ReplaceAll(line, []byte("$1$2*"))
}

// A stream's deadline passes at both ends, and grpcurl says which of them noticed first: itself, or the server, whose
// answer or whose end of the stream may be what is read.
var (
	timedOut = []byte("context deadline exceeded")
	hungUp   = [][]byte{
		[]byte("stream terminated by RST_STREAM with error code: CANCEL"),
		[]byte("the caller's deadline passed before the answer; it may have been carried out: repeat it with the " +
			"same idempotency_key"),
	}
)

// pageRun runs the blocks of one page: commands in one shell, in whose folder is
// pathlockd-data, and programs in the repository's root.
type pageRun struct {
	t            *testing.T
	env          []string
	there, shown *strings.Replacer // addresses of the page to those of the daemon, and back
	in           io.Writer         // of the shell
	out          *bufio.Reader
}

// newPageRun starts a daemon and a shell, which end with the test.
func newPageRun(t *testing.T, tools string) *pageRun {
	t.Helper()
	dir := t.TempDir()
	p, err := server.Start(t.Context(), daemon.bin, filepath.Join(dir, "pathlockd-data"), "--native_listen=127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	r := &pageRun{t: t, env: append(os.Environ(), "PATH="+tools+":"+os.Getenv("PATH"),
		"NODE_PATH=examples/node-grpc/node_modules")}
	var there, shown []string
	for usual, port := range map[string]string{":50051": portOf(t, p.GRPC), ":50443": portOf(t, p.Web)} {
		there, shown = append(there, usual, port), append(shown, port, usual)
	}
	shown = append(shown, portOf(t, p.H3), ":50443") // as Alt-Svc tells it
	r.there, r.shown = strings.NewReplacer(there...), strings.NewReplacer(shown...)

	ctx, cancel := context.WithTimeout(t.Context(), within)
	shell := exec.CommandContext(ctx, "bash", "-O", "expand_aliases")
	shell.Dir, shell.Env = dir, r.env
	in, err := shell.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := shell.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	shell.Stderr = shell.Stdout
	if err := shell.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		cancel()
		_ = shell.Wait() // how it ended does not matter any more
	})
	r.in, r.out = in, bufio.NewReader(out)
	return r
}

func portOf(t *testing.T, addr string) string {
	t.Helper()
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	return ":" + port
}

// block runs a block and answers it with what came of it.
func (r *pageRun) block(block []byte) []byte {
	m := codeBlock.FindSubmatch(block)
	code := string(m[2])
	switch string(m[1]) {
	case "python":
		return r.program(block, m[3], code, "examples/"+python)
	case "js":
		return r.program(block, m[3], code, "node")
	}
	var b strings.Builder
	b.WriteString("```console\n")
	for _, line := range strings.SplitAfter(code, "\n") {
		if cmd, ok := strings.CutPrefix(line, "$ "); ok {
			fmt.Fprintf(&b, "%s%s", line, r.command(cmd))
		}
	}
	return []byte(b.String() + "```")
}

// command runs one in the shell and answers what it prints, and how it ends when that
// is not well.
func (r *pageRun) command(cmd string) string {
	const mark = "<the command is over>"
	fmt.Fprintf(r.in, "{ %s} </dev/null\necho '%s' $?\n", r.there.Replace(cmd), mark)
	var b strings.Builder
	for {
		line, err := r.out.ReadString('\n')
		if err != nil {
			r.t.Errorf("the shell ended in %s%s%s: %v", cmd, &b, line, err)
			return b.String()
		}
		said, code, over := strings.Cut(line, mark+" ")
		b.WriteString(strings.ReplaceAll(said, "\r\n", "\n"))
		if !over {
			continue
		}
		if said != "" {
			b.WriteByte('\n')
		}
		if code != "0\n" {
			fmt.Fprintf(&b, "[exit code %s]\n", strings.TrimSpace(code))
		}
		return r.shown.Replace(b.String())
	}
}

// program runs one, and puts what it prints into the text block behind it.
func (r *pageRun) program(block, said []byte, code, interpreter string) []byte {
	ctx, cancel := context.WithTimeout(r.t.Context(), within)
	defer cancel()
	c := exec.CommandContext(ctx, interpreter, "-")
	c.Dir, c.Env, c.Stdin = "..", r.env, strings.NewReader(r.there.Replace(code))
	out, err := c.CombinedOutput()
	if err != nil {
		r.t.Errorf("%s: %v\n%s\n%s", interpreter, err, code, out)
	}
	if said == nil {
		if len(out) > 0 {
			r.t.Errorf("a program prints %q, which the page does not show", out)
		}
		return block
	}
	before, _, _ := bytes.Cut(block, []byte("```text\n"))
	return fmt.Appendf(nil, "%s```text\n%s```", before, out)
}
