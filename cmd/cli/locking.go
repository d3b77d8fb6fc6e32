package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	pathlockd "github.com/pathlockd/pathlockd/clients/go"
	"github.com/pathlockd/pathlockd/wire"
)

// Defaults of what takes locks.
const (
	defaultTTL  = 30 * time.Second
	defaultWait = 30 * time.Second
	// minTTL is the least that a lock is taken for: less would be over before its
	// taker is told.
	minTTL = 50 * time.Millisecond
)

// locking is what acquire and run have in common: the flags of a lock.
type locking struct {
	a       *app
	cmd     *cobra.Command
	owner   ownerFlag
	alone   bool // the owner is made up, for this lock alone
	read    bool
	ttl     time.Duration
	wait    time.Duration
	noWait  bool
	permits uint32
	token   int64
	labels  labels
}

func (l *locking) add(a *app, cmd *cobra.Command, ownerHelp string) {
	l.a, l.cmd, l.ttl, l.wait, l.labels = a, cmd, defaultTTL, defaultWait, labels{}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.BoolVar(&l.read, "read", false, "lock for reading: shared with other readers of exactly that path")
	l.owner.add(cmd, ownerHelp)
	fs.Var(&span{&l.ttl, minTTL, maxSpan}, "ttl",
		"how long the lock lasts from its last renewal: a `DURATION`, at most 7d")
	fs.Var(&patience{&l.wait}, "wait", "how long to wait for a lock that is held: a `DURATION`, 0, or forever")
	fs.BoolVar(&l.noWait, "no-wait", false, "do not wait: the same as --wait 0")
	fs.Var(&number[uint32]{&l.permits, 1, 1<<32 - 1, "how many may hold the path at once"}, "permits",
		"in a semaphore namespace: `N` may hold the path at once")
	fs.Var(&number[int64]{&l.token, 1, wire.MaxToken, "a fencing token"}, "token",
		"bring your own fencing token `N`, above all that the path has seen")
	fs.Var(l.labels, "label", "show `KEY=VALUE` to those who look at the lock; may be repeated")
}

// check checks what the flags and the paths say together.
func (l *locking) check(paths []string) error {
	if err := checkPaths(paths, wire.MaxBulkPaths); err != nil {
		return err
	}
	for _, pair := range [][2]string{{"wait", "no-wait"}, {"read", "permits"}, {"read", "token"}} {
		if err := errTwoWays(l.cmd, pair[0], pair[1]); err != nil {
			return err
		}
	}
	if l.noWait {
		l.wait = 0
	}
	if l.owner.given() {
		return checkOwner("--owner", l.owner.owner)
	}
	return nil
}

func (l *locking) mode() wire.Mode {
	if l.read {
		return wire.ModeRead
	}
	return wire.ModeWrite
}

// errWaited ends a wait that was to be no longer.
var errWaited = errors.New("the wait is over")

// spare is how much longer than the wait a request may stay in the queue.
const spare = 5 * time.Second

// waiting ends when the wait for the lock is over. It is not told to the server, so that it
// is this command that ends the wait, and says why.
func (l *locking) waiting(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := func() bool { return true }
	if l.wait < maxSpan {
		stop = time.AfterFunc(l.wait, func() { cancel(errWaited) }).Stop
	}
	return ctx, func() { stop(); cancel(nil) }
}

// hold is one path and mode that an owner holds.
type hold struct {
	path string
	mode wire.Mode
}

// holds lists what an owner holds in the namespaces of paths. Of the paths that are
// asked for, that is all that matters.
func holds(ctx context.Context, c *pathlockd.Client, owner string,
	paths []string) (map[hold]pathlockd.LockInfo, error) {
	all := make(map[hold]pathlockd.LockInfo)
	for len(paths) > 0 {
		n := min(len(paths), wire.MaxDomains)
		infos, _, err := c.ListOwnerLocks(ctx, owner, paths[:n]...)
		if err != nil {
			return nil, err
		}
		for _, info := range infos {
			all[hold{info.Path, info.Mode}] = info
		}
		paths = paths[n:]
	}
	return all, nil
}

// abandonWithin bounds the clean-up after a wait that was given up.
const abandonWithin = 3 * time.Second

