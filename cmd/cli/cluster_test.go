package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/pathlockd/pathlockd/wire"
)

// stage is a cluster of which the test says in which condition it is: what a real one
// is in only now and then. It speaks the native protocol on a real socket.
type stage struct {
	t    *testing.T
	addr string
	mu   sync.Mutex
	doc  *wire.ClusterStatus
	note string
	// asked is called with each request that asks something of a node, and with nil
	// before each look, under mu.
	asked func(req *wire.Request)
	fail  *wire.Error // answers everything, if there
}

// threeNodes is a healthy cluster.
func threeNodes() *wire.ClusterStatus {
	doc := &wire.ClusterStatus{
		ClusterID: "3f0c", Format: 1, Settings: wire.ClusterSettings{GroupCount: 8, LogCount: 2, ReplicationFactor: 3},
		Self:    "n0",
		Healthy: true, Problems: []string{}, Warnings: []string{},
	}
	ids := []string{"n0", "n1", "n2"}
	for _, id := range ids {
		doc.Nodes = append(doc.Nodes, wire.NodeStatus{
			NodeID: id, HostID: "disk-" + id, State: wire.NodeMember, Alive: true, ForMillis: 90_000, Stable: true,
			Placed: true, Drain: "none",
			NativeAddr: id + ":50050", RaftAddr: id + ":50052", LinkAddr: id + ":50053", GossipAddr: id + ":7946",
			Formats:  [2]uint32{1, 2},
			Replicas: 3, Leads: 1,
		})
	}
	for i, name := range []string{"system", "2", "3"} {
		l := wire.LogStatus{Log: uint64(i + 1), Name: name, Healthy: true, Leader: ids[i], Term: 4, Target: ids,
			Step: "settled: 3 voters where they belong", StepMillis: 61_000, Groups: 4 * min(i, 1)}
		for r, id := range ids {
			l.Voters = append(l.Voters, wire.ReplicaStatus{Node: id, Replica: uint64(r + 1), Applied: 700,
				CaughtUp: true})
		}
		doc.Logs = append(doc.Logs, l)
	}
	return doc
}

func newStage(t *testing.T, doc *wire.ClusterStatus) *stage {
	t.Helper()
	return newStageAt(t, doc, "tcp", "127.0.0.1:0")
}

func newStageAt(t *testing.T, doc *wire.ClusterStatus, network, addr string) *stage {
	t.Helper()
	l, err := net.Listen(network, addr)
	if err != nil {
		t.Fatal(err)
	}
	s := &stage{t: t, addr: l.Addr().String(), doc: doc}
	var conns sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(func() {
		cancel()
		l.Close()
		conns.Wait()
	})
	conns.Go(func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			context.AfterFunc(ctx, func() { nc.Close() })
			conns.Go(func() { s.serve(nc) })
		}
	})
	return s
}

func (s *stage) serve(nc net.Conn) {
	defer nc.Close()
	var in []byte
	for {
		payload, size, _, err := wire.NextFrame(in, wire.MaxFrameBytes)
		if err != nil {
			return
		}
		if size == 0 {
			more := make([]byte, 4096)
			n, err := nc.Read(more)
			if err != nil {
				return
			}
			in = append(in, more[:n]...)
			continue
		}
		var req wire.Request
		id, _, _, refusal := wire.DecodeRequest(payload, &req)
		if refusal != nil {
			s.t.Errorf("%v", refusal)
			return
		}
		res := s.answer(&req)
		if _, err := nc.Write(wire.AppendReply(nil, id, req.Op, &res)); err != nil {
			return
		}
		in = in[size:]
	}
}

