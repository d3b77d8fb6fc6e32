package cli

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	pathlockd "github.com/pathlockd/pathlockd/clients/go"
	"github.com/pathlockd/pathlockd/wire"
)

const clusterLong = `Look at a cluster of pathlockd nodes, and move leaderships in it.

What is told is how the asked node sees the cluster; it answers while there is no leader,
too. What it says of a log is what that log's leader told last. A log is healthy when it
has a leader whose writes pass and exactly its target voters, all caught up; a cluster, when
every log is, and every node that is seen has been placed.`

const healthClusterLong = `Ask whether every log of the cluster has a leader whose writes pass and its target voters, all
caught up, and whether every node that is seen has been placed. A node that is not seen yet is
not missed: with --nodes N it is, until there are so many.

Exit code 0 says yes, 69 no, or that nobody answers; with --wait, 75 says that it did not
become so in time: a server that does not answer yet is asked again. What is wrong is
told, with what to do about it; with --json, data stands beside the error then, and
data.healthy is false. A node that is short of disk space is a problem that is told and
leaves the exit code as it is: others lead in its place. Whether one node can serve is another
question: pathlock health.`

const transferLong = `Hand the leadership of a log to another node that has a voter of it, and wait until that
node leads. LOG is a number as cluster status shows it, or system.

The cluster moves leaderships back to where they belong in its own time (leader_balance_interval_secs).
To keep them away from a node, drain it: pathlock node drain NODE --leads.`

// clusterCmd makes the command cluster and those below it.
func (a *app) clusterCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use: "cluster", GroupID: groupServer, Short: "Look at the cluster, and move leaderships", Long: clusterLong,
		Example: `  pathlock cluster status --watch
  pathlock cluster health`,
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return fmt.Errorf("cluster: %q: must be status, health, members or transfer", args[0])
			}
			return fmt.Errorf("cluster: say status, health, members or transfer")
		},
	}
	cmd.AddCommand(a.clusterStatusCmd(), a.clusterHealthCmd(), a.membersCmd(), a.transferCmd())
	return cmd
}

// clusterHealth is the data of cluster health.
type clusterHealth struct {
	Healthy  bool     `json:"healthy"`
	Self     string   `json:"self"`
	Nodes    int      `json:"nodes"`
	Logs     int      `json:"logs"`
	Problems []string `json:"problems"`
	Warnings []string `json:"warnings"`
}

func (a *app) clusterHealthCmd() *cobra.Command {
	wait, nodes := time.Duration(0), uint32(0)
	cmd := &cobra.Command{
		Use: "health", Short: "Ask whether the cluster is as it should be", Long: healthClusterLong, Args: takes(),
		Example: `  pathlock cluster health
  pathlock cluster health --wait=2m && echo next node
  pathlock cluster health --wait=2m --nodes 3   # a new cluster is put together`,
		RunE: body(func(ctx context.Context, _ []string) error {
			var last clusterHealth
			err := a.await(ctx, wait, func(doc *wire.ClusterStatus) (bool, error) {
				last = clusterHealth{doc.Healthy, doc.Self, len(doc.Nodes), len(doc.Logs), doc.Problems, doc.Warnings}
				if seen := placedNodes(doc); seen < int(nodes) {
					last.Healthy = false
					last.Problems = append(last.Problems,
						fmt.Sprintf("%s placed, and --nodes says %d: wait for those that start, or start them "+
							"with seed_nodes",
							count(uint64(seen), "node is", "nodes are"), nodes))
				}
				return last.Healthy || wait == 0, nil
			}, nil)
			if err != nil {
				return timedOut(err, "not healthy within "+waitText(wait), &last)
			}
			if !last.Healthy {
				return unhealthy(&last)
			}
			return a.answer(&last, func(b *bytes.Buffer) {
				fmt.Fprintf(b, "healthy: %s, %s, each with a leader and all its voters\n",
					count(uint64(last.Nodes), "node", "nodes"), count(uint64(last.Logs), "log", "logs"))
				notes(b, "problem", last.Problems)
				notes(b, "note", last.Warnings)
			})
		}),
	}
	cmd.Flags().Var(&number[uint32]{&nodes, 1, 1 << 20, "how many nodes there must be"}, "nodes",
		"say no while fewer than `N` nodes are seen and placed")
	waitFlag(cmd, &wait, "wait until it is healthy, for at most a `DURATION` if one is given")
	return cmd
}

// placedNodes is how many nodes are alive and count.
func placedNodes(doc *wire.ClusterStatus) (n int) {
	for i := range doc.Nodes {
		if doc.Nodes[i].Alive && doc.Nodes[i].Placed {
			n++
		}
	}
	return n
}