// abandon waits until nothing is left of a wait that was given up. The client cancels it, and
// if the grant was faster takes that back, which it tells from all that the owner holds
// otherwise: from before, or in another process since. It lets the owner acquire again only
// after that, be it nothing.
func abandon(c *pathlockd.Client, owner string) error {
	ctx, cancel := context.WithTimeoutCause(context.Background(), abandonWithin, errNoAnswer)
	defer cancel()
	_, err := c.Acquire(ctx, &wire.Request{Owner: owner, TTLMillis: uint64(minTTL.Milliseconds())})
	return err
}

// takeBack gives back what a request may have taken in the name of an owner that nobody is told, so that nobody else
// can. It is carried out behind that.
func takeBack(c *pathlockd.Client, req *wire.Request) {
	ctx, cancel := context.WithTimeoutCause(context.Background(), abandonWithin, errNoAnswer)
	defer cancel()
	rels := make([]wire.ReleaseRequest, len(req.Locks))
	for i, l := range req.Locks {
		rels[i] = wire.ReleaseRequest{Path: l.Path, Mode: l.Mode}
	}
	_ = release(ctx, c, req.Owner, rels) // what ended the call is worth telling
}

// release gives paths back, as many at once as the server takes.
func release(ctx context.Context, c *pathlockd.Client, owner string, rels []wire.ReleaseRequest) error {
	for len(rels) > 0 {
		n := min(len(rels), wire.MaxPaths)
		if err := c.Release(ctx, owner, rels[:n], false, ""); err != nil {
			return err
		}
		rels = rels[n:]
	}
	return nil
}

// gaveUp says why a wait came to nothing: err, or that it took too long.
func (l *locking) gaveUp(waited context.Context, err error, last *pathlockd.ConflictError, began time.Time) error {
	if !errors.Is(context.Cause(waited), errWaited) {
		return err
	}
	f := &failure{exit: ExitTimeout, code: codeTimeout, message: fmt.Sprintf("not acquired: waited for %s",
		short(l.wait))}
	if last != nil {
		f.message += "; " + inTheWay(last)
		f.details = &blocker{Path: last.Path, Owner: last.Owner, Reason: last.Reason.String(),
			WaitedMillis: time.Since(began).Milliseconds()}
		f.hint("wait longer: --wait 5m, or forever; %s", lookAt(last))
	}
	return f
}

// tellWaiting tells people that it takes a while, and because of whom.
func (l *locking) tellWaiting(ctx context.Context, c *pathlockd.Client, e *pathlockd.ConflictError, place uint64) {
	if l.a.json {
		return
	}
	long := "up to " + waitText(l.wait)
	if l.wait == maxSpan {
		long = "for as long as it takes"
	}
	at := ""
	if place > 0 {
		at = fmt.Sprintf(" as number %d in the queue", place)
	}
	l.a.note("waiting %s%s: %s%s (Ctrl-C gives up)", long, at, inTheWay(e), heldFor(ctx, c, e))
}

// heldFor says since when and by which process a path is held, if that can be told.
func heldFor(ctx context.Context, c *pathlockd.Client, e *pathlockd.ConflictError) string {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	d, err := c.Describe(ctx, e.Path, 1)
	if err != nil {
		return ""
	}
	for _, h := range d.Holders {
		if h.Owner != e.Owner {
			continue
		}
		s := fmt.Sprintf(", since %s, lease ends in %s", since(h.SinceUnixMillis), within(h.ExpiresInMillis))
		if who := holder(h.Meta); who != "" {
			s += ", " + who
		}
		return s
	}
	return ""
}

// meta says who takes a lock that outlives the command: not this process, which is
// about to end, but the one that started it.
func (l *locking) meta() ([]byte, error) {
	const most = 512
	m := wire.Metadata{PID: int64(os.Getppid()), Command: "pathlock " + l.cmd.Name(), Labels: l.labels}
	m.Host, _ = os.Hostname()
	if b, err := os.ReadFile("/proc/" + strconv.Itoa(os.Getppid()) + "/cmdline"); err == nil && len(b) > 0 {
		m.Command = strings.ToValidUTF8(strings.TrimSpace(strings.ReplaceAll(string(b[:min(len(b), most)]),
			"\x00", " ")), "")
	}
	b, err := m.Encode()
	if err != nil {
		return nil, fmt.Errorf("encode metadata: %w", err)
	}
	if len(b) > wire.MaxMetadataBytes {
		return nil, usage("--label: with host and command, labels take %d bytes, at most %d are allowed", len(b),
			wire.MaxMetadataBytes)
	}
	return b, nil
}
