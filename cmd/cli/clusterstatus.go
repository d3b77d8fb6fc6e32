package cli

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	pathlockd "github.com/pathlockd/pathlockd/clients/go"
	"github.com/pathlockd/pathlockd/wire"
)

// manyLogs is how many logs cluster status shows one by one; of more it shows those
// that are not settled.
const manyLogs = 24

const clusterStatusLong = `Show the nodes and the logs of the cluster, and what is wrong with it.

Of each log: who leads it; where its voters are, with how many entries one is behind
if it has to catch up, ✗ if its node is not seen, and + before a replica that has no
vote; and what is done about it now, or waited for, and since when. The exit code is 0
whatever the condition of the cluster is; see pathlock cluster health.

--watch draws it anew until Ctrl-C; where standard output is no terminal, each change
is written below the last. With --json it is one line each time.`

func (a *app) clusterStatusCmd() *cobra.Command {
	var (
		watch, all bool
		most       uint32
		every      = time.Second
	)
	var cmd *cobra.Command
	cmd = &cobra.Command{
		Use: "status", Short: "Show nodes, logs and what is wrong", Long: clusterStatusLong, Args: takes(),
		Example: `  pathlock cluster status
  pathlock cluster status --watch --addr 10.0.0.1:50050,10.0.0.2:50050
  pathlock cluster status --json | jq .data.healthy`,
		RunE: body(func(ctx context.Context, _ []string) error {
			if !watch && (cmd.Flags().Changed("every") || cmd.Flags().Changed("count")) {
				return usage("cluster status: --every and --count go with --watch")
			}
			if watch {
				c, err := a.dial(ctx)
				if err != nil {
					return err
				}
				defer c.Close()
				return a.watchCluster(ctx, c, every, most, all)
			}
			return a.asking(ctx, func(ctx context.Context, c *pathlockd.Client) error {
				doc, err := c.ClusterStatus(ctx)
				if err != nil {
					return err
				}
				return a.answer(doc, func(b *bytes.Buffer) { clusterText(b, doc, all) })
			})
		}),
	}
	fs := cmd.Flags()
	fs.BoolVar(&watch, "watch", false, "draw it anew until Ctrl-C")
	fs.Var(&span{&every, 100 * time.Millisecond, time.Hour}, "every", "with --watch: how often, a `DURATION`")
	fs.Var(&number[uint32]{&most, 1, 1<<32 - 1, "how many times to look"}, "count", "with --watch: end after `N` looks")
	fs.BoolVar(&all, "all", false, fmt.Sprintf("show every log, also if there are more than %d", manyLogs))
	return cmd
}

// clusterText is a document for people.
func clusterText(b *bytes.Buffer, doc *wire.ClusterStatus, all bool) {
	condition := "healthy"
	if !doc.Healthy {
		condition = "NOT HEALTHY"
	}
	fmt.Fprintf(b, "cluster %s, as %s sees it: %s\n", visible(doc.ClusterID), visible(doc.Self), condition)
	notes(b, "problem", doc.Problems)
	notes(b, "note", doc.Warnings)
	b.WriteByte('\n')
	t := table{{"NODE", "STATE", "FOR", "LEADS", "REPLICAS", "CLIENTS"}}
	alive := make(map[string]bool)
	for i := range doc.Nodes {
		n := &doc.Nodes[i]
		alive[n.NodeID] = n.Alive
		t.add(visible(n.NodeID), n.State, lasted(n), fmt.Sprint(n.Leads), fmt.Sprint(n.Replicas), addr(n.NativeAddr))
	}
	t.write(b)
	b.WriteByte('\n')
	t = table{{"LOG", "LEADER", "TERM", "REPLICAS", "STEP", "FOR"}}
	quiet := 0
	for i := range doc.Logs {
		l := &doc.Logs[i]
		if !all && len(doc.Logs) > manyLogs && l.Healthy && strings.HasPrefix(l.Step, "settled") {
			quiet++
			continue
		}
		leader := "-"
		if l.Leader != "" {
			leader = visible(l.Leader)
		}
		t.add(l.Name, leader, fmt.Sprint(l.Term), replicas(l, alive), visible(l.Step),
			short(time.Duration(l.StepMillis)*time.Millisecond))
	}
	if len(t) > 1 {
		t.write(b)
	}
	if quiet > 0 {
		fmt.Fprintf(b, "%s settled; --all shows them\n", count(uint64(quiet), "log is", "logs are"))
	}
}

// replicas is where a log's replicas are, and how far behind.
func replicas(l *wire.LogStatus, alive map[string]bool) string {
	var cells []string
	add := func(vote string, r *wire.ReplicaStatus) {
		cell := vote + visible(r.Node)
		switch {
		case !alive[r.Node]:
			cell += "✗"
		case !r.CaughtUp && r.Applied == 0:
			cell += "(?)"
		case !r.CaughtUp:
			cell += fmt.Sprintf("(-%d)", r.Lag)
		}
		cells = append(cells, cell)
	}
	for i := range l.Voters {
		add("", &l.Voters[i])
	}
	for i := range l.Learners {
		add("+", &l.Learners[i])
	}
	for _, id := range l.Target {
		if !slices.ContainsFunc(slices.Concat(l.Voters, l.Learners),
			func(r wire.ReplicaStatus) bool { return r.Node == id }) {
			cells = append(cells, "→"+visible(id)) // to come
		}
	}
	if cells == nil {
		return "-"
	}
	return strings.Join(cells, " ")
}
