package groups

import (
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lni/dragonboat/v4"
	"github.com/lni/dragonboat/v4/config"
	"github.com/lni/dragonboat/v4/logger"
	"github.com/lni/dragonboat/v4/raftio"

	"github.com/pathlockd/pathlockd/groups/datadir"
)

// raftTick is dragonboat's unit of time. Idle cost grows as it shrinks: 256 shards idle
// at 4 % of a core with 50 ms, 9 % with 10 ms; of a node with 17 logs among three, ticks
// of 50 ms are a quarter of the idle cost. So they are as long as an election timeout of
// at least ten of them allows, 100 ms at most.
func (c *Config) raftTick() time.Duration {
	if c.ElectionMin >= 10*maxRaftTick {
		return maxRaftTick
	}
	return minRaftTick
}

const minRaftTick, maxRaftTick = 50 * time.Millisecond, 100 * time.Millisecond

// newHost starts dragonboat.
func (n *Node) newHost(dir string) (*dragonboat.NodeHost, error) {
	c := &n.cfg
	if c.RaftFS == nil {
		if err := followHostname(dir, c.Log); err != nil {
			return nil, err
		}
	}
	expert := config.GetDefaultExpertConfig()
	// All step workers share one write-ahead log, and so one fsync: 256 groups went
	// from 27 k to 121 k proposals a second, 16 from 20 k to 58 k. Both numbers are
	// frozen in the data directory.
	expert.Engine.ExecShards = 16
	expert.LogDB = config.GetSmallMemLogDBConfig()
	expert.LogDB.Shards = 1
	expert.NodeRegistryFactory = n.book
	expert.TransportFactory = n.wire
	expert.FS = newRaftDisk(c.RaftFS, n.failed)
	host, err := dragonboat.NewNodeHost(config.NodeHostConfig{
		DeploymentID:      n.id.Deployment(),
		NodeHostID:        n.id.HostID,
		NodeHostDir:       dir,
		RTTMillisecond:    uint64(c.raftTick().Milliseconds()),
		RaftAddress:       c.RaftAddr,
		RaftEventListener: leaderListener(n.leaderUpdated),
		Expert:            expert,
	})
	if err != nil {
		return nil, fmt.Errorf("start raft on %s in %s: %w", c.RaftAddr, dir, err)
	}
	return host, nil
}

// shardConfig is how one log is run.
func shardConfig(c *Config, shard uint64, s datadir.Replica) config.Config {
	ticks := func(d time.Duration) uint64 { return uint64(max(d/c.raftTick(), 1)) }
	return config.Config{
		ReplicaID: s.ID, ShardID: shard, IsNonVoting: s.Joined && !s.Voter,
		CheckQuorum: true, PreVote: true, OrderedConfigChange: true,
		// dragonboat draws each election's timeout from one to two times this.
		ElectionRTT:  ticks(c.ElectionMin),
		HeartbeatRTT: ticks(min(c.Heartbeat, c.ElectionMin/5)),
		// Snapshots are asked for by the node, right after a checkpoint (node.go).
		SnapshotEntries:    0,
		CompactionOverhead: c.KeepEntries,
		MaxInMemLogSize:    64 << 20,
	}
}

// leaderListener passes on who leads. It is called on one goroutine that must not
// be held up.
type leaderListener func(raftio.LeaderInfo)

func (f leaderListener) LeaderUpdated(info raftio.LeaderInfo) { f(info) }

// registry is the address book that raft asks where a replica is. Replicas are
// named by their node's raft host id, which outlives addresses.
type registry struct {
	mu      sync.Mutex
	targets map[raftio.NodeInfo]string // host id
	books   map[string]string          // host id to raft address
}

func newRegistry() *registry {
	return &registry{targets: make(map[raftio.NodeInfo]string), books: make(map[string]string)}
}

// Create makes the registry its own factory: it is there before raft asks for it.
func (r *registry) Create(string, uint64, config.TargetValidator) (raftio.INodeRegistry, error) {
	return r, nil
}

func (r *registry) Close() error { return nil }

