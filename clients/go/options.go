package pathlockd

import (
	"context"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// Defaults of the options.
const (
	DefaultGrace       = 15 * time.Second
	DefaultKeepAlive   = 5 * time.Second
	DefaultDialTimeout = 5 * time.Second
	DefaultBacklog     = 65_536
	DefaultTTL         = 30 * time.Second
)

// minGrace is the shortest grace: leases are believed in while their connection was
// whole a grace ago, which takes a few round trips to know.
const minGrace = 100 * time.Millisecond

// Option configures a Client.
type Option func(*options)

type options struct {
	grace       time.Duration
	keepAlive   time.Duration
	dialTimeout time.Duration
	backlog     int
	window      int
	name        string
	command     string
	labels      map[string]string
	dialer      func(ctx context.Context, network, addr string) (net.Conn, error)

	oneConnection bool
	clock         func() time.Duration
}

// WithGrace sets how long the client's leases outlive its connection, 15 s unless
// set, at least 100 ms: the time it has to connect again before its locks are free for
// others. No lock counts as held for longer than that after the server last answered
// anything, so the server is asked for a sign of life three times within it. With a
// grace above the TTLs a lost connection shortens no lease.
func WithGrace(d time.Duration) Option { return func(o *options) { o.grace = d } }

// WithKeepAlive sets how long the server may answer nothing before the client pings it,
// 5 s unless set, or a third of the grace while locks are held if that is less. After
// as long again without an answer the connection is given up and made anew.
func WithKeepAlive(d time.Duration) Option { return func(o *options) { o.keepAlive = d } }

// WithDialTimeout sets how long an attempt to connect to one address may take, the
// hello included; 5 s unless set.
func WithDialTimeout(d time.Duration) Option { return func(o *options) { o.dialTimeout = d } }

// WithBacklog sets how many requests of Go and Batch may wait to be sent because
// the window is full or there is no connection, 65 536 unless set. Over it Go
// refuses with ErrBacklog, and Batch.Send waits.
func WithBacklog(n int) Option { return func(o *options) { o.backlog = n } }

// WithWindow lowers the number of requests that may be unanswered at once, waiting
// acquires aside, below what the server allows. What is more waits to be sent.
func WithWindow(n int) Option { return func(o *options) { o.window = n } }

// WithName names the program that uses the client, and its version, to the server:
// "myapp/1.4".
func WithName(name string) Option { return func(o *options) { o.name = name } }

// WithCommand sets the command that those who look at a lock see its holder run;
// the program's name unless set.
func WithCommand(command string) Option { return func(o *options) { o.command = command } }

// WithLabels adds labels to what people see who look at a lock of this client. All
// that it says of itself must fit into 4096 bytes.
func WithLabels(labels map[string]string) Option {
	return func(o *options) {
		if o.labels == nil {
			o.labels = make(map[string]string)
		}
		maps.Copy(o.labels, labels)
	}
}

// WithOneConnection has the client send everything over one connection, also when
// other nodes of the cluster would be nearer to what is asked: for servers that are
// reached through one address only, and where connections are dear.
func WithOneConnection() Option { return func(o *options) { o.oneConnection = true } }

// WithDialer sets how connections are made, for TLS and for tests. network is
// "tcp" or "unix".
func WithDialer(dial func(ctx context.Context, network, addr string) (net.Conn, error)) Option {
	return func(o *options) { o.dialer = dial }
}

// defaults are the options of a client that sets none.
func defaults() options {
	return options{
		grace: DefaultGrace, keepAlive: DefaultKeepAlive, dialTimeout: DefaultDialTimeout,
		backlog: DefaultBacklog, name: clientName, command: filepath.Base(os.Args[0]),
		dialer: new(net.Dialer).DialContext, clock: sinceBoot,
	}
}

// clientName is what the client calls itself at hello.
const clientName = "pathlockd-go/1"

func (o *options) check() error {
	switch {
	case o.grace < minGrace || o.grace.Milliseconds() > wire.MaxGraceMillis:
		return fmt.Errorf("pathlockd: grace %v: must be from %v to 7 days", o.grace, minGrace)
	case o.keepAlive <= 0:
		return fmt.Errorf("pathlockd: keep-alive %v: must be above 0", o.keepAlive)
	case o.dialTimeout <= 0:
		return fmt.Errorf("pathlockd: dial timeout %v: must be above 0", o.dialTimeout)
	case o.backlog < 1:
		return fmt.Errorf("pathlockd: backlog %d: must be above 0", o.backlog)
	case o.window < 0:
		return fmt.Errorf("pathlockd: window %d: must not be negative", o.window)
	}
	return nil
}

// processStart stands for the start of the process.
var processStart = time.Now()

// metadata is what the client says of itself, and of a lock with labels of its
// own.
func (o *options) metadata(labels map[string]string) ([]byte, error) {
	m := wire.Metadata{
		PID: int64(os.Getpid()), StartUnixMillis: processStart.UnixMilli(),
		BootID: bootID(), Command: o.command, Labels: o.labels,
	}
	m.Host, _ = os.Hostname()
	if len(labels) > 0 {
		m.Labels = maps.Clone(o.labels)
		if m.Labels == nil {
			m.Labels = make(map[string]string)
		}
		maps.Copy(m.Labels, labels)
	}
	b, err := m.Encode()
	if err != nil {
		return nil, fmt.Errorf("pathlockd: encode metadata: %w", err)
	}
	if len(b) > wire.MaxMetadataBytes {
		return nil, fmt.Errorf("pathlockd: labels: with host, process and command they take %d bytes encoded, at "+
			"most %d are allowed",
			len(b), wire.MaxMetadataBytes)
	}
	return b, nil
}

// bootID names this boot of the host, "" where the system does not tell.
func bootID() string {
	const file, length = "/proc/sys/kernel/random/boot_id", 36
	b, err := os.ReadFile(file)
	if err != nil || len(b) < length {
		return ""
	}
	return string(b[:length])
}
