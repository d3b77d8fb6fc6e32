package gossip

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"
)

func ask(t *testing.T, within time.Duration, q Ask) []Answer {
	t.Helper()
	q.Log = slog.New(slog.NewTextHandler(everything, &slog.HandlerOptions{Level: slog.LevelDebug}))
	if q.Token == "" {
		q.Token = tokenOf(t)
	}
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	answers, err := q.probe(ctx, &oneHost)
	if err != nil {
		t.Fatal(err)
	}
	return answers
}

// TestProbe asks a member, one that is joining, one with another token, one that says
// nothing, nobody, and itself.
func TestProbe(t *testing.T) {
	t.Parallel()
	a := start(t, 1)
	b := start(t, 2, seeds(a), self(func(r *Record) { r.State = Joining }))
	allSee(t, a, b)
	stranger := start(t, 3, func(c *Config) { c.Token += "!" })
	own := nobody(t)
	names := []string{
		own, fmt.Sprintf("localhost:%d", port(t, own)), // itself
		nobody(t), deaf(t), "no-such-host.invalid:1", stranger.GossipAddr(), b.GossipAddr(),
		fmt.Sprintf("localhost:%d", port(t, a.GossipAddr())),
	}
	answers := ask(t, patience/2, Ask{Seeds: names, Bind: own})
	if len(answers) != 6 {
		t.Fatalf("%d answers, want 6: its own addresses are no seeds", len(answers))
	}
	for i, want := range []struct {
		founded bool
		err     error
		node    string
	}{{err: errAny}, {err: errAny}, {err: errAny}, {err: ErrToken}, {node: "node-2"}, {node: "node-1", founded: true}} {
		got := answers[i]
		if got.Seed != names[i+2] || got.Founded != want.founded || got.NodeID != want.node ||
			(want.err == nil) != (got.Err == nil) || errors.Is(want.err, ErrToken) && !errors.Is(got.Err, ErrToken) {
			t.Errorf("%s: %+v, want %+v", names[i+2], got, want)
		}
		if got.Err != nil && !strings.Contains(got.Err.Error(), got.Seed) {
			t.Errorf("%q does not name the seed %s", got.Err, got.Seed)
		}
	}
	found, err := ClusterOf(answers)
	if err != nil || found == nil || found.ClusterID != clusterA || !maps.Equal(found.Settings, a.config.Settings) {
		t.Errorf("the cluster is %+v (%v), want %s with its settings", found, err, clusterA)
	}
	for _, n := range []*node{a, b} {
		if !n.knows("node-1", "node-2") {
			t.Errorf("%s took the asker in: %v", n.name, n.Members.Members())
		}
		if lines := n.log.lines("level=WARN", "refused a node"); len(lines) > 0 {
			t.Errorf("%s warned about being asked: %q", n.name, lines)
		}
	}
}

var errAny = errors.New("any")

// TestProbeWithoutCluster asks where there is none: the answer comes when the time is
// up, because a founded one may just be starting.
func TestProbeWithoutCluster(t *testing.T) {
	t.Parallel()
	b := start(t, 2, self(func(r *Record) { r.State = Joining }))
	var answers []Answer
	eventually(t, "b answers within the time", func() bool {
		answers = ask(t, 300*time.Millisecond, Ask{Seeds: []string{b.GossipAddr(), nobody(t)}})
		return answers[0].Err == nil
	})
	if len(answers) != 2 || answers[0].Founded || answers[0].NodeID != "node-2" || answers[1].Err == nil {
		t.Errorf("answers are %+v", answers)
	}
	if found, err := ClusterOf(answers); found != nil || err != nil {
		t.Errorf("a cluster was found: %+v (%v)", found, err)
	}
	// It becomes one while it is asked.
	asked := func() int { return len(b.log.lines("Failed push/pull merge", errAsking.Error())) }
	before := asked()
	done := make(chan []Answer)
	go func() { done <- ask(t, patience/2, Ask{Seeds: []string{b.GossipAddr()}}) }()
	eventually(t, "b said that it is none", func() bool { return asked() > before })
	if err := b.Update(func(r *Record) { r.State = Member }); err != nil {
		t.Fatal(err)
	}
	if answers := <-done; len(answers) != 1 || !answers[0].Founded {
		t.Errorf("answers are %+v", answers)
	}
}

// TestProbeKeepsAnAnswer asks one that answers once and then says nothing: that the time
// is up hides nothing that was said.
func TestProbeKeepsAnAnswer(t *testing.T) {
	t.Parallel()
	b := start(t, 2, self(func(r *Record) { r.State = Joining }))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	go func() {
		defer cancel()
		first, err := l.Accept()
		if err != nil {
			return
		}
		there, err := net.Dial("tcp", b.GossipAddr())
		if err != nil {
			return
		}
		go func() { _, _ = io.Copy(there, first) }()
		_, _ = io.Copy(first, there)
		_, _ = first.Close(), there.Close()
		if second, err := l.Accept(); err == nil {
			cancel()
			_ = second.Close()
		}
	}()
	question := Ask{Token: tokenOf(t), Seeds: []string{l.Addr().String()}}
	answers, err := question.probe(ctx, &oneHost)
	if err != nil || len(answers) != 1 || answers[0].Err != nil || answers[0].NodeID != "node-2" || answers[0].Founded {
		t.Errorf("answers are %+v, %v", answers, err)
	}
}

