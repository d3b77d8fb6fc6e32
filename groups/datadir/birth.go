package datadir

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/pathlockd/pathlockd/groups/gossip"
	"github.com/pathlockd/pathlockd/groups/rows"
)

// How a data directory gets its identity: it founds a cluster, or joins the one that
// its seeds belong to. After that, neither is done again in it.

// askFor is how long a node that is to found a cluster looks for one that there is
// (contract.md section 14).
const askFor = 10 * time.Second

// allOwn is why no seed answers when there is nobody else among them.
const allOwn = "all of them are this node"

// Birth is what a node is configured with of that which gives its data directory an identity.
// The names are those of configuration keys (docs/configuration.md).
type Birth struct {
	Dir    string // data_dir
	NodeID string
	Settings
	// keys of the settings that the operator configured: a node that joins takes the others from its cluster
	Given          []string
	Bootstrap      bool
	ForceBootstrap bool
	Seeds          []string // gossip addresses of nodes to join, host:port
	GossipAddr     string
	Advertise      string       // where others find it, if that differs
	Token          gossip.Token // empty: the node is alone
	TLS            *tls.Config  // for gossip; nil: none
	Log            *slog.Logger
}

// Open returns the identity of a data directory, which it gets now if it is empty: the node founds a cluster, or
// joins the one that its seeds belong to, for which it looks until ctx ends.
func Open(ctx context.Context, b *Birth) (*Identity, error) {
	id, err := Load(b.Dir)
	if errors.Is(err, ErrNoIdentity) {
		return b.born(ctx)
	}
	if err == nil {
		err = id.Check(b)
	}
	if err != nil {
		return nil, err
	}
	return id, nil
}

// born gives an empty data directory its identity. A node that is to join waits for
// its seeds until ctx ends.
func (b *Birth) born(ctx context.Context) (*Identity, error) {
	if len(b.Seeds) == 0 && !b.Bootstrap {
		return nil, fmt.Errorf("data_dir %s: %w, and bootstrap is off: set bootstrap = true to found a cluster "+
			"here, or seed_nodes to join one", b.Dir, ErrNoIdentity)
	}
	if err := os.MkdirAll(b.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("data_dir: %w", err)
	}
	if len(b.Seeds) == 0 {
		return b.found(), nil
	}
	first := b.stillAsking
	if b.Bootstrap {
		first = nil // it founds one, or says why not
	}
	for {
		began := time.Now()
		answer, all, err := b.probe(ctx, first)
		first = nil
		why := whyNot(all)
		switch {
		case err != nil:
			return nil, err
		case answer != nil:
			if b.Bootstrap {
				b.Log.Warn("refusing to initialize a second cluster: a seed belongs to one already, this node joins it",
					"seed", answer.Seed, "cluster_id", answer.ClusterID)
			}
			return b.join(answer)
		case b.Bootstrap && b.ForceBootstrap:
			b.Log.Warn("founding a cluster though no seed answers, because force_bootstrap is on", "seeds",
				b.Seeds, "why", why)
			return b.found(), nil
		case b.Bootstrap:
			return nil, fmt.Errorf("seed_nodes: none of %s belongs to a cluster (%s), and founding one beside them "+
				"could make two: start them first, or take them out of seed_nodes, or set force_bootstrap = true once",
				strings.Join(b.Seeds, ", "), why)
		}
		if why == allOwn && !slices.ContainsFunc(b.Seeds, mayChange) {
			return nil, fmt.Errorf("seed_nodes: all of %s are this node (gossip_addr %s): name the gossip_addr of "+
				"at least one other node of the cluster, or set bootstrap = true without seed_nodes to found one here",
				strings.Join(b.Seeds, ", "), b.GossipAddr)
		}
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("looking for the cluster at %s: %w", strings.Join(b.Seeds, ", "), err)
		}
		b.stillAsking(all)
		select {
		case <-ctx.Done():
		case <-time.After(time.Until(began.Add(askFor))): // with nobody to ask, a round is over at once
		}
	}
}

