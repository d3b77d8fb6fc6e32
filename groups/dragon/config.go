package dragon

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/lni/dragonboat/v4"
	"github.com/lni/dragonboat/v4/config"
	"github.com/lni/dragonboat/v4/raftio"

	"github.com/pathlockd/pathlockd/groups/datadir"
	"github.com/pathlockd/pathlockd/groups/link"
)

// Tick is dragonboat's unit of time, for elections that happen after electionMin at least. Idle cost grows as it
// shrinks: 256 shards idle at 4 % of a core with 50 ms, 9 % with 10 ms; of a node with 17 logs among three, ticks of 50
// ms are a quarter of the idle cost. So they are as long as an election timeout of at least ten of them allows, 100 ms
// at most.
func Tick(electionMin time.Duration) time.Duration {
	if electionMin >= 10*maxTick {
		return maxTick
	}
	return minTick
}

const minTick, maxTick = 50 * time.Millisecond, 100 * time.Millisecond

// Config is what dragonboat is started with.
type Config struct {
	Dir  string     // Dir is where it keeps its logs.
	FS   config.IFS // FS is the file system of Dir, nil for the operating system's.
	Addr string     // Addr is where it listens, host:port.
	// ElectionMin is the least time without a leader before an election; the most is twice that.
	ElectionMin time.Duration
	Heartbeat   time.Duration // Heartbeat is the time between a leader's heartbeats.
	KeepEntries uint64        // KeepEntries is how many entries are kept behind a snapshot.

	Identity *datadir.Identity
	Registry *Registry
	Link     *link.Link // Link is what it sends by. The host closes it.
	Log      *slog.Logger

	// Failed is called when a write or a sync of a log fails: nobody knows then what the disk has. What failed is taken
	// for done when it returns.
	Failed func(error)
	// Leader is told who leads a log, as a replica of this node knows it; leader is a replica, 0 for none. It is called
	// on one goroutine that must not be held up.
	Leader func(shard, replica, term, leader uint64)
}

// Start starts dragonboat.
func Start(c Config) (*Host, error) {
	if c.FS == nil {
		if err := followHostname(c.Dir, c.Log); err != nil {
			return nil, err
		}
	}
	wire := &wiring{Link: c.Link, deployment: c.Identity.Deployment()}
	expert := config.GetDefaultExpertConfig()
	// All step workers share one write-ahead log, and so one fsync: 256 groups went
	// from 27 k to 121 k proposals a second, 16 from 20 k to 58 k. Both numbers are
	// frozen in the data directory.
	expert.Engine.ExecShards = 16
	expert.LogDB = config.GetSmallMemLogDBConfig()
	expert.LogDB.Shards = 1
	expert.NodeRegistryFactory = c.Registry
	expert.TransportFactory = wire
	expert.FS = newDisk(c.FS, c.Failed)
	node, err := dragonboat.NewNodeHost(config.NodeHostConfig{
		DeploymentID:      wire.deployment,
		NodeHostID:        c.Identity.HostID,
		NodeHostDir:       c.Dir,
		RTTMillisecond:    uint64(Tick(c.ElectionMin).Milliseconds()),
		RaftAddress:       c.Addr,
		RaftEventListener: leaderListener(c.Leader),
		Expert:            expert,
	})
	if err != nil {
		return nil, fmt.Errorf("start raft on %s in %s: %w", c.Addr, c.Dir, err)
	}
	h := &Host{NodeHost: node, cfg: c, wire: wire, logs: make(map[uint64]*log)}
	h.ends, h.end = context.WithCancel(context.Background())
	for _, shard := range c.Identity.Logs() {
		h.logs[shard] = &log{Host: h, shard: shard, session: node.GetNoOPSession(shard)}
	}
	return h, nil
}

// shard is how one log is run.
func (c *Config) shard(shard uint64, s datadir.Replica) config.Config {
	ticks := func(d time.Duration) uint64 { return uint64(max(d/Tick(c.ElectionMin), 1)) }
	return config.Config{
		ReplicaID: s.ID, ShardID: shard, IsNonVoting: s.Joined && !s.Voter,
		CheckQuorum: true, PreVote: true, OrderedConfigChange: true,
		// dragonboat draws each election's timeout from one to two times this.
		ElectionRTT:  ticks(c.ElectionMin),
		HeartbeatRTT: ticks(min(c.Heartbeat, c.ElectionMin/5)),
		// Snapshots are asked for by the node, right after a checkpoint (groups/node.go).
		SnapshotEntries:    0,
		CompactionOverhead: c.KeepEntries,
		MaxInMemLogSize:    64 << 20,
	}
}

// leaderListener passes on who leads.
type leaderListener func(shard, replica, term, leader uint64)

func (f leaderListener) LeaderUpdated(info raftio.LeaderInfo) {
	f(info.ShardID, info.ReplicaID, info.Term, info.LeaderID)
}
