package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	pathlockd "github.com/pathlockd/pathlockd/clients/go"
	"github.com/pathlockd/pathlockd/wire"
)

// watchEvery is how often the view is drawn.
const watchEvery = time.Second

// watch shows the cluster and the load until ctx ends. It answers whether the cluster
// was healthy when last seen and every request of the load was answered.
func watch(ctx context.Context, cfg config, client *pathlockd.Client, l *load) bool {
	t := time.NewTicker(watchEvery)
	defer t.Stop()
	var last uint64
	healthy, lines := false, 0
	for {
		select {
		case <-ctx.Done():
			return healthy && l.failed.Load() == 0
		case <-t.C:
		}
		within, cancel := context.WithTimeout(ctx, 5*time.Second)
		doc, err := client.ClusterStatus(within)
		cancel()
		if ctx.Err() != nil {
			continue
		}
		healthy = err == nil && doc.Healthy
		done := l.done.Load()
		p50, p99, worst := l.look()
		text := fmt.Sprintf("%6d locks/s   p50 %6.2f ms   p99 %6.2f ms   %d in all, %d failed\n",
			done-last, p50.Seconds()*1000, p99.Seconds()*1000, done, l.failed.Load())
		last = done
		if worst != "" {
			text += "last error: " + worst + "\n"
		}
		if err != nil {
			text += "status: " + err.Error() + "\n"
		} else if cfg.terminal {
			text += table(doc)
		} else {
			text += oneLine(doc)
		}
		if cfg.terminal && lines > 0 {
			fmt.Printf("\x1b[%dA\x1b[J", lines)
		}
		fmt.Print(text)
		lines = strings.Count(text, "\n")
	}
}

func oneLine(doc *wire.ClusterStatus) string {
	var nodes []string
	for _, n := range doc.Nodes {
		nodes = append(nodes, fmt.Sprintf("%s %s leads %d of %d", n.NodeID, n.State, n.Leads, n.Replicas))
	}
	return fmt.Sprintf("        healthy %v   %s\n", doc.Healthy, strings.Join(nodes, "   "))
}

func table(doc *wire.ClusterStatus) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n%-14s %-9s %8s %6s  %s\n", "node", "state", "replicas", "leads", "native")
	for _, n := range doc.Nodes {
		fmt.Fprintf(&b, "%-14s %-9s %8d %6d  %s\n", n.NodeID, n.State, n.Replicas, n.Leads, n.NativeAddr)
	}
	fmt.Fprintf(&b, "\n%-7s %-13s %-6s %s\n", "log", "leader", "voters", "now")
	for _, l := range doc.Logs {
		fmt.Fprintf(&b, "%-7s %-13s %d of %d %s\n", l.Name, l.Leader, len(l.Voters), len(l.Target), l.Step)
	}
	if doc.Healthy {
		b.WriteString("\nhealthy\n")
	} else {
		b.WriteString("\nnot healthy: " + strings.Join(doc.Problems, "; ") + "\n")
	}
	return b.String()
}
