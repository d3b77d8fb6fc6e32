package daemon

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	golock "github.com/pathlockd/pathlockd/clients/go"
	"github.com/pathlockd/pathlockd/cmd/cli"
	"github.com/pathlockd/pathlockd/internal/testkit/server"
	"github.com/pathlockd/pathlockd/wire"
)

// door is what nodes say of their cluster while it is put together.
type door struct {
	mu sync.Mutex
	// up is since when each node has answered.
	up      map[string]time.Time
	seen    map[string]map[string]bool // by who said so, every node that it has seen
	early   []string                   // what was said too early
	answers int
	full    map[string]bool // nodes that say healthy, of as many as there are to be
}

// poll asks a node every 20 ms from its first answer on.
func (d *door) poll(ctx context.Context, addr string, nodes int) {
	var c *golock.Client
	for again := time.NewTicker(20 * time.Millisecond); ctx.Err() == nil; {
		if c == nil {
			one, cancel := context.WithTimeout(ctx, time.Second)
			c, _ = golock.Dial(one, addr)
			cancel()
		}
		if c != nil {
			asked := time.Now()
			if doc, err := c.ClusterStatus(ctx); err == nil {
				d.check(doc, asked, nodes)
			}
		}
		select {
		case <-again.C:
		case <-ctx.Done():
		}
	}
	if c != nil {
		c.Close()
	}
}

// check holds an answer against the rules: healthy is not said while a node that is seen is not placed, and, from
// when every node is up, not while the end of one node would stop a log.
func (d *door) check(doc *wire.ClusterStatus, asked time.Time, nodes int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.answers++
	if d.up[doc.Self].IsZero() {
		d.up[doc.Self] = time.Now()
		d.seen[doc.Self] = make(map[string]bool)
	}
	for _, n := range doc.Nodes {
		d.seen[doc.Self][n.NodeID] = true
	}
	if !doc.Healthy {
		return
	}
	wrong := func(format string, args ...any) {
		d.early = append(d.early, fmt.Sprintf("%s says healthy, and ", doc.Self)+fmt.Sprintf(format, args...))
	}
	for id := range d.seen[doc.Self] {
		at := slices.IndexFunc(doc.Nodes, func(n wire.NodeStatus) bool { return n.NodeID == id })
		if at < 0 || !doc.Nodes[at].Placed {
			wrong("%s is seen and not placed", id)
		}
	}
	all := len(d.up) == nodes
	for _, up := range d.up {
		all = all && up.Before(asked)
	}
	if !all {
		return
	}
	for _, l := range doc.Logs {
		if len(l.Voters) < 3 {
			wrong("log %s has %d voters while %d nodes are up, of which it has seen %d", l.Name, len(l.Voters), nodes,
				len(d.seen[doc.Self]))
		}
	}
	d.full[doc.Self] = true
}

// TestHealthAtTheDoor: three nodes are started one after the other, and asked how their cluster is from their first
// answers on. None says healthy before all that it sees are placed. `cluster health --wait --nodes 3` ends when any of
// them may be killed: the founder is, at once, and locks go on.
func TestHealthAtTheDoor(t *testing.T) {
	t.Parallel()
	const nodes = 3
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	d := &door{up: make(map[string]time.Time), seen: make(map[string]map[string]bool), full: make(map[string]bool)}
	var polls sync.WaitGroup
	defer polls.Wait()
	defer cancel()
	free := func() string {
		addr, err := server.FreeAddr()
		if err != nil {
			t.Fatal(err)
		}
		return addr
	}
	gossip := free()
	var at []string
	var founder *process
	health := make(chan string, 1)
	for i := range nodes {
		addr := free()
		at = append(at, addr)
		args := []string{
			"--data_dir=data", fmt.Sprintf("--node_id=n-%d", i),
			"--internal_auth_token=0123456789abcdef0123456789abcdef",
			"--native_listen=" + addr, "--raft_addr=127.0.0.1:0", "--stability_window_secs=2", "--group_count=16",
			"--log_count=4",
		}
		if i == 0 {
			args = append(args, "--bootstrap", "--gossip_addr="+gossip)
		} else {
			args = append(args, "--gossip_addr=127.0.0.1:0", "--seed_nodes="+gossip)
		}
		p := runPathlockd(t, t.TempDir(), args...)
		polls.Go(func() { d.poll(ctx, addr, nodes) })
		if i == 0 {
			founder = p
			go func() {
				var out bytes.Buffer
				code := cli.Main([]string{"cluster", "health", "--wait=60s", "--nodes=3", "--addr=" + addr}, nil,
					strings.NewReader(""), &out, &out)
				health <- fmt.Sprintf("%d %s", code, out.String())
			}()
		}
		if !within(func() bool { // the next is started as soon as this one answers
			d.mu.Lock()
			defer d.mu.Unlock()
			return len(d.up) == i+1
		}) {
			t.Fatal("it does not answer")
		}
	}
	if said := <-health; !strings.HasPrefix(said, "0 ") || !strings.Contains(said, "healthy: 3 nodes") {
		t.Fatalf("cluster health: %s", said)
	}
	founder.signal(syscall.SIGKILL)
	founder.exit()
	c, err := golock.Dial(ctx, at[1]+","+at[2])
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for i := range 8 { // in every log
		l, err := c.Lock(ctx, fmt.Sprintf("t:/n%d/x", i), golock.TTL(time.Minute))
		if err != nil {
			t.Fatalf("the founder was killed when the cluster was healthy: %v", err)
		}
		if err := l.Unlock(); err != nil {
			t.Error(err)
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for i, e := range d.early {
		if i == 10 {
			t.Errorf("and %d more", len(d.early)-i)
			break
		}
		t.Error(e)
	}
	t.Logf("%d answers; %d nodes said healthy of all", d.answers, len(d.full))
}