// TestProbeOfTwoClusters finds both, which is for the operator to mend.
func TestProbeOfTwoClusters(t *testing.T) {
	t.Parallel()
	a := start(t, 1)
	b := start(t, 2, self(func(r *Record) { r.ClusterID = clusterB }))
	var err error
	eventually(t, "both answer", func() bool {
		answers := ask(t, patience/2, Ask{Seeds: []string{a.GossipAddr(), b.GossipAddr()}})
		_, err = ClusterOf(answers)
		return answers[0].Err == nil && answers[1].Err == nil
	})
	if err == nil || !strings.Contains(err.Error(), clusterA) || !strings.Contains(err.Error(), clusterB) {
		t.Errorf("%v, want both cluster ids", err)
	}
}

// TestProbeRefusesBadQuestions asks with what cannot be asked with.
func TestProbeRefusesBadQuestions(t *testing.T) {
	t.Parallel()
	for _, q := range []Ask{
		{Token: "too short", Seeds: []string{"a:1"}},
		{Token: token, Seeds: []string{"no port"}},
		{Token: token, Seeds: make([]string, maxSeeds+1)},
	} {
		if _, err := Probe(context.Background(), q); err == nil {
			t.Errorf("asked %v", q.Seeds)
		} else if strings.Contains(err.Error(), "too short") {
			t.Errorf("%q shows the token", err)
		}
	}
}

// TestAnswerLimits reads settings up to the limits, and no more of them and no longer ones.
func TestAnswerLimits(t *testing.T) {
	rec := sample()
	long := strings.Repeat("x", maxSettingBytes)
	many := map[string]string{long: long}
	for i := range maxSettings - 1 {
		many[fmt.Sprint(i)] = "v"
	}
	if a, err := decodeAnswer(encodeAnswer(&rec, many)); err != nil || !maps.Equal(a.Settings, many) ||
		a.NodeID != rec.NodeID || a.ClusterID != rec.ClusterID {
		t.Errorf("what is allowed is %+v, %v", a, err)
	}
	more := maps.Clone(many)
	more["one more"] = "v"
	for name, settings := range map[string]map[string]string{"too many": more, "a long name": {long + "x": ""},
		"a long value": {"": long + "x"}} {
		if checkSettings(settings) == nil {
			t.Errorf("%s: a node starts with them", name)
		}
		if _, err := decodeAnswer(encodeAnswer(&rec, settings)); !errors.Is(err, ErrRecord) {
			t.Errorf("%s: %v, want %v", name, err, ErrRecord)
		}
	}
}

// TestProbeOfAName asks a name that stands for the node itself and for another one, as
// that of a headless service does: the other is asked. One that stands for the node alone
// is no seed.
func TestProbeOfAName(t *testing.T) {
	t.Parallel()
	a := start(t, 1)
	own := netip.MustParseAddrPort(nobody(t))
	name := "pathlockd.example:7946"
	for _, c := range []struct {
		addrs []netip.AddrPort
		want  int
	}{{[]netip.AddrPort{own, netip.MustParseAddrPort(a.GossipAddr())}, 1},
		{[]netip.AddrPort{own, netip.AddrPortFrom(netip.IPv6Loopback(), own.Port())}, 0}} {
		answers := ask(t, patience/2, Ask{Seeds: []string{name}, Bind: own.String(),
			lookup: func(context.Context, string) ([]netip.AddrPort, error) {
				return c.addrs, nil
			}})
		if len(answers) != c.want {
			t.Fatalf("%v: %d answers, want %d", c.addrs, len(answers), c.want)
		}
		if c.want > 0 && (!answers[0].Founded || answers[0].Addr != a.GossipAddr() || answers[0].Seed != name) {
			t.Errorf("the answer is %+v", answers[0])
		}
	}
}

// TestProbeTellsThatItWaits says once, after its first round, who does not answer.
func TestProbeTellsThatItWaits(t *testing.T) {
	t.Parallel()
	b := start(t, 2, self(func(r *Record) { r.State = Joining }))
	silent := nobody(t)
	told := make(chan []Answer, 8)
	done := make(chan []Answer)
	go func() {
		done <- ask(t, patience/2, Ask{Seeds: []string{b.GossipAddr(), silent},
			Waiting: func(a []Answer) { told <- a }})
	}()
	first := <-told
	if len(first) != 2 || first[1].Seed != silent || first[1].Err == nil || first[0].Founded {
		t.Errorf("it tells %+v", first)
	}
	asked := func() int { return len(b.log.lines("Failed push/pull merge", errAsking.Error())) }
	before := asked()
	eventually(t, "more rounds", func() bool { return asked() > before+2 })
	if err := b.Update(func(r *Record) { r.State = Member }); err != nil {
		t.Fatal(err)
	}
	<-done
	if len(told) > 0 {
		t.Errorf("it tells again: %+v", <-told)
	}
}