// host answers on which node a replica is, "" when that is not known.
func (r *registry) host(shard, replica uint64) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.targets[raftio.GetNodeInfo(shard, replica)]
}

// hosts lists the nodes that have replicas in the logs of this one.
func (r *registry) hosts() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	hosts := slices.Sorted(maps.Values(r.targets))
	return slices.Compact(hosts)
}

// found says at which address a node is now.
func (r *registry) found(host, addr string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.books[host] = addr
}

func (r *registry) Add(shard, replica uint64, target string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.targets[raftio.GetNodeInfo(shard, replica)] = target
}

func (r *registry) Remove(shard, replica uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.targets, raftio.GetNodeInfo(shard, replica))
}

func (r *registry) RemoveShard(shard uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for info := range r.targets {
		if info.ShardID == shard {
			delete(r.targets, info)
		}
	}
}

func (r *registry) Resolve(shard, replica uint64) (string, string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	host := r.targets[raftio.GetNodeInfo(shard, replica)]
	addr, ok := r.books[host]
	if !ok {
		return "", "", fmt.Errorf("groups: replica %d of log %d is at no known address", replica, shard)
	}
	return addr, addr, nil
}

// followHostname makes a raft directory usable under this machine's name:
// dragonboat keeps its files below one called like the host, and refuses others.
// Who a node is stands in its data directory and not in its name.
func followHostname(dir string, log *slog.Logger) error {
	name, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("ask for the host's name: %w", err)
	}
	entries, err := os.ReadDir(dir)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return err
	}
	var old []string
	for _, e := range entries {
		if e.IsDir() {
			old = append(old, e.Name())
		}
	}
	if len(old) != 1 || old[0] == name {
		return nil
	}
	log.Info("the host was renamed, moving the raft log's directory along", "from", old[0], "to", name)
	if err := os.Remove(filepath.Join(dir, "dragonboat.ds")); err != nil && !os.IsNotExist(err) {
		return err
	}
	if err := os.Rename(filepath.Join(dir, old[0]), filepath.Join(dir, name)); err != nil {
		return err
	}
	return datadir.SyncDir(dir)
}

var raftLogOnce sync.Once

// logRaftTo sends dragonboat's messages to a logger. dragonboat has one for the
// whole process, so the first node of a process decides.
func logRaftTo(log *slog.Logger) {
	raftLogOnce.Do(func() {
		logger.SetLoggerFactory(func(pkg string) logger.ILogger {
			return &raftLogger{log: log.With("raft", pkg), level: logger.WARNING, quiet: pkg == "transport"}
		})
		for _, pkg := range []string{"dragonboat", "raft", "rsm", "logdb", "transport", "config", "registry", "settings", "utils", "server", "raftpb", "grpc", "tests", "util", "pebblekv", "fileutil"} {
			logger.GetLogger(pkg).SetLevel(logger.WARNING)
		}
	})
}

// raftLogger passes dragonboat's messages on. A Panicf is its last word before it
// panics: the process must end, and say why.
type raftLogger struct {
	log   *slog.Logger
	level logger.LogLevel
	quiet bool // its errors are that nodes cannot be reached, which the link tells better
}

func (l *raftLogger) SetLevel(level logger.LogLevel) { l.level = level }

func (l *raftLogger) Debugf(format string, args ...any) {
	if l.level >= logger.DEBUG {
		l.log.Debug(message(format, args))
	}
}

func (l *raftLogger) Infof(format string, args ...any) {
	if l.level >= logger.INFO {
		l.log.Debug(message(format, args))
	}
}

func (l *raftLogger) Warningf(format string, args ...any) {
	if l.level >= logger.WARNING {
		l.log.Debug(message(format, args))
	}
}

func (l *raftLogger) Errorf(format string, args ...any) {
	if l.quiet {
		l.log.Debug(message(format, args))
		return
	}
	l.log.Error(message(format, args))
}

func (l *raftLogger) Panicf(format string, args ...any) {
	lastWord(l.log, fmt.Errorf(format, args...))
	panic(message(format, args))
}

func message(format string, args []any) string {
	return strings.TrimSpace(fmt.Sprintf(format, args...))
}