func (s *stage) answer(req *wire.Request) (res wire.Result) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case req.Op == wire.OpHello:
		limits := wire.Limits{FrameBytes: wire.MaxFrameBytes, InFlight: 16, Waiting: 16, Subscriptions: 16,
			BoundOwners: 16, RepeatMillis: 60_000}
		res.List = &wire.List{Welcome: &wire.Welcome{Version: 1, NodeID: "n0", ClusterID: "3f0c",
			Session: bytes.Repeat([]byte{1}, 16), Epoch: req.Hello.Epoch, Limits: limits}}
		return res
	case req.Op == wire.OpTopology: // the client's own question, as it connects
		res.List = &wire.List{Topology: &wire.Topology{Version: 1, Self: "n0",
			Nodes: []wire.NodeAddr{{NodeID: "n0", Native: s.addr}}}}
		return res
	case s.fail != nil:
		res.Fail(s.fail)
		return res
	case req.Op == wire.OpClusterStatus:
		if s.asked != nil {
			s.asked(nil)
		}
		var err error
		if res.Message, err = s.doc.Encode(); err != nil {
			s.t.Error(err)
		}
		return res
	case req.Op == wire.OpNodeDrain, req.Op == wire.OpNodeRemove, req.Op == wire.OpNodeResume:
		res.Message = s.note
		if req.Op == wire.OpNodeResume {
			res.Message = ""
		}
	}
	if s.asked != nil {
		s.asked(req)
	}
	return res
}

func (s *stage) console() *console { return &console{s.t, []string{"PATHLOCK_ADDR=" + s.addr}} }

// sick is a cluster in which n2 is away, and log 3 moves to a new node.
func sick() *wire.ClusterStatus {
	doc := threeNodes()
	doc.Healthy, doc.Problems = false, []string{"first: do this", "second:\x1b do that"}
	doc.Nodes[2].Alive, doc.Nodes[2].State = false, wire.NodeDead
	doc.Nodes = append(doc.Nodes, wire.NodeStatus{NodeID: "n3", State: wire.NodeJoining, Alive: true, ForMillis: 1500},
		wire.NodeStatus{NodeID: "n4", State: wire.NodeUnknown})
	l := &doc.Logs[2]
	l.Leader, l.Step, l.StepMillis, l.Healthy = "", "wait: no leader", 900, false
	l.Voters[1].CaughtUp, l.Voters[1].Lag = false, 4000
	l.Learners = []wire.ReplicaStatus{{Node: "n3", Replica: 4}}
	l.Target = []string{"n0", "n3", "n5"}
	return doc
}

