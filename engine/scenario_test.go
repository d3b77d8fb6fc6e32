package engine

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/pathlockd/pathlockd/wire"
)

// TestScenarios runs the scripts in testdata: for each rule of contract.md that
// lives here the steps that show it, and what must come of them. `go test
// ./engine -run TestScenarios -rewrite` writes down what does come of them; look
// at the diff.
//
// A block of a script starts with `new`, for an empty group, or with `go on`, for
// the one of the block before; the lines up to `----` are commands, one a line.
// What each answers follows after its owner's name or its own, what happened
// beside that is indented below:
//
//	new
//	acquire A h:/a/x
//	acquire B h:/a/x
//	release A h:/a/x
//	----
//	A: OK token=1 ns=h:/a
//	B: QUEUED WRITE_LOCKED h:/a/x by A token=2 ns=h:/a pos=1
//	A: OK
//	  GRANT B h:/a/x token=2 ns=h:/a
//
// Options of new: k (routing_prefix_segments), alg (default_lock_algorithm),
// queued, kept, edges (limits), reap (Config.ReapBudget), cut (Config.Cut).
//
// Paths are asked for as new writes. Behind a comma stand r for a read, held for
// what the owner says it has, a number for a semaphore's permits. TTLs are an
// hour where nothing else is said, so that time plays no part unless a script
// lets it pass. scriptCommands lists the commands; what they take stands above
// each.
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			t.Parallel()
			s := new(script)
			datadriven.RunTest(t, file, s.block)
		})
	}
}

// script is what a script's commands work on.
type script struct {
	t       *testing.T
	d       *datadriven.TestData
	cfg     Config
	clock   Clock
	routes  *wire.Routes
	groups  map[string]*scriptGroup
	at      *scriptGroup           // the group commands go to
	answers map[string]wire.Result // what was first answered to a command, for repeat
	say     strings.Builder
}

// scriptWall is the time of day at which every script starts.
const scriptWall = 1_700_000_000_000

const (
	scriptTTL    = time.Hour
	scriptEpoch  = 1
	scriptGroup1 = "1"
)

// block runs the commands of one block.
func (s *script) block(t *testing.T, d *datadriven.TestData) string {
	s.t, s.d = t, d
	switch d.Cmd {
	case "new":
		s.fresh()
	case "go":
		if s.at == nil {
			t.Fatalf("%s: nothing to go on with", d.Pos)
		}
	default:
		t.Fatalf("%s: a block starts with new or go on, not with %s", d.Pos, d.Cmd)
	}
	for _, g := range s.groups {
		g.t = t
	}
	s.say.Reset()
	for text := range strings.Lines(d.Input) {
		if text = strings.TrimSpace(text); text != "" && text[0] != '#' {
			s.run(text)
		}
	}
	return s.say.String()
}

// fresh starts over with an empty group.
func (s *script) fresh() {
	s.cfg = DefaultConfig()
	for _, a := range s.d.CmdArgs {
		v := a.Vals[0]
		switch a.Key {
		case "k":
			s.cfg.Segments = s.number(v)
		case "alg":
			s.cfg.Algorithm = s.algorithm(v)
		case "queued":
			s.cfg.MaxQueued = s.number(v)
		case "kept":
			s.cfg.MaxKept = s.number(v)
		case "edges":
			s.cfg.MaxEdges = s.number(v)
		case "cut":
			s.cfg.Cut = int64(s.number(v))
		case "reap":
			s.cfg.ReapBudget = s.number(v)
		default:
			s.fail("new has no option %s", a.Key)
		}
	}
	s.clock = Clock{Wall: scriptWall}
	s.routes = wire.NewRoutes(0, s.cfg.Segments, nil)
	s.answers = make(map[string]wire.Result)
	s.groups = make(map[string]*scriptGroup)
	s.enter(scriptGroup1)
}

// enter makes a group the one that commands go to.
func (s *script) enter(name string) {
	if s.groups[name] == nil {
		s.groups[name] = newScriptGroup(s.t, s.cfg)
	}
	s.at = s.groups[name]
}

// scriptLine is one command, split at spaces.
type scriptLine struct {
	text  string
	verb  string
	words []string            // what has no "=" before its first colon
	opts  map[string][]string // what has
}

// scriptOptions is every option of any command.
var scriptOptions = []string{
	"ttl", "token", "queue", "release", "wait", "meta", "key", "session", "epoch", "grace", "version",
	"above", "in", "page", "max", "by", "id", "until",
}

