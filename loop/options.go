package loop

import (
	"log/slog"
	"syscall"
	"time"

	"github.com/pathlockd/pathlockd/internal/tcp"
	"github.com/pathlockd/pathlockd/wire"
)

// Options is what a server is made with. Zero values are the defaults.
type Options struct {
	NodeID    string
	ClusterID string
	Version   string // of the server, for people
	Log       *slog.Logger

	InFlight      int // requests of a connection not yet answered: max_concurrent_requests_per_connection
	Waiting       int // acquires of a connection that wait
	Subscriptions int
	BoundOwners   int
	Connections   int           // 0: as many as file descriptors allow a server that has them all to itself
	Outbound      int           // bytes a peer may leave unread before no more of its requests are read
	Pushes        int           // bytes of pushes a peer may leave unread before it is closed
	Stall         time.Duration // a peer that leaves something unread and takes nothing for so long is closed
	Inbound       int64         // bytes of unfinished frames, of all connections
	Held          int64         // bytes of requests not yet answered, of all connections
	Unread        int64         // bytes that peers leave unread, of all connections
	HelloWithin   time.Duration // a connection that has not said hello by then is closed
	FrameWithin   time.Duration // likewise one that does not finish a frame it began
	RepeatMillis  uint64        // told to clients: how long answers are kept for repeats
	Answers       uint64        // likewise: how many of them each log keeps for a session
	RequestMillis uint64        // told to clients: request_timeout_ms
	GroupInFlight uint64        // told to clients: max_inflight_per_group
	Loops         int           // event loops; 0: one for each processor
}

// reservedFiles is how many file descriptors are left for everything but client
// connections.
const reservedFiles = 512

func (o Options) defaults() Options {
	set := func(p *int, v int) {
		if *p == 0 {
			*p = v
		}
	}
	set(&o.InFlight, 256)
	set(&o.Waiting, 16_384)
	set(&o.Subscriptions, 256)
	set(&o.BoundOwners, 1024)
	set(&o.Outbound, 1<<20)
	set(&o.Pushes, 4<<20)
	for _, p := range []*int64{&o.Inbound, &o.Held, &o.Unread} {
		if *p == 0 {
			*p = 256 << 20
		}
	}
	if o.Stall == 0 {
		o.Stall = tcp.GoneWithin
	}
	if o.HelloWithin == 0 {
		o.HelloWithin = 10 * time.Second
	}
	if o.FrameWithin == 0 {
		o.FrameWithin = 30 * time.Second
	}
	if o.Connections == 0 {
		o.Connections = connectionsAllowed()
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	return o
}

// connectionsAllowed is how many connections the limit on open files leaves room
// for.
func connectionsAllowed() int {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		return 1024
	}
	return int(max(min(l.Cur, 1<<20), 2*reservedFiles) - reservedFiles)
}

// limits is what a client is told.
func (o *Options) limits() wire.Limits {
	return wire.Limits{
		FrameBytes: wire.MaxFrameBytes, InFlight: uint64(o.InFlight), Waiting: uint64(o.Waiting),
		Subscriptions: uint64(o.Subscriptions), BoundOwners: uint64(o.BoundOwners), RepeatMillis: o.RepeatMillis,
		Answers:     o.Answers,
		UnreadBytes: uint64(o.Outbound), UnreadMillis: uint64(o.Stall.Milliseconds()),
		RequestMillis: o.RequestMillis, GroupInFlight: o.GroupInFlight,
	}
}