// TestClusterText: what people are shown of a cluster that is not well.
func TestClusterText(t *testing.T) {
	t.Parallel()
	got := newStage(t, sick()).console().run(ExitOK, "cluster", "status").stdout
	const want = `cluster 3f0c, as n0 sees it: NOT HEALTHY
problem: first: do this
problem: second:\x1b do that

NODE  STATE    FOR    LEADS  REPLICAS  CLIENTS
n0    member   1m30s  1      3         n0:50050
n1    member   1m30s  1      3         n1:50050
n2    dead     1m30s  1      3         n2:50050
n3    joining  1s     0      0         -
n4    unknown  -      0      0         -

LOG     LEADER  TERM  REPLICAS                       STEP                                 FOR
system  n0      4     n0 n1 n2✗                      settled: 3 voters where they belong  1m1s
2       n1      4     n0 n1 n2✗                      settled: 3 voters where they belong  1m1s
3       -       4     n0 n1(-4000) n2✗ +n3(?) →n5    wait: no leader                      900ms
`
	if strings.Join(strings.Fields(got), " ") != strings.Join(strings.Fields(want), " ") {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestManyLogs: of many logs those that are settled are counted.
func TestManyLogs(t *testing.T) {
	t.Parallel()
	doc := threeNodes()
	for i := range uint64(300) {
		l := doc.Logs[1]
		l.Log, l.Name = 4+i, fmt.Sprint(4+i)
		if i == 77 {
			l.Step = "wait: for n2 to catch up"
		}
		doc.Logs = append(doc.Logs, l)
	}
	c := newStage(t, doc).console()
	if out := c.run(ExitOK, "cluster", "status").stdout; !strings.Contains(out,
		"302 logs are settled; --all shows them") || !strings.Contains(out, "for n2 to catch up") ||
		strings.Contains(out, "300") {
		t.Errorf("got\n%s", out)
	}
	if out := c.run(ExitOK, "cluster", "status", "--all").stdout; strings.Count(out, "settled") != 302 {
		t.Errorf("got\n%s", out)
	}
}

// TestClusterHealthNodes: with a number of nodes, a cluster is healthy only once so many are
// seen and placed.
func TestClusterHealthNodes(t *testing.T) {
	t.Parallel()
	s := newStage(t, threeNodes())
	c := s.console()
	c.run(ExitOK, "cluster", "health", "--nodes", "3")
	r := c.run(ExitUnavailable, "cluster", "health", "--nodes", "4")
	if !strings.Contains(r.stderr, "3 nodes are placed, and --nodes says 4") {
		t.Errorf("got %q", r.stderr)
	}
	s.doc.Nodes[1].Placed, s.doc.Nodes[2].Alive = false, false
	r = c.run(ExitTimeout, "cluster", "health", "--nodes", "2", "--wait=600ms", "--json")
	if !strings.Contains(r.stdout, "1 node is placed, and --nodes says 2") ||
		!strings.Contains(r.stdout, `"healthy":false`) {
		t.Errorf("got %q", r.stdout)
	}
	c.run(ExitUsage, "cluster", "health", "--nodes", "0")
}

// TestClusterHealth: the exit code and data.healthy tell the same.
func TestClusterHealth(t *testing.T) {
	t.Parallel()
	s := newStage(t, sick())
	c := s.console()
	r := c.run(ExitUnavailable, "cluster", "health")
	if r.stdout != "" || r.stderr != "pathlock: unhealthy, says n0\n  first: do this\n  second:\\x1b do that\n" {
		t.Errorf("got %q %q", r.stdout, r.stderr)
	}
	var e struct {
		OK    bool
		Data  struct{ Healthy *bool }
		Error struct{ Code string }
	}
	r = c.run(ExitUnavailable, "cluster", "health", "--json")
	if err := json.Unmarshal([]byte(r.stdout), &e); err != nil || e.OK || e.Data.Healthy == nil || *e.Data.Healthy ||
		e.Error.Code != codeUnhealthy {
		t.Errorf("%v: %s", err, r.stdout)
	}
	r = c.run(ExitTimeout, "cluster", "health", "--wait=700ms", "--json")
	if !strings.Contains(r.stdout, `"code":"WAIT_TIMEOUT"`) || !strings.Contains(r.stdout, `"healthy":false`) {
		t.Errorf("a wait that is over: %s", r.stdout)
	}
	for _, command := range []string{"status", "members"} {
		var data struct{ Healthy bool }
		if c.data(&data, "cluster", command); data.Healthy {
			t.Errorf("%s says that it is healthy", command)
		}
	}
	looks := 0
	s.asked = func(*wire.Request) {
		if looks++; looks == 2 {
			s.doc = threeNodes()
		}
	}
	if r := c.run(ExitOK, "cluster", "health", "--wait"); !strings.Contains(r.stdout, "healthy: 3 nodes, 3 logs") ||
		looks != 2 {
		t.Errorf("after %d looks: %s", looks, r.stdout)
	}
	s.doc.Problems = []string{"n2 has 60 MiB free: make room there"} // which no log suffers from
	want := "healthy: 3 nodes, 3 logs, each with a leader and all its voters\nproblem: n2 has 60 MiB free: make " +
		"room there\n"
	if r := c.run(ExitOK, "cluster", "health"); r.stdout != want {
		t.Errorf("with a problem beside it: %q, want %q", r.stdout, want)
	}
}

// TestHealthWaitsForTheServer: with --wait, one that is not up yet is asked again.
func TestHealthWaitsForTheServer(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "s")
	told, stderr := io.Pipe()
	var out bytes.Buffer
	a := &app{environ: []string{"PATHLOCK_ADDR=unix:" + socket}, stdin: strings.NewReader(""), stdout: &out,
		stderr: stderr}
	code := make(chan int, 1)
	go func() {
		code <- a.main(t.Context(), []string{"cluster", "health", "--wait"})
		stderr.Close()
	}()
	lines := bufio.NewScanner(told)
	if !lines.Scan() || !strings.Contains(lines.Text(), "cannot reach the server") ||
		!strings.Contains(lines.Text(), "trying again") {
		t.Fatalf("it says %q", lines.Text())
	}
	newStageAt(t, threeNodes(), "unix", socket)
	for lines.Scan() {
		t.Errorf("it says %q", lines.Text())
	}
	if got := <-code; got != ExitOK || !strings.Contains(out.String(), "healthy: 3 nodes") {
		t.Errorf("exit code %d: %s", got, out.String())
	}
	bad := &console{t, []string{"PATHLOCK_ADDR=nowhere"}}
	bad.run(ExitUsage, "cluster", "health", "--wait") // is no server to wait for
}

// TestDrainWaits: node drain --wait tells how it goes, and ends when nothing is left
// and nothing is unknown.
func TestDrainWaits(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		args   []string
		steps  []func(*wire.ClusterStatus) // before each look
		code   int
		stdout string
		stderr []string
	}{
		{"replicas", []string{"--wait"}, []func(*wire.ClusterStatus){
			func(d *wire.ClusterStatus) { d.Nodes[1].Leads = 0 },
			func(d *wire.ClusterStatus) { d.Nodes[1].Replicas = 0; d.Logs[0].Voters = nil },
			func(d *wire.ClusterStatus) { d.Logs[0].Voters = d.Logs[1].Voters },
		}, ExitOK, "n1 holds nothing: it can be stopped; then: pathlock node remove n1\n",
			// not twice: what is not known is not told
			[]string{"n1: mind this", "n1 holds 3 replicas and leads 0 logs", "n1 holds 0 replicas and leads 0 logs"}},
		{"leads", []string{"--leads", "--wait"}, []func(*wire.ClusterStatus){
			func(d *wire.ClusterStatus) { d.Nodes[1].Drain = "leads" },
			func(d *wire.ClusterStatus) { d.Nodes[1].Leads = 0 },
		}, ExitOK, "n1 leads nothing: it can be restarted; then: pathlock node resume n1\n",
			[]string{"n1: mind this", "n1 holds 3 replicas and leads 1 log", "n1 holds 3 replicas and leads 0 logs"}},
		{"forgotten", []string{"--wait"}, []func(*wire.ClusterStatus){
			func(d *wire.ClusterStatus) { d.Nodes = slices.Delete(d.Nodes, 1, 2) },
		}, ExitOK, "n1 holds nothing: it can be stopped; then: pathlock node remove n1\n", []string{"n1: mind this"}},
		{"taken back", []string{"--wait"}, []func(*wire.ClusterStatus){
			func(d *wire.ClusterStatus) { d.Nodes[1].Drain = "none" },
		}, ExitFailed, "", []string{"n1: mind this", "n1 holds 3 replicas and leads 1 log",
			"n1 is not drained any more: somebody took that back"}},
		{"over", []string{"--wait=700ms"}, nil, ExitTimeout, "",
			[]string{"n1: mind this", "n1 holds 3 replicas and leads 1 log",
				"n1 is not empty within 700ms; it is still being drained"}},
		{"no wait", nil, nil, ExitOK,
			"n1 is being drained (replicas); see how it goes: pathlock cluster status --watch\nnote: mind this\n", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, threeNodes())
			s.note, s.doc.Nodes[1].Drain = "mind this", "replicas"
			var req wire.Request
			s.asked = func(r *wire.Request) {
				switch {
				case r != nil:
					req = *r
				case len(c.steps) > 0:
					c.steps[0](s.doc)
					c.steps = c.steps[1:]
				}
			}
			r := s.console().run(c.code, append([]string{"node", "drain", "n1"}, c.args...)...)
			var said []string
			for line := range strings.Lines(r.stderr) {
				if line, ok := strings.CutPrefix(strings.TrimSpace(line), "pathlock: "); ok {
					said = append(said, line)
				}
			}
			if r.stdout != c.stdout || !slices.Equal(said, c.stderr) {
				t.Errorf("got %q\n%q", r.stdout, said)
			}
			mode := wire.DrainReplicas
			if slices.Contains(c.args, "--leads") {
				mode = wire.DrainLeads
			}
			if req.Op != wire.OpNodeDrain || req.Drain != mode {
				t.Errorf("asked %v %v", req.Op, req.Drain)
			}
		})
	}
}