func (s *script) run(text string) {
	words := strings.Fields(text)
	l := scriptLine{text: text, verb: words[0], opts: make(map[string][]string)}
	for _, w := range words[1:] {
		if k, v, ok := strings.Cut(w, "="); ok && !strings.Contains(k, ":") {
			if !slices.Contains(scriptOptions, k) {
				s.fail("no such option %s: %s", k, text)
			}
			l.opts[k] = append(l.opts[k], v)
		} else {
			l.words = append(l.words, w)
		}
	}
	f := scriptCommands[l.verb]
	if f == nil {
		s.fail("no such command: %s", text)
	}
	f(s, &l)
}

func (s *script) fail(format string, args ...any) {
	s.t.Helper()
	s.t.Fatalf("%s: %s", s.d.Pos, fmt.Sprintf(format, args...))
}

// word is the i-th word of a command, which must be there.
func (s *script) word(l *scriptLine, i int) string {
	if i >= len(l.words) {
		s.fail("too short: %s", l.text)
	}
	return l.words[i]
}

// opt is an option's value, or what it is without.
func (l *scriptLine) opt(name, without string) string {
	if v := l.opts[name]; len(v) > 0 {
		return v[0]
	}
	return without
}

// flag takes a word out that stands for itself.
func (l *scriptLine) flag(name string) bool {
	i := slices.Index(l.words, name)
	if i >= 0 {
		l.words = slices.Delete(l.words, i, i+1)
	}
	return i >= 0
}

func (s *script) number(v string) int {
	n, err := strconv.Atoi(v)
	if err != nil {
		s.fail("%v", err)
	}
	return n
}

func (s *script) millis(v string) uint64 {
	d, err := time.ParseDuration(v)
	if err != nil {
		s.fail("%v", err)
	}
	return uint64(d.Milliseconds())
}

func (s *script) algorithm(v string) wire.Algorithm {
	a, ok := wire.ParseAlgorithm(v)
	if !ok {
		s.fail("no such algorithm: %s", v)
	}
	return a
}

func (s *script) reason(v string) wire.Reason {
	for r := range wire.ReasonStaleOwner + 1 {
		if r.String() == v {
			return r
		}
	}
	s.fail("no such reason: %s", v)
	return 0
}

// lock reads a path as acquire takes it.
func (s *script) lock(v string) wire.LockRequest {
	parts := strings.Split(v, ",")
	l := wire.LockRequest{Path: parts[0]}
	for _, p := range parts[1:] {
		switch p {
		case "r":
			l.Mode = wire.ModeRead
		case "held":
			l.State = wire.StateHeld
		default:
			l.Permits = uint32(s.number(p))
		}
	}
	return l
}

// released reads a path as release takes it.
func (s *script) released(v string) wire.ReleaseRequest {
	l := s.lock(v)
	return wire.ReleaseRequest{Path: l.Path, Mode: l.Mode}
}

// domains reads names of namespaces as the router hands them to a group: paths
// resolved, and a handler with a colon for all its namespaces.
func (s *script) domains(words []string) (domains []string) {
	for _, w := range words {
		if strings.Contains(w, ":") {
			domains = append(domains, s.routes.Resolve(w))
		} else {
			domains = append(domains, w+":")
		}
	}
	return domains
}

// session names a session by a short word.
func session(name string) (id Session) {
	copy(id[:], name)
	return id
}

// command makes a command with what options any of them may have: key, session,
// epoch, grace (then the lease follows the connection), version of the routes.
func (s *script) command(l *scriptLine, req *wire.Request, ns string) *Command {
	req.Key = l.opt("key", "")
	cmd := &Command{Req: req, NS: ns, Version: s.routes.Version}
	if v := l.opt("version", ""); v != "" {
		cmd.Version = uint64(s.number(v))
	}
	cmd.Caller.Session = session(l.opt("session", req.Owner))
	cmd.Epoch = uint64(s.number(l.opt("epoch", strconv.Itoa(scriptEpoch))))
	if v := l.opt("grace", ""); v != "" && req.Op != wire.OpCancelWait {
		cmd.Bound, cmd.Grace = true, int64(s.millis(v))
	}
	return cmd
}

// apply lets the group take a step with a request.
func (s *script) apply(l *scriptLine, req *wire.Request, ns string) (wire.Result, *Output) {
	return s.at.apply(s.clock, s.command(l, req, ns))
}
