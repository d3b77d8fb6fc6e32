package groups

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/pathlockd/pathlockd/groups/gossip"
	"github.com/pathlockd/pathlockd/groups/rows"
	"github.com/pathlockd/pathlockd/wire"
)

// How a data directory gets its identity: it founds a cluster, or joins the one that
// its seeds belong to. After that, neither is done again in it.

// askFor is how long a node that is to found a cluster looks for one that there is
// (contract.md section 14).
const askFor = 10 * time.Second

// allOwn is why no seed answers when there is nobody else among them.
const allOwn = "all of them are this node"

// born gives an empty data directory its identity. A node that is to join waits for
// its seeds until ctx ends.
func (c *Config) born(ctx context.Context) (*identity, error) {
	if len(c.Seeds) == 0 && !c.Bootstrap {
		return nil, fmt.Errorf("data_dir %s: %w, and bootstrap is off: set bootstrap = true to found a cluster here, or seed_nodes to join one", c.DataDir, ErrNoIdentity)
	}
	if err := os.MkdirAll(c.DataDir, 0o700); err != nil {
		return nil, fmt.Errorf("data_dir: %w", err)
	}
	if len(c.Seeds) == 0 {
		return c.found(), nil
	}
	first := c.stillAsking
	if c.Bootstrap {
		first = nil // it founds one, or says why not
	}
	for {
		began := time.Now()
		answer, all, err := c.probe(ctx, first)
		first = nil
		why := whyNot(all)
		switch {
		case err != nil:
			return nil, err
		case answer != nil:
			if c.Bootstrap {
				c.Log.Warn("refusing to initialize a second cluster: a seed belongs to one already, this node joins it", "seed", answer.Seed, "cluster_id", answer.ClusterID)
			}
			return c.join(answer)
		case c.Bootstrap && c.ForceBootstrap:
			c.Log.Warn("founding a cluster though no seed answers, because force_bootstrap is on", "seeds", c.Seeds, "why", why)
			return c.found(), nil
		case c.Bootstrap:
			return nil, fmt.Errorf("seed_nodes: none of %s belongs to a cluster (%s), and founding one beside them could make two: start them first, or take them out of seed_nodes, or set force_bootstrap = true once",
				strings.Join(c.Seeds, ", "), why)
		}
		if why == allOwn && !slices.ContainsFunc(c.Seeds, mayChange) {
			return nil, fmt.Errorf("seed_nodes: all of %s are this node (gossip_addr %s): name the gossip_addr of at least one other node of the cluster, or set bootstrap = true without seed_nodes to found one here",
				strings.Join(c.Seeds, ", "), c.GossipAddr)
		}
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("looking for the cluster at %s: %w", strings.Join(c.Seeds, ", "), err)
		}
		c.stillAsking(all)
		select {
		case <-ctx.Done():
		case <-time.After(time.Until(began.Add(askFor))): // with nobody to ask, a round is over at once
		}
	}
}

// stillAsking tells whom a node that is to join waits for.
func (c *Config) stillAsking(answers []gossip.Answer) {
	why := whyNot(answers)
	if slices.ContainsFunc(answers, func(a gossip.Answer) bool { return errors.Is(a.Err, gossip.ErrTLS) }) {
		c.Log.Error("a seed and this node do not take each other's certificates (link_tls_*), asking again", "seeds", c.Seeds, "why", why)
		return
	}
	c.Log.Warn("no seed belongs to a cluster yet, asking again: start the node that founds it (bootstrap = true); if it runs, mend seed_nodes here or gossip_addr there",
		"seeds", c.Seeds, "why", why)
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
func (c *Config) probe(ctx context.Context, waiting func([]gossip.Answer)) (answer *gossip.Answer, all []gossip.Answer, err error) {
	within, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	all, err = gossip.Probe(within, gossip.Ask{
		Token: c.Token, TLS: c.LinkTLS, Seeds: c.Seeds, Bind: c.GossipAddr, Advertise: c.GossipAdvertise, Log: c.Log,
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
			return nil, nil, fmt.Errorf("seed_nodes: %s has another internal_auth_token than this node: all nodes of a cluster need the same one", a.Seed)
		}
	}
	return answer, all, nil
}

// The settings that are fixed at birth, by configuration key.
const (
	keyGroups      = "group_count"
	keyLogs        = "log_count"
	keySegments    = "routing_prefix_segments"
	keyAlgorithm   = "default_lock_algorithm"
	keyReplication = "replication_factor"
)

// settings are those that the cluster was founded with.
func (id *identity) settings() map[string]string {
	return map[string]string{
		keyGroups: strconv.Itoa(id.GroupCount), keyLogs: strconv.Itoa(id.LogCount), keySegments: strconv.Itoa(id.Segments),
		keyAlgorithm: id.Algorithm, keyReplication: strconv.Itoa(id.Replication),
	}
}

// join makes the identity of a node that joins the cluster of a seed. Settings that
// its operator left alone are the cluster's.
func (c *Config) join(a *gossip.Answer) (*identity, error) {
	id := &identity{
		Format: rows.OldestFormat, ClusterID: a.ClusterID, NodeID: c.NodeID, HostID: uuid.NewString(), Joined: true,
		Algorithm: a.Settings[keyAlgorithm], Seats: make(map[uint64]seat), Dropped: make(map[uint64]uint64),
	}
	id.Earlier = rows.EarlierStarts(id.HostID)
	for _, n := range []struct {
		key string
		to  *int
	}{{keyGroups, &id.GroupCount}, {keyLogs, &id.LogCount}, {keySegments, &id.Segments}, {keyReplication, &id.Replication}} {
		v, err := strconv.Atoi(a.Settings[n.key])
		if err != nil || v < 0 || v > 1<<16 {
			return nil, fmt.Errorf("seed %s tells %s = %q, which is no number of a cluster: its version may not go with this one", a.Seed, n.key, a.Settings[n.key])
		}
		*n.to = v
	}
	if _, ok := wire.ParseAlgorithm(id.Algorithm); !ok || id.GroupCount == 0 || id.LogCount == 0 {
		return nil, fmt.Errorf("seed %s tells settings that are none of a cluster: its version may not go with this one", a.Seed)
	}
	if err := id.check(c); err != nil {
		return nil, err
	}
	c.Log.Info("joining a cluster", "cluster_id", a.ClusterID, "seed", a.Seed, "node_id", c.NodeID)
	return id, nil
}

// given says that the operator configured a setting that is fixed at birth.
func (c *Config) given(key string) bool { return slices.Contains(c.Given, key) }

// settle makes the configuration say what the identity does.
func (c *Config) settle(id *identity) error {
	c.GroupCount, c.LogCount, c.Segments, c.ReplicationFactor = id.GroupCount, id.LogCount, id.Segments, id.Replication
	a, ok := wire.ParseAlgorithm(id.Algorithm)
	if !ok {
		return fmt.Errorf("data_dir %s: default_lock_algorithm %q is not known to this version", c.DataDir, id.Algorithm)
	}
	c.Algorithm = a
	return nil
}