// stillAsking tells whom a node that is to join waits for.
func (b *Birth) stillAsking(answers []gossip.Answer) {
	why := whyNot(answers)
	if slices.ContainsFunc(answers, func(a gossip.Answer) bool { return errors.Is(a.Err, gossip.ErrTLS) }) {
		b.Log.Error("a seed and this node do not take each other's certificates (link_tls_*), asking again", "seeds",
			b.Seeds, "why", why)
		return
	}
	b.Log.Warn("no seed belongs to a cluster yet, asking again: start the node that founds it (bootstrap = true); "+
		"if it runs, mend seed_nodes here or gossip_addr there",
		"seeds", b.Seeds, "why", why)
}

// mayChange says that a seed is a name, which may stand for other nodes soon: that of a
// Kubernetes headless service does when they start.
func mayChange(seed string) bool {
	host, _, err := net.SplitHostPort(seed)
	if err != nil || host == "localhost" {
		return false
	}
	_, err = netip.ParseAddr(host)
	return err != nil
}

// whyNot is what kept seeds from answering for a cluster.
func whyNot(answers []gossip.Answer) string {
	var whys []string
	for _, a := range answers {
		switch {
		case a.Err != nil:
			whys = append(whys, fmt.Sprintf("%s: %v", a.Seed, a.Err))
		case !a.Founded:
			whys = append(whys, a.Seed+": is looking for a cluster itself")
		}
	}
	if len(whys) == 0 {
		return allOwn
	}
	return strings.Join(whys, "; ")
}

// probe asks the seeds once around, and answers the one that belongs to a cluster, if any,
// among all.
func (b *Birth) probe(ctx context.Context, waiting func([]gossip.Answer)) (answer *gossip.Answer,
	all []gossip.Answer, err error) {
	within, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	all, err = gossip.Probe(within, gossip.Ask{
		Token: b.Token, TLS: b.TLS, Seeds: b.Seeds, Bind: b.GossipAddr, Advertise: b.Advertise, Log: b.Log,
		Waiting: waiting,
	})
	if err != nil {
		return nil, nil, err
	}
	if answer, err = gossip.ClusterOf(all); err != nil {
		return nil, nil, err
	}
	for _, a := range all {
		if errors.Is(a.Err, gossip.ErrToken) && answer == nil {
			return nil, nil, fmt.Errorf("seed_nodes: %s has another internal_auth_token than this node: all nodes "+
				"of a cluster need the same one", a.Seed)
		}
	}
	return answer, all, nil
}

// found makes the identity of a cluster's first node.
func (b *Birth) found() *Identity {
	id := newIdentity(uuid.NewString(), b.NodeID)
	id.Format, id.Settings = rows.NewestFormat, b.Settings
	id.hostAll()
	return id
}

// newIdentity is that of a node without a replica, on a directory that nothing was written to.
func newIdentity(cluster, node string) *Identity {
	return &Identity{
		ClusterID: cluster, NodeID: node, HostID: uuid.NewString(),
		Replicas: make(map[uint64]Replica), Dropped: make(map[uint64]uint64),
	}
}

// join makes the identity of a node that joins the cluster of a seed. Settings that
// its operator left alone are the cluster's.
func (b *Birth) join(a *gossip.Answer) (*Identity, error) {
	id := newIdentity(a.ClusterID, b.NodeID)
	id.Format, id.Joined = rows.OldestFormat, true
	id.Earlier = rows.EarlierStarts(id.HostID)
	var err error
	if id.Settings, err = settingsOf(a.Settings); err != nil {
		return nil, fmt.Errorf("seed %s tells %w: its version may not go with this one", a.Seed, err)
	}
	if err := id.Check(b); err != nil {
		return nil, err
	}
	b.Log.Info("joining a cluster", "cluster_id", a.ClusterID, "seed", a.Seed, "node_id", b.NodeID)
	return id, nil
}
