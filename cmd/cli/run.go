package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	pathlockd "github.com/pathlockd/pathlockd/clients/go"
	"github.com/pathlockd/pathlockd/wire"
)

const runLong = `Hold a lock on each PATH while COMMAND runs. The lock is renewed at a third of its TTL and
given back when COMMAND ends; run's exit code is that of COMMAND, or 128 and the number of
the signal that ended it. COMMAND finds these variables:

  PATHLOCK_TOKEN   the lock's fencing token, for whatever the lock protects to check
  PATHLOCK_OWNER   the lock's owner, and PATHLOCK_ADDR the server: what pathlock assert,
                   renew and the like need inside COMMAND

When the lock is lost (the server cannot be reached for a TTL, or somebody took the lock
away), COMMAND and all that it started in its process group are ended: SIGTERM, and
SIGKILL after --kill-after. run then has exit code 1. On Linux COMMAND is also killed when
run is; and the lock is free 15 s after run is gone, however long its TTL.

While the lock is waited for, exit codes are those of acquire: 1 for --no-wait, 75 when
the wait is over, 69 when the server cannot be reached. 126 and 127 say that COMMAND cannot
be run or was not found. SIGTERM, SIGINT and the like are passed on to COMMAND.

run takes an owner of its own unless --owner names one, so that a run inside of a run
waits instead of sharing its lock. With --json, failures of run itself are told as an
envelope: on standard output before COMMAND was started, on standard error after.`

// defaultKillAfter is how long a command has to end by itself.
const defaultKillAfter = 5 * time.Second

// running is one call of run.
type running struct {
	locking
	killAfter    time.Duration
	stopOnRevoke bool
	last         *pathlockd.ConflictError // what stood in the way, last heard of
	place        uint64
}

// runCmd makes the command run.
func (a *app) runCmd() *cobra.Command {
	var r running
	r.killAfter = defaultKillAfter
	cmd := &cobra.Command{
		Use: "run PATH… [flags] -- COMMAND [ARG…]", DisableFlagsInUseLine: true, GroupID: groupLock,
		Short: "Hold a lock while a command runs", Long: runLong,
		Example: `  pathlock run tenant:/acme/projects/42 -- make deploy
  pathlock run tenant:/acme/backup --no-wait -- backup.sh     # for cron: never twice at once
  pathlock run tenant:/acme/x --wait forever --label job=nightly -- sh -c 'echo $PATHLOCK_TOKEN'`,
	}
	cmd.RunE = body(func(ctx context.Context, args []string) error {
		at := cmd.ArgsLenAtDash()
		if at < 0 {
			return usage("run: the command is missing; write -- before it: pathlock run PATH… -- COMMAND [ARG…]")
		}
		paths, command := args[:at], args[at:]
		if err := r.check(paths); err != nil {
			return err
		}
		if len(command) == 0 || command[0] == "" {
			return usage("run: COMMAND is missing after --")
		}
		return r.run(ctx, paths, command)
	})
	r.add(a, cmd, "whose lock it is: an `ID` (a new one unless set)")
	fs := cmd.Flags()
	fs.Var(&span{&r.killAfter, 0, time.Hour}, "kill-after",
		"when the lock is lost: how long COMMAND has after SIGTERM, a `DURATION`; 0: SIGKILL at once")
	fs.BoolVar(&r.stopOnRevoke, "stop-on-revoke", false,
		"end COMMAND likewise when somebody asks the owner to let go (pathlock revoke)")
	return cmd
}

// run takes the lock, runs the command, and gives the lock back.
func (r *running) run(ctx context.Context, paths, command []string) error {
	file, err := exec.LookPath(command[0])
	if err != nil {
		return notRunnable(command[0], err)
	}
	c, err := r.a.dial(ctx, pathlockd.WithCommand(line(command)))
	if err != nil {
		return err
	}
	defer c.Close()
	owner := newOwner()
	if r.owner.given() {
		owner = r.owner.owner
	}
	lock, err := r.lock(ctx, c, owner, paths)
	if err != nil {
		return err
	}
	cmd := exec.Command(file, command[1:]...)
	cmd.Args[0] = command[0]
	cmd.Env = append(append([]string{}, r.a.environ...), envOwner+"="+lock.Owner(), envToken+"="+
		strconv.FormatInt(lock.Token(), 10), envAddr+"="+r.a.addr)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = r.a.stdin, r.a.stdout, r.a.stderr
	err = r.supervise(lock, cmd)
	var early *startError
	if errors.As(err, &early) {
		_ = r.giveBack(c, lock) // what ended the call is worth telling
		return early.error
	}
	r.a.stdout = r.a.stderr // the command's own
	return r.finish(c, lock, err)
}

// startError is why a command was not started.
type startError struct{ error }

// notRunnable says why a command cannot be run, as shells do.
func notRunnable(command string, err error) error {
	f := &failure{exit: ExitNotRunnable, code: codeNotRunnable, message: fmt.Sprintf("run: %s: %v", visible(command),
		plainExec(err))}
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		f.exit = ExitNotFound
	}
	return f.hinted("no lock was taken for it")
}