// TestRemoveAsks: what remove and resume ask, and say.
func TestRemoveAsks(t *testing.T) {
	t.Parallel()
	s := newStage(t, threeNodes())
	s.note = "mind this"
	var got []string
	s.asked = func(r *wire.Request) { got = append(got, fmt.Sprint(r.Op, " ", r.Node, " ", r.Explicit)) }
	c := s.console()
	out := c.run(ExitOK, "node", "remove", "n1").stdout + c.run(ExitOK, "node", "remove", "n1", "--force",
		"--json").stdout + c.run(ExitOK, "node", "resume", "n1").stdout
	if want := []string{"node_remove n1 false", "node_remove n1 true", "node_resume n1 false"}; !slices.Equal(got,
		want) {
		t.Errorf("asked %q", got)
	}
	const want = "n1 is given up\nnote: mind this\n" +
		`{"schema_version":1,"ok":true,"data":{"node":"n1","drain":"removed","note":"mind this"}}` +
		"\nn1 is used again\n"
	if out != want {
		t.Errorf("said %q", out)
	}
}

// TestWatchCluster: where there is no terminal each change is written once, and a look
// that fails is told and the next one tried.
func TestWatchCluster(t *testing.T) {
	t.Parallel()
	s := newStage(t, threeNodes())
	looks := 0
	s.asked = func(*wire.Request) {
		looks++
		s.doc.Nodes[0].ForMillis += 1000 // which is no change
		switch looks {
		case 3:
			s.doc = sick()
		case 4:
			s.fail = wire.Errorf(wire.Unavailable, "nobody home")
		}
	}
	r := s.console().run(ExitOK, "cluster", "status", "--watch", "--every", "100ms", "--count", "6",
		"--timeout", "300ms")
	if strings.Count(r.stdout, "as n0 sees it") != 2 || strings.Count(r.stdout, "NOT HEALTHY") != 1 ||
		strings.Count(r.stderr, "\n") != 1 || !strings.HasPrefix(r.stderr, "pathlock: no answer, trying again: ") {
		t.Errorf("watched:\n%s%s", r.stdout, r.stderr)
	}
	s.mu.Lock()
	s.fail, s.asked = nil, nil
	s.mu.Unlock()
	lines := s.console().run(ExitOK, "cluster", "status", "--watch", "--every", "100ms", "--count", "3",
		"--json").stdout
	if strings.Count(lines, `"healthy":false,"problems"`) != 3 || strings.Count(lines, "\n") != 3 {
		t.Errorf("as JSON:\n%s", lines)
	}
}

