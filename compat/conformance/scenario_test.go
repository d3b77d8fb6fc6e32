package conformance_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// scenario is what one client after the other does, and what comes of it.
type scenario struct {
	title string
	file  string
	line  int
	node  string   // which of the nodes it runs on
	faces []string // where it can run; none: everywhere
	steps []step
}

// step is one line of a scenario.
type step struct {
	line       int
	verb       string // call, start, ends, told, cancel, drop, subscribe, event, check
	name       string // of an open call or a subscription
	rpc        string
	words      []string // of the request; of an event or a relation
	eventually bool
	want       []string // words of the expected answer
	code       string   // or the expected refusal,
	says       string   // and a pattern for its message
}

// rpcs are the names of the RPCs in scenarios, besides those of the .proto in
// lowerCamel.
var rpcs = map[string]string{
	"kill": "ForceRelease", "assert": "AssertFencing", "cycle": "DetectCycle", "blocking": "IsBlocking",
	"incr": "IncrFencingToken", "setEdge": "SetWaitEdge", "clearEdge": "ClearWaitEdge", "alive": "IsOwnerAlive",
	"revoke": "RequestRevoke", "setPolicy": "SetNamespacePolicy", "getPolicy": "GetNamespacePolicy",
	"deletePolicy": "DeleteNamespacePolicy", "inspect": "InspectPath", "list": "ListOwnerLocks",
	"dump": "DumpLocks", "dumpOwn": "DumpLocks", "scanOwn": "ScanLocks", "describe": "DescribePath",
	"scan": "ScanLocks",
}

// rpcOf is the RPC that a word of a scenario names, "" when there is none.
func rpcOf(word string) string {
	if rpc, ok := rpcs[word]; ok {
		return rpc
	}
	if word == "" {
		return ""
	}
	rpc := strings.ToUpper(word[:1]) + word[1:]
	if method(rpc) == nil || rpc == word {
		return ""
	}
	return rpc
}

// load reads all scenarios.
func load(t testing.TB) []*scenario {
	t.Helper()
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	var all []*scenario
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		list, err := parse(filepath.Base(file), string(text))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, list...)
	}
	return all
}

// parse reads a file: "## title" begins a scenario, "# …" is a comment.
func parse(file, text string) ([]*scenario, error) {
	var all []*scenario
	var now *scenario
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		title, begins := strings.CutPrefix(line, "## ")
		switch {
		case begins:
			now = &scenario{title: title, file: file, line: i + 1, node: "main"}
			all = append(all, now)
			continue
		case line == "" || strings.HasPrefix(line, "#"):
			continue
		case now == nil:
			return nil, fmt.Errorf("%s:%d: a step before the first scenario", file, i+1)
		}
		word, rest, _ := strings.Cut(line, " ")
		switch word {
		case "node":
			now.node = rest
			continue
		case "faces":
			now.faces = strings.Fields(rest)
			continue
		}
		for _, line := range times(line) {
			s, err := parseStep(line)
			if err != nil {
				return nil, fmt.Errorf("%s:%d: %w", file, i+1, err)
			}
			s.line = i + 1
			now.steps = append(now.steps, s)
		}
	}
	return all, nil
}

// times repeats a line "for 0..9 …", with the number for %i and the next one for %j.
func times(line string) []string {
	word, rest, _ := strings.Cut(line, " ")
	span, step, _ := strings.Cut(rest, " ")
	var from, to int
	if _, err := fmt.Sscanf(span, "%d..%d", &from, &to); word != "for" || err != nil {
		return []string{line}
	}
	var lines []string
	for i := from; i <= to; i++ {
		lines = append(lines, strings.NewReplacer("%i", strconv.Itoa(i), "%j", strconv.Itoa(i+1)).Replace(step))
	}
	return lines
}

func parseStep(line string) (s step, err error) {
	does, wants, _ := strings.Cut(line, " -> ")
	words := split(does)
	if words[0] == "eventually" {
		s.eventually, words = true, words[1:]
	}
	s.verb = words[0]
	switch s.verb {
	case "check":
		s.words = words[1:]
		return s, nil
	case "start":
		s.name, s.rpc, s.words = words[1], rpcOf(words[2]), words[3:]
	case "ends", "told", "cancel", "drop":
		s.name = words[1]
	case "subscribe":
		s.name, s.rpc, s.words = words[1], "Subscribe", words[2:]
	case "event":
		s.name, s.words = words[1], words[2:]
		return s, nil
	default:
		s.rpc, s.words = rpcOf(s.verb), words[1:]
		if !strings.HasSuffix(s.verb, "Own") {
			s.verb = "call"
		}
	}
	if s.rpc == "" && s.name == "" {
		return s, fmt.Errorf("%q is no step", words[0])
	}
	if code, refused := strings.CutPrefix(strings.TrimSpace(wants), "! "); refused {
		s.code, s.says, _ = strings.Cut(code, " ")
		return s, nil
	}
	s.want = split(strings.TrimSpace(wants))
	return s, nil
}

// on says whether a scenario can run over a face.
func (s *scenario) on(name string, f face) bool {
	if len(s.faces) > 0 {
		return slices.Contains(s.faces, name)
	}
	for _, st := range s.steps {
		if st.rpc != "" && st.rpc != "Subscribe" && !f.has(st.rpc) {
			return false
		}
	}
	return true
}

// output is the type of what an RPC answers.
func output(rpc string) protoreflect.MessageDescriptor { return method(rpc).Output() }