// plainExec is an error of os/exec without the command's name.
func plainExec(err error) error {
	var e *exec.Error
	if errors.As(err, &e) {
		return e.Err
	}
	return err
}

// line is a command for those who look at its lock.
func line(command []string) string {
	const most = 1024
	s := strings.ToValidUTF8(strings.Join(command, " "), "")
	return strings.ToValidUTF8(s[:min(len(s), most)], "")
}

// lock takes the lock, which is renewed from then on.
func (r *running) lock(ctx context.Context, c *pathlockd.Client, owner string,
	paths []string) (*pathlockd.Lock, error) {
	began := time.Now()
	opts := []pathlockd.LockOption{
		pathlockd.Owner(owner), pathlockd.TTL(r.ttl), pathlockd.Token(r.token), pathlockd.Labels(r.labels),
		pathlockd.OnQueued(func(q pathlockd.Queued) { r.queued(ctx, c, &q) }),
	}
	all := make([]pathlockd.Path, len(paths))
	for i, p := range paths {
		all[i] = pathlockd.Path{Path: p, Mode: r.mode(), Permits: r.permits}
	}
	if r.wait == 0 {
		limited, cancel := r.a.limited(ctx)
		defer cancel()
		lock, err := c.TryLockAll(limited, all, opts...)
		if err != nil && (refused(err) || limited.Err() != nil && abandon(c, owner) == nil) {
			_ = r.untie(c, owner) // it may have been granted, as below
		}
		return lock, err
	}
	waited, stop := r.waiting(ctx)
	defer stop()
	lock, err := c.LockAll(waited, all, opts...)
	if err == nil || waited.Err() == nil {
		if refused(err) {
			_ = r.untie(c, owner)
		}
		return lock, err
	}
	err = r.gaveUp(waited, err, r.last, began)
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	gone := abandon(c, owner)
	if gone == nil {
		_ = r.untie(c, owner) // a grant that was taken back has tied what else the owner holds
	}
	if gone != nil && ctx.Err() == nil {
		err = fmt.Errorf("the server went away during the wait: %w", gone)
	}
	return nil, err
}

// refused says that a server has said no: maybe after a grant that was superseded when it was told.
func refused(err error) bool {
	var conflict *pathlockd.ConflictError
	var answer *pathlockd.Error
	return errors.As(err, &conflict) || errors.As(err, &answer)
}

// queued is told the lock's place in the queue.
func (r *running) queued(ctx context.Context, c *pathlockd.Client, q *pathlockd.Queued) {
	again := r.place != 0
	r.last = &pathlockd.ConflictError{Path: q.Path, Owner: q.Owner, Reason: q.Reason}
	r.place = max(q.Position, 1)
	if !again {
		r.tellWaiting(ctx, c, r.last, r.place)
	}
}

// giveBack gives the lock back.
func (r *running) giveBack(c *pathlockd.Client, lock *pathlockd.Lock) error {
	err := lock.Unlock()
	if e := r.untie(c, lock.Owner()); err == nil {
		err = e
	}
	return err
}

// untie takes care of what else an owner that was named holds: in the namespace it shares the lease, and
// must not end with this process.
func (r *running) untie(c *pathlockd.Client, owner string) error {
	if !r.owner.given() {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(context.Background(), abandonWithin, errNoAnswer)
	defer cancel()
	return c.Unbind(ctx, owner)
}

// finish gives the lock back after the command has ended with err.
func (r *running) finish(c *pathlockd.Client, lock *pathlockd.Lock, ended error) error {
	unlocked := r.giveBack(c, lock)
	var code childExit
	switch isCode := errors.As(ended, &code); {
	case !isCode:
		return ended // it was stopped, and why
	case unlocked == nil:
		return ended
	case errors.Is(unlocked, pathlockd.ErrLost) && code == ExitOK:
		return &failure{exit: ExitFailed, code: codeLost, message: plain(unlocked) +
			"; the command had ended, but part of it may have run without the lock"}
	default:
		r.a.note("the lock was not given back: %s; it is free at the latest %s after its last renewal", plain(unlocked),
			short(r.ttl))
		return ended
	}
}

// lostWhile is the failure of a run whose lock was lost.
func lostWhile(lock *pathlockd.Lock, how string) error {
	err := lock.Err()
	f := &failure{exit: ExitFailed, code: codeLost, message: fmt.Sprintf("%s; the command was ended (%s)",
		plain(err), how)}
	var lost *pathlockd.LostError
	if errors.As(err, &lost) {
		f.details = &lostLease{lock.Owner(), lost.Path, lost.Reason.String()}
		if lost.Reason == wire.ReasonUnspecified {
			f.details = &lostLease{Owner: lock.Owner(), Path: lost.Path, Reason: plain(lost.Cause)}
		}
	}
	return f
}
