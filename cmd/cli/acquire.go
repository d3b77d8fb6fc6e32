package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	pathlockd "github.com/pathlockd/pathlockd/clients/go"
	"github.com/pathlockd/pathlockd/wire"
)

const acquireLong = `Take a lock on each PATH, all of them or none. All are in one namespace.

The lock outlives this command: it is held until it is released, or its TTL is over
without a renewal. The owner is printed: renew, release and assert need it. Without
--owner and ` + envOwner + ` a new one is made up.

When somebody else is in the way, acquire waits up to --wait (30s unless set), in the
order of arrival. --no-wait answers at once, with exit code 1; a wait that is over has
exit code 75. Ctrl-C gives up, and leaves nothing in the queue.

Hand the token to whatever the lock protects, which is to refuse tokens lower than one
it has seen. An owner never excludes itself: to acquire again what it holds is no error,
and makes its lease last at least as long as --ttl says from now on.`

// acquireCmd makes the command acquire.
func (a *app) acquireCmd() *cobra.Command {
	var l locking
	cmd := &cobra.Command{
		Use: "acquire PATH…", GroupID: groupLock, Short: "Take a lock that outlives the command", Long: acquireLong,
		Example: `  pathlock acquire tenant:/acme/projects/42
  pathlock acquire tenant:/acme/projects/42 --owner deploy-7 --ttl 5m --wait 10m
  pathlock acquire tenant:/acme/a tenant:/acme/b --read --no-wait
  token=$(pathlock acquire tenant:/acme/x --owner me --json | jq .data.fencing_token)`,
		RunE: body(func(ctx context.Context, paths []string) error {
			if err := l.check(paths); err != nil {
				return err
			}
			return l.acquire(ctx, paths)
		}),
	}
	l.add(a, cmd, "whose lock it is: an `ID` (or set "+envOwner+"; a new one unless set)")
	return cmd
}

// pathMode is one path of a lock for programs.
type pathMode struct {
	Path string `json:"path"`
	Mode string `json:"mode"`
}

// acquired is the data of an acquire.
type acquired struct {
	Owner           string     `json:"owner"`
	Namespace       string     `json:"namespace"`
	FencingToken    int64      `json:"fencing_token"`
	Paths           []pathMode `json:"paths"`
	TTLMillis       int64      `json:"ttl_ms"`
	ExpiresInMillis int64      `json:"expires_in_ms"`
	ExpiresAt       string     `json:"expires_at"`
	WaitedMillis    int64      `json:"waited_ms"`
}

// acquire takes the lock and tells so.
func (l *locking) acquire(ctx context.Context, paths []string) error {
	owner := l.owner.owner
	switch env := l.a.env(envOwner); {
	case l.owner.given():
	case env != "":
		owner = env
		if err := checkOwner(envOwner, env); err != nil {
			return err
		}
	default:
		owner, l.alone = newOwner(), true
	}
	meta, err := l.meta()
	if err != nil {
		return err
	}
	req := &wire.Request{Owner: owner, TTLMillis: uint64(l.ttl.Milliseconds()), Token: l.token, Meta: meta}
	if len(paths) > wire.MaxPaths {
		req.Flags = wire.FlagBulk
	}
	for _, p := range paths {
		req.Locks = append(req.Locks, wire.LockRequest{Path: p, Mode: l.mode(), Permits: l.permits})
	}
	c, err := l.a.dial(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	began := time.Now()
	res, waited, err := l.take(ctx, c, req)
	if err != nil {
		return err
	}
	took := time.Duration(0)
	over := began.Add(l.ttl)
	if waited {
		took = time.Since(began)
		if over, err = l.leaseEnd(ctx, c, req, res, began); err != nil {
			return err
		}
	}
	data := &acquired{
		Owner: owner, Namespace: res.Namespace, FencingToken: res.Token, TTLMillis: l.ttl.Milliseconds(),
		ExpiresInMillis: max(time.Until(over), 0).Milliseconds(), ExpiresAt: stamp(over),
		WaitedMillis: took.Milliseconds(),
	}
	for _, p := range paths {
		data.Paths = append(data.Paths, pathMode{p, modeName(l.mode())})
	}
	return l.a.answer(data, func(b *bytes.Buffer) { l.show(b, data, over) })
}

// take asks for the lock; at first without waiting, to tell why it takes a while.
// It answers whether it waited.
func (l *locking) take(ctx context.Context, c *pathlockd.Client,
	req *wire.Request) (res *wire.Result, waited bool, err error) {
	began := time.Now()
	flags := req.Flags
	req.Flags = flags | wire.FlagNoQueue
	first, cancel := l.a.limited(ctx)
	defer cancel()
	if res, err = c.Acquire(first, req); err != nil {
		if l.alone && errors.Is(err, pathlockd.ErrOutcomeUnknown) {
			takeBack(c, req)
		}
		return nil, false, err
	}
	e := conflictOf(res)
	switch {
	case res.Status == wire.StatusOK:
		return res, false, nil
	case l.wait == 0 || !waitable(res.Reason):
		return nil, false, e
	}
	l.tellWaiting(ctx, c, e, 0)
	queued, stop := l.waiting(ctx)
	defer stop()
	req.Flags = flags | wire.FlagWait
	res, err = l.queue(queued, c, req)
	switch {
	case err == nil && res.Status != wire.StatusOK:
		return nil, true, conflictOf(res)
	case err == nil: // also when somebody gave up just then: only who is told can give it back
		return res, true, nil
	case queued.Err() == nil:
		return nil, true, err
	}
	err = l.gaveUp(queued, err, e, began)
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if gone := abandon(c, req.Owner); gone != nil && ctx.Err() == nil {
		err = fmt.Errorf("the server went away during the wait: %w", gone)
	}
	return nil, true, err
}

// queue asks for the lock until it is granted.
func (l *locking) queue(ctx context.Context, c *pathlockd.Client, req *wire.Request) (*wire.Result, error) {
	req.QueueTTLMillis = uint64(min(l.wait+spare, maxSpan).Milliseconds())
	for {
		res, err := c.Acquire(ctx, req)
		if (errors.Is(err, pathlockd.ErrCancelled) || errors.Is(err, pathlockd.ErrOutcomeUnknown)) && ctx.Err() == nil {
			continue // the session was forgotten; if it was granted, the next request finds that
		}
		return res, err
	}
}

// conflictOf is a result that is not OK as an error.
func conflictOf(res *wire.Result) *pathlockd.ConflictError {
	return &pathlockd.ConflictError{Path: res.Path, Owner: res.Owner, Reason: res.Reason, CurrentToken: res.Current}
}

// leaseEnd answers until when the locks are held at least, that were granted at a time that
// nobody here knows. Whatever becomes of the question, they are held: so only a lease that the
// server says is over is an error.
func (l *locking) leaseEnd(ctx context.Context, c *pathlockd.Client, req *wire.Request, res *wire.Result,
	asked time.Time) (time.Time, error) {
	ctx, cancel := l.a.limited(ctx)
	defer cancel()
	renewed := time.Now()
	held, err := c.Renew(ctx, req.Owner, l.ttl, "", wire.FlagExtend, res.Namespace)
	switch {
	case err != nil:
		if !l.a.json {
			l.a.note("acquired, but until when it is held was not answered: %s", plain(err))
		}
		return asked.Add(l.ttl), nil // the lease began later than that
	case held.Status != wire.StatusOK:
		return asked, &failure{
			exit: ExitFailed, code: codeLost,
			message: fmt.Sprintf("%s was acquired and lost again within moments: its lease is over, or somebody "+
				"took it away", req.Locks[0].Path),
		}
	}
	return renewed.Add(l.ttl), nil
}

// show tells people what they have, and what to do with it.
func (l *locking) show(b *bytes.Buffer, d *acquired, over time.Time) {
	who := ""
	if l.a.env(envOwner) != d.Owner {
		who = " --owner " + quote(d.Owner)
	}
	who += l.a.addrFlag()
	var t table
	rest := ""
	for i, p := range d.Paths {
		name := ""
		if i == 0 {
			name = "acquired"
		}
		t.add(name, fmt.Sprintf("%s (%s)", visible(p.Path), p.Mode))
		rest += " " + quote(p.Path)
	}
	t.add("owner", visible(d.Owner))
	if d.FencingToken != 0 {
		t.add("token", fmt.Sprint(d.FencingToken))
	}
	t.add("expires", fmt.Sprintf("in %s, at %s, unless renewed", short(time.Until(over).Round(time.Second)),
		over.Format(time.TimeOnly)))
	renew := "pathlock renew" + who
	if l.ttl != defaultTTL {
		renew += " --ttl " + exact(l.ttl)
	}
	t.add("renew", renew)
	t.add("release", "pathlock release"+rest+who)
	t.write(b)
}

// modeName is a mode as the command line spells it.
func modeName(m wire.Mode) string {
	if m == wire.ModeRead {
		return "read"
	}
	return "write"
}
