package sim

import (
	"time"

	"github.com/pathlockd/pathlockd/groups/place"
)

// Config is a cluster, and what its parts can do. The zero value of a field stands for
// what pathlockd does by default.
type Config struct {
	Nodes  int
	Logs   int // log_count; the system log comes on top
	Factor int // replication_factor
	Seed   uint64

	Windows    place.Windows
	Concurrent int           // max_concurrent_reconciles
	Balance    time.Duration // leader_balance_interval_secs

	// Locks are held in the whole cluster, evenly over the logs, and take LockBytes each
	// in a snapshot. LockBytes is measured by bench/gauge.
	Locks     int
	LockBytes float64
	// Bandwidth is what a node sends, and what it receives, in bytes a second: an
	// assumption, a gigabit.
	Bandwidth float64
	// LoadRate is how many locks a second a node loads, from its disk or a snapshot:
	// 1 M in 1.45 s is measured (bench budgets, start).
	LoadRate float64
}

// Times of what is modelled; those of groups are named there.
const (
	electionMin     = 1500 * time.Millisecond // election timeouts are drawn from one to two times this
	heartbeat       = 500 * time.Millisecond
	raftTick        = 50 * time.Millisecond
	changeTime      = 20 * time.Millisecond // until a change of members is committed
	changeWithin    = 5 * time.Second       // until one that is not is given up
	voteTime        = 5 * time.Millisecond  // for two rounds of votes: who stands within it splits them
	leaderEpochTime = 5 * time.Millisecond  // for the first entry of a leader
	leaderEpochEach = 300 * time.Microsecond
	// Raft drops two of three transfers that come right after writes. One that it takes
	// leaves the log without a leader for a moment.
	transferEvery  = 100 * time.Millisecond
	transferWithin = 3 * time.Second
	transferOdds   = 3
	transferTime   = 10 * time.Millisecond

	roundGap       = 100 * time.Millisecond
	unsettled      = time.Second
	readTime       = time.Millisecond // to ask raft who is in a log
	askWithin      = time.Second
	meshSilence    = 4 * time.Second        // until a connection to who vanished is closed
	layoutCost     = 300 * time.Nanosecond  // for each node and log
	startTime      = 300 * time.Millisecond // of a process, without locks
	fullyApplied   = 1 << 20                // entries of each log: how many does not matter
	handAwayWithin = 5 * time.Second        // how long a stop waits for leaderships to go
)

func (c Config) defaults() Config {
	if c.Windows == (place.Windows{}) {
		c.Windows = place.Windows{Stability: 30 * time.Second, Eviction: time.Minute}
	}
	if c.Concurrent == 0 {
		c.Concurrent = 4
	}
	if c.Balance == 0 {
		c.Balance = time.Minute
	}
	if c.Locks == 0 {
		c.Locks = 10_000_000
	}
	if c.LockBytes == 0 {
		c.LockBytes = 60
	}
	if c.Bandwidth == 0 {
		c.Bandwidth = 125e6
	}
	if c.LoadRate == 0 {
		c.LoadRate = 1e6 / 1.45
	}
	return c
}

// locksOf is how many locks a log has. The system log has none.
func (c *Config) locksOf(log uint64) float64 {
	if log == 1 {
		return 0
	}
	return float64(c.Locks) / float64(c.Logs)
}

// span is a time of that many seconds.
func span(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }
