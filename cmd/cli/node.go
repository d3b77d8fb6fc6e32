package cli

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	pathlockd "github.com/pathlockd/pathlockd/clients/go"
	"github.com/pathlockd/pathlockd/wire"
)

const nodeLong = `Empty a node before it is stopped, take that back, or give a node up for good.

What is asked of a node is kept by the cluster until it is taken back, through restarts
of the node too. Ask any node that runs.`

const nodeDrainLong = `Move everything away from a node: its leaderships and its replicas, so that it can be
stopped for good. With --leads only its leaderships, so that nobody notices when it is
stopped for a while; its replicas stay.

The command returns when the cluster has noted it; with --wait when the node is empty.
A replica leaves only when its successor has caught up, so that takes as long as
copying the data. What is drained stays so until pathlock node resume.

The last node that could take over is not drained: exit code 1.`

const nodeRemoveLong = `Give a node up for good: nobody waits for it any more, its replicas are made anew on other
nodes, and it is forgotten once it holds none. For a node whose machine or disk is lost,
or that was drained and stopped.

A node that is alive and not drained is not removed without --force. A node of that name
that comes back later is not used before pathlock node resume.`

// nodeCmd makes the command node and those below it.
func (a *app) nodeCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use: "node", GroupID: groupServer, Short: "Drain, resume and remove nodes of the cluster", Long: nodeLong,
		Example: `  pathlock node drain pathlockd-2 --leads --wait
  pathlock node resume pathlockd-2`,
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return fmt.Errorf("node: %q: must be drain, resume or remove", args[0])
			}
			return fmt.Errorf("node: say drain, resume or remove")
		},
	}
	cmd.AddCommand(a.nodeDrainCmd(), a.nodeResumeCmd(), a.nodeRemoveCmd())
	return cmd
}

// nodeData is the data of node drain, resume and remove.
type nodeData struct {
	Node     string `json:"node"`
	Drain    string `json:"drain"` // what is asked of it now
	Note     string `json:"note,omitempty"`
	Replicas *int   `json:"replicas,omitempty"` // with --wait: what it still holds
	Leads    *int   `json:"leads,omitempty"`
}

func (a *app) nodeDrainCmd() *cobra.Command {
	var (
		leads bool
		wait  time.Duration
	)
	cmd := &cobra.Command{
		Use: "drain NODE", Short: "Move everything, or the leaderships, away from a node", Long: nodeDrainLong,
		Args: takes("NODE"),
		Example: `  pathlock node drain pathlockd-2 --wait
  pathlock node drain pathlockd-2 --leads --wait=1m && systemctl restart pathlockd`,
		RunE: body(func(ctx context.Context, args []string) error {
			mode := wire.DrainReplicas
			if leads {
				mode = wire.DrainLeads
			}
			return a.asks(ctx, args[0], mode, wait, func(ctx context.Context, c *pathlockd.Client) (string, error) {
				return c.DrainNode(ctx, args[0], mode)
			})
		}),
	}
	cmd.Flags().BoolVar(&leads, "leads", false, "only leaderships: for a restart")
	waitFlag(cmd, &wait, "tell how it goes and wait until the node is empty, for at most a `DURATION` if one is given")
	return cmd
}

func (a *app) nodeResumeCmd() *cobra.Command {
	return &cobra.Command{
		Use: "resume NODE", Short: "Take back what was asked of a node", Args: takes("NODE"),
		Long: `Take back a drain or a removal: logs are placed on the node again and it leads again, in
the cluster's own time. Where nothing was asked nothing is done.`,
		Example: "  pathlock node resume pathlockd-2",
		RunE: body(func(ctx context.Context, args []string) error {
			return a.asks(ctx, args[0], wire.DrainNone, 0,
				func(ctx context.Context, c *pathlockd.Client) (string, error) {
					return "", c.ResumeNode(ctx, args[0])
				})
		}),
	}
}

func (a *app) nodeRemoveCmd() *cobra.Command {
	force := false
	cmd := &cobra.Command{
		Use: "remove NODE", Short: "Give a node up for good", Long: nodeRemoveLong, Args: takes("NODE"),
		Example: "  pathlock node remove pathlockd-2",
		RunE: body(func(ctx context.Context, args []string) error {
			return a.asks(ctx, args[0], wire.DrainRemoved, 0,
				func(ctx context.Context, c *pathlockd.Client) (string, error) {
					return c.RemoveNode(ctx, args[0], force)
				})
		}),
	}
	cmd.Flags().BoolVar(&force, "force", false, "although it is alive and not drained")
	return cmd
}