// TestWatchEnds: Ctrl-C, or a server that does not know the operation, ends a watch.
func TestWatchEnds(t *testing.T) {
	t.Parallel()
	s := newStage(t, threeNodes())
	ctx, cancel := context.WithCancelCause(t.Context())
	s.asked = func(*wire.Request) { cancel(&signalError{2}) }
	if r := s.console().do(ctx, "cluster", "status", "--watch"); r.code != exitSignal+2 {
		t.Errorf("exit code %d: %s", r.code, r.stderr)
	}
	s.mu.Lock()
	s.fail, s.asked = wire.Errorf(wire.Unimplemented, "op 50: not known to this server"), nil
	s.mu.Unlock()
	if r := s.console().run(ExitFailed, "cluster", "status", "--watch"); !strings.Contains(r.stderr,
		"not known to this server") {
		t.Errorf("an older server: %s", r.stderr)
	}
	if r := s.console().run(ExitFailed, "cluster", "health", "--wait"); !strings.Contains(r.stderr,
		"not known to this server") {
		t.Errorf("an older server: %s", r.stderr)
	}
}

// TestFrame: a view on a terminal never scrolls, and leaves nothing of the last one.
func TestFrame(t *testing.T) {
	t.Parallel()
	draw := func(text string, width, height int, first bool) string {
		var b bytes.Buffer
		frame(&b, text, width, height, first)
		return strings.NewReplacer("\x1b[2J", "<clear>", "\x1b[H", "<top>", "\x1b[K\r\n", "|", "\x1b[J",
			"<below>").Replace(b.String())
	}
	for _, c := range []struct {
		text          string
		width, height int
		first         bool
		want          string
	}{
		{"a\nb\n", 80, 24, true, "<clear><top>a|b|<below>"},
		{"a\nb\n", 80, 24, false, "<top>a|b|<below>"},
		{"1\n2\n3\n4\n", 80, 5, false, "<top>1|2|3|4|<below>"},
		{"1\n2\n3\n4\n5\n", 80, 5, false, "<top>1|2|3|… and 2 more lines|<below>"},
		{"abcdef\nüüüüü", 5, 24, false, "<top>abcd…|üüüüü|<below>"},
		{"a\nb\nc\n", 0, 0, false, "<top>a|… and 2 more lines|<below>"},
	} {
		if got := draw(c.text, c.width, c.height, c.first); got != c.want {
			t.Errorf("%q in %d×%d: %s, want %s", c.text, c.width, c.height, got, c.want)
		}
	}
}

