package dragon

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/lni/dragonboat/v4/config"
	"github.com/lni/dragonboat/v4/raftio"
)

// Registry is the address book that raft asks where a replica is. Replicas are
// named by their node's raft host id, which outlives addresses.
type Registry struct {
	mu      sync.Mutex
	targets map[raftio.NodeInfo]string // host id
	books   map[string]string          // host id to raft address
}

// NewRegistry makes one that knows of nobody.
func NewRegistry() *Registry {
	return &Registry{targets: make(map[raftio.NodeInfo]string), books: make(map[string]string)}
}

// Create makes the registry its own factory: it is there before raft asks for it.
func (r *Registry) Create(string, uint64, config.TargetValidator) (raftio.INodeRegistry, error) {
	return r, nil
}

func (r *Registry) Close() error { return nil }

// HostOf returns on which node a replica is, "" when that is not known.
func (r *Registry) HostOf(shard, replica uint64) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.targets[raftio.GetNodeInfo(shard, replica)]
}

// Hosts lists the nodes that have replicas in the logs of this one.
func (r *Registry) Hosts() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	hosts := slices.Sorted(maps.Values(r.targets))
	return slices.Compact(hosts)
}

// Found says at which address a node is now.
func (r *Registry) Found(host, addr string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.books[host] = addr
}

func (r *Registry) Add(shard, replica uint64, target string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.targets[raftio.GetNodeInfo(shard, replica)] = target
}

func (r *Registry) Remove(shard, replica uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.targets, raftio.GetNodeInfo(shard, replica))
}

func (r *Registry) RemoveShard(shard uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for info := range r.targets {
		if info.ShardID == shard {
			delete(r.targets, info)
		}
	}
}

func (r *Registry) Resolve(shard, replica uint64) (string, string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	host := r.targets[raftio.GetNodeInfo(shard, replica)]
	addr, ok := r.books[host]
	if !ok {
		return "", "", fmt.Errorf("groups: replica %d of log %d is at no known address", replica, shard)
	}
	return addr, addr, nil
}