// unhealthy is the failure of a cluster that is not as it should be. The data stands
// in its envelope too, for programs that look at data.healthy alone.
func unhealthy(h *clusterHealth) *failure {
	f := &failure{exit: ExitUnavailable, code: codeUnhealthy, message: "unhealthy, says " + visible(h.Self), data: h}
	for _, p := range h.Problems {
		f.hint("%s", visible(p))
	}
	return f
}

func (a *app) membersCmd() *cobra.Command {
	return &cobra.Command{
		Use: "members", Short: "Show the nodes of the cluster", Args: takes(),
		Long: `Show the nodes of the cluster: who they are, since when they are seen or missed, where they
listen, and which formats of shared data their versions work with.

  member    logs are placed on it
  joining   it is seen, but not for stability_window_secs yet
  draining  it leads nothing, or is about to
  leaving   its replicas move to other nodes
  dead      it is not seen
  unknown   it holds a replica, and was not seen since the asked node was started`,
		Example: `  pathlock cluster members
  pathlock cluster members --json | jq -r '.data.nodes[] | select(.alive | not).node_id'`,
		RunE: body(func(ctx context.Context, _ []string) error {
			return a.asking(ctx, func(ctx context.Context, c *pathlockd.Client) error {
				doc, err := c.ClusterStatus(ctx)
				if err != nil {
					return err
				}
				data := &membersData{doc.ClusterID, doc.Self, doc.Healthy, doc.Nodes}
				return a.answer(data, func(b *bytes.Buffer) {
					t := table{{"NODE", "STATE", "FOR", "FORMATS", "CLIENTS", "RAFT", "LINK", "GOSSIP", "DATA"}}
					for i := range doc.Nodes {
						n := &doc.Nodes[i]
						t.add(visible(n.NodeID), n.State, lasted(n), formats(n.Formats), addr(n.NativeAddr),
							addr(n.RaftAddr),
							addr(n.LinkAddr), addr(n.GossipAddr), addr(n.HostID))
					}
					t.write(b)
				})
			})
		}),
	}
}

// membersData is the data of cluster members.
type membersData struct {
	ClusterID string            `json:"cluster_id"`
	Self      string            `json:"self"`
	Healthy   bool              `json:"healthy"`
	Nodes     []wire.NodeStatus `json:"nodes"`
}

// transferred is the data of cluster transfer.
type transferred struct {
	Log    uint64 `json:"log"`
	Leader string `json:"leader"`
}

func (a *app) transferCmd() *cobra.Command {
	return &cobra.Command{
		Use: "transfer LOG NODE", Short: "Hand the leadership of a log to a node", Long: transferLong,
		Args: takes("LOG", "NODE"),
		Example: `  pathlock cluster transfer system pathlockd-1
  pathlock cluster transfer 7 pathlockd-2`,
		RunE: body(func(ctx context.Context, args []string) error {
			log, err := checkLog(args[0])
			if err == nil {
				err = checkNode(args[1])
			}
			if err != nil {
				return err
			}
			return a.asking(ctx, func(ctx context.Context, c *pathlockd.Client) error {
				if err := c.TransferLog(ctx, log, args[1]); err != nil {
					return err
				}
				return a.answer(&transferred{log, args[1]}, func(b *bytes.Buffer) {
					fmt.Fprintf(b, "%s leads %s\n", visible(args[1]), logName(log))
				})
			})
		}),
	}
}

func logName(log uint64) string {
	if log == wire.SystemLog {
		return "the system log"
	}
	return fmt.Sprintf("log %d", log)
}

// checkLog reads the argument LOG.
func checkLog(text string) (uint64, error) {
	if text == "system" {
		return wire.SystemLog, nil
	}
	log, err := strconv.ParseUint(text, 10, 32)
	if err != nil || log == 0 {
		return 0, usage("LOG %s: must be the number of a log, from 1 (the system log), or system", wire.Quote(text))
	}
	return log, nil
}

// checkNode checks the argument NODE.
func checkNode(node string) error {
	ask := wire.Request{Op: wire.OpNodeResume, Node: node}
	if bad := ask.Validate(); bad != nil {
		return usage("NODE%s", strings.TrimPrefix(bad.Message, "node"))
	}
	return nil
}

// notes appends sentences, a line each.
func notes(b *bytes.Buffer, what string, sentences []string) {
	for _, s := range sentences {
		fmt.Fprintf(b, "%s: %s\n", what, visible(s))
	}
}

// lasted is how long a node has been seen, or not.
func lasted(n *wire.NodeStatus) string {
	if n.State == wire.NodeUnknown {
		return "-"
	}
	return short(time.Duration(n.ForMillis) * time.Millisecond)
}

func formats(f [2]uint32) string {
	switch {
	case f[1] == 0:
		return "-"
	case f[0] == f[1]:
		return strconv.FormatUint(uint64(f[0]), 10)
	}
	return fmt.Sprintf("%d-%d", f[0], f[1])
}

func addr(s string) string {
	if s == "" {
		return "-"
	}
	return visible(s)
}