// TestEmptied: a node is not told to be empty while somebody may not have told.
func TestEmptied(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		change func(d *wire.ClusterStatus)
		drain  wire.Drain
		done   bool
	}{
		{"holds replicas", func(d *wire.ClusterStatus) { d.Nodes[1].Leads = 0 }, wire.DrainReplicas, false},
		{"leads nothing", func(d *wire.ClusterStatus) { d.Nodes[1].Leads = 0 }, wire.DrainLeads, true},
		{"leads", func(*wire.ClusterStatus) {}, wire.DrainLeads, false},
		{"leads nothing, and a log has no leader",
			func(d *wire.ClusterStatus) { d.Nodes[1].Leads = 0; d.Logs[0].Leader = "" }, wire.DrainLeads, false},
		{"holds nothing", func(d *wire.ClusterStatus) { d.Nodes[1].Replicas = 0 }, wire.DrainReplicas, true},
		{"holds nothing that was told", func(d *wire.ClusterStatus) { d.Nodes[1].Replicas = 0; d.Logs[2].Voters = nil },
			wire.DrainReplicas, false},
		{"is not there", func(d *wire.ClusterStatus) { d.Nodes = d.Nodes[:1] }, wire.DrainReplicas, true},
	} {
		doc := threeNodes()
		doc.Nodes[1].Drain = c.drain.String()
		c.change(doc)
		if _, done, err := emptied(doc, "n1", c.drain); done != c.done || err != nil {
			t.Errorf("%s: %v, %v", c.name, done, err)
		}
	}
}

// TestDeadServer: the commands of operators say where they looked.
func TestDeadServer(t *testing.T) {
	t.Parallel()
	c := &console{t, []string{"PATHLOCK_ADDR=127.0.0.1:1"}}
	r := c.do(t.Context(), "cluster", "health", "--timeout", "200ms")
	if r.code != ExitUnavailable || !strings.Contains(r.stderr, "cannot reach the server") {
		t.Errorf("exit code %d: %s", r.code, r.stderr)
	}
}