// asks asks something of a node, and waits until it is so if it is to.
func (a *app) asks(ctx context.Context, node string, drain wire.Drain, wait time.Duration,
	ask func(context.Context, *pathlockd.Client) (string, error)) error {
	if err := checkNode(node); err != nil {
		return err
	}
	c, err := a.dial(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	data := &nodeData{Node: node, Drain: drain.String()}
	asking, cancel := a.limited(ctx)
	data.Note, err = ask(asking, c)
	cancel()
	if err != nil {
		return err
	}
	if wait > 0 {
		if data.Note != "" {
			a.note("%s: %s", visible(node), visible(data.Note))
		}
		if err := a.empty(ctx, c, data, drain, wait); err != nil {
			return err
		}
	}
	return a.answer(data, func(b *bytes.Buffer) {
		switch {
		case wait > 0 && drain == wire.DrainLeads:
			fmt.Fprintf(b, "%s leads nothing: it can be restarted; then: pathlock node resume %s\n",
				visible(node), quote(node))
		case wait > 0:
			fmt.Fprintf(b, "%s holds nothing: it can be stopped; then: pathlock node remove %s\n",
				visible(node), quote(node))
		case drain == wire.DrainNone:
			fmt.Fprintf(b, "%s is used again\n", visible(node))
		case drain == wire.DrainRemoved:
			fmt.Fprintf(b, "%s is given up\n", visible(node))
		default:
			fmt.Fprintf(b, "%s is being drained (%s); see how it goes: pathlock cluster status --watch\n",
				visible(node), drain)
		}
		if data.Note != "" && wait == 0 {
			fmt.Fprintf(b, "note: %s\n", visible(data.Note))
		}
	})
}

// empty waits until a node that is drained holds nothing of what it is to give up, and
// tells people how that goes.
func (a *app) empty(ctx context.Context, c *pathlockd.Client, data *nodeData, drain wire.Drain,
	within time.Duration) error {
	shown := ""
	err := a.await(ctx, within, func(doc *wire.ClusterStatus) (bool, error) {
		n, done, err := emptied(doc, data.Node, drain)
		if n != nil && toldAll(doc) {
			data.Replicas, data.Leads = &n.Replicas, &n.Leads
			now := fmt.Sprintf("%s holds %s and leads %s", visible(n.NodeID),
				count(uint64(n.Replicas), "replica", "replicas"), count(uint64(n.Leads), "log", "logs"))
			if now != shown && !a.json {
				a.note("%s", now)
			}
			shown = now
		}
		return done, err
	}, c)
	return timedOut(err, fmt.Sprintf("%s is not empty within %s; it is still being drained", visible(data.Node),
		waitText(within)), data)
}

// emptied says whether a node holds nothing any more of what it is to give up. While
// the replicas of a log are not known, nobody can tell.
func emptied(doc *wire.ClusterStatus, node string, drain wire.Drain) (n *wire.NodeStatus, done bool, err error) {
	known := toldAll(doc)
	i := slices.IndexFunc(doc.Nodes, func(n wire.NodeStatus) bool { return n.NodeID == node })
	if i < 0 {
		return nil, known, nil // removed meanwhile, and forgotten
	}
	n = &doc.Nodes[i]
	switch {
	case n.Drain == wire.DrainNone.String():
		return n, false, &failure{exit: ExitFailed, code: wire.Aborted.String(), message: visible(node) +
			" is not drained any more: somebody took that back"}
	case drain == wire.DrainLeads:
		return n, known && n.Leads == 0, nil
	}
	return n, known && n.Replicas == 0, nil
}

// toldAll says that the leader of every log told who has its replicas: a moment after a
// change of leaders one may not have yet.
func toldAll(doc *wire.ClusterStatus) bool {
	return !slices.ContainsFunc(doc.Logs, func(l wire.LogStatus) bool { return len(l.Voters) == 0 || l.Leader == "" })
}

// waitFlag adds the flag --wait, which may stand alone: then there is no limit.
func waitFlag(cmd *cobra.Command, wait *time.Duration, help string) {
	cmd.Flags().Var(&patience{wait}, "wait", help)
	f := cmd.Flags().Lookup("wait")
	f.NoOptDefVal, f.DefValue = forever, ""
}
