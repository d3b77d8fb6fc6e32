package cli

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// background makes a call that goes on until the test ends it or it ends itself.
func (c *console) background(args ...string) (ended <-chan result, stop func(error)) {
	ctx, cancel := context.WithCancelCause(context.Background())
	done := make(chan result, 1)
	var wait sync.WaitGroup
	wait.Go(func() { done <- c.do(ctx, args...) })
	c.t.Cleanup(func() { cancel(nil); wait.Wait() })
	return done, cancel
}

func TestAcquireWaits(t *testing.T) {
	t.Parallel()
	c := newConsole(t)
	c.run(ExitOK, "acquire", "wait:/a/x", "--owner", "first")
	second, _ := c.background("acquire", "wait:/a/x", "--owner", "second", "--wait", "forever", "--ttl", "9s", "--json")
	c.waiters("wait:/a/x", 1)
	third, _ := c.background("acquire", "wait:/a/x", "--owner", "third", "--wait", "1h")
	c.waiters("wait:/a/x", 2)
	var d described
	c.data(&d, "describe", "wait:/a/x")
	if d.Waiters[0].Owner != "second" || d.Waiters[1].Owner != "third" || !d.Waiters[0].Open ||
		d.Waiters[1].Position != 2 {
		t.Errorf("the waiters are %+v", d.Waiters)
	}
	if text := c.run(ExitOK, "describe", "wait:/a/x").stdout; !strings.Contains(text, "Waiters: 2\n") ||
		!strings.Contains(text, "  1  second") {
		t.Errorf("describe says\n%s", text)
	}
	if text := c.run(ExitOK, "describe", "wait:/a/x", "--waiters", "1").stdout; !strings.Contains(text,
		"and 1 more; see --waiters") {
		t.Errorf("describe says\n%s", text)
	}
	c.run(ExitOK, "release", "wait:/a/x", "--owner", "first")
	r := <-second
	var e struct{ Data acquired }
	if err := json.Unmarshal([]byte(r.stdout), &e); err != nil || r.code != ExitOK {
		t.Fatalf("%+v: %v", r, err)
	}
	if e.Data.FencingToken < 2 || e.Data.WaitedMillis == 0 || e.Data.ExpiresInMillis > 9000 ||
		e.Data.ExpiresInMillis < 1000 || r.stderr != "" {
		t.Errorf("it acquired %+v, and said %q", e.Data, r.stderr)
	}
	c.run(ExitOK, "kill", "second")
	if r := <-third; r.code != ExitOK || !strings.Contains(r.stderr,
		"waiting up to 1h: second waits for wait:/a/x already (Ctrl-C gives up)") {
		t.Errorf("third: %+v", r)
	}
	if h := c.holder("wait:/a/x"); h != "third" {
		t.Errorf("%s holds it", h)
	}
}

// TestGivingUp: who stops waiting leaves nothing behind, and keeps what it had.
func TestGivingUp(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		code int
		args []string
		sig  syscall.Signal
	}{
		{"interrupt", 130, []string{"acquire", "--owner", "patient", "--wait", "forever"}, syscall.SIGINT},
		{"terminate", 143, []string{"acquire", "--wait", "1h"}, syscall.SIGTERM},
		{"timeout", ExitTimeout, []string{"acquire", "--owner", "patient", "--wait", "150ms"}, 0},
		{"run-interrupt", 130, []string{"run", "--owner", "patient", "--wait", "forever"}, syscall.SIGINT},
		{"run-timeout", ExitTimeout, []string{"run", "--owner", "patient", "--wait", "150ms"}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			con := newConsole(t)
			held, mine := c.name+":/a/held", c.name+":/a/mine"
			con.run(ExitOK, "acquire", held, "--owner", "other")
			con.run(ExitOK, "acquire", mine, "--owner", "patient", "--ttl", "1h")
			args := append(c.args, held)
			if len(c.args) > 3 && c.args[2] == "patient" {
				args = append(args, mine) // it covers that already, and must not lose it
			}
			if c.args[0] == "run" {
				args = append(args, "--", "true")
			}
			ended, stop := con.background(args...)
			if c.sig != 0 {
				con.waiters(held, 1)
				stop(&signalError{c.sig})
			}
			if r := <-ended; r.code != c.code {
				t.Errorf("exit code %d, want %d: %s", r.code, c.code, r.stderr)
			}
			con.waiters(held, 0)
			con.run(ExitOK, "release", held, "--owner", "other")
			if h := con.holder(held); h != "" {
				t.Errorf("%s holds %s", h, held)
			}
			if h := con.holder(mine); h != "patient" {
				t.Errorf("%q holds %s", h, mine)
			}
		})
	}
}

// TestGivingUpTakesNothing: who stops waiting gives back what the wait was granted, and not what
// another process of the owner has taken meanwhile.
func TestGivingUpTakesNothing(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"acquire", "run"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			con := newConsole(t)
			owner, held, free := "both-"+how, "taken-"+how+":/a/held", "taken-"+how+":/a/free"
			con.run(ExitOK, "acquire", held, "--owner", "other")
			args := []string{how, held, free, "--owner", owner, "--wait", "forever"}
			if how == "run" {
				args = append(args, "--", "true")
			}
			ended, stop := con.background(args...)
			con.waiters(held, 1)
			con.run(ExitOK, "acquire", free, "--owner", owner)
			stop(&signalError{syscall.SIGINT})
			if r := <-ended; r.code != 130 {
				t.Fatalf("exit code %d: %s", r.code, r.stderr)
			}
			con.waiters(held, 0)
			if h := con.holder(free); h != owner {
				t.Errorf("%s, which its owner took in another process meanwhile, is held by %q", free, h)
			}
		})
	}
}

// TestGrantedWhileGivingUp: a grant that is faster than the cancel is given back.
func TestGrantedWhileGivingUp(t *testing.T) {
	t.Parallel()
	c := newConsole(t)
	for range 20 {
		c.run(ExitOK, "acquire", "race:/a/x", "--owner", "other")
		ended, stop := c.background("acquire", "race:/a/x", "--owner", "racer", "--wait", "forever")
		c.waiters("race:/a/x", 1)
		go stop(&signalError{syscall.SIGINT})
		c.run(ExitOK, "release", "race:/a/x", "--owner", "other")
		r := <-ended
		until(t, "the end of the lock", func() bool {
			if r.code == ExitOK {
				return c.holder("race:/a/x") == "racer"
			}
			return c.holder("race:/a/x") == ""
		})
		if r.code != ExitOK && r.code != 130 {
			t.Fatalf("%+v", r)
		}
		c.run(ExitOK, "release", "--all", "--owner", "racer")
	}
}

func TestWaiterIsTold(t *testing.T) {
	t.Parallel()
	c := newConsole(t)
	c.run(ExitOK, "acquire", "told:/a/x", "--owner", "other")
	ended, _ := c.background("acquire", "told:/a/x", "--owner", "told", "--json")
	c.waiters("told:/a/x", 1)
	c.run(ExitOK, "kill", "told")
	if r := <-ended; r.code != ExitFailed || !strings.Contains(r.stdout, `"code":"ABORTED"`) {
		t.Errorf("%+v", r)
	}
}

func TestWatch(t *testing.T) {
	t.Parallel()
	c := newConsole(t)
	c.run(ExitOK, "acquire", "watch:/a/x", "--owner", "other")
	c.run(ExitOK, "acquire", "watch:/a/mine", "--owner", "watched")
	ended, _ := c.background("watch", "watched", "--count", "3", "--json")
	// It is not told from outside when the subscription stands: revoke until it is heard.
	until(t, "an event", func() bool {
		c.run(ExitOK, "revoke", "watched")
		select {
		case r := <-ended:
			lines := strings.Split(strings.TrimSpace(r.stdout), "\n")
			if r.code != ExitOK || len(lines) != 3 || r.stderr != "pathlock: watching watched\n" {
				t.Fatalf("%+v", r)
			}
			if got := settled(lines[2]); got != `{"schema_version":1,"ok":true,"data":{"event":"revoke","owner":"watched","time":"TIMESTAMP"}}` {
				t.Errorf("an event is\n%s", got)
			}
			return true
		default:
			return false
		}
	})
	people, stop := c.background("watch", "watched")
	until(t, "the end of watching", func() bool {
		c.run(ExitOK, "revoke", "watched")
		select {
		case r := <-people:
			if r.code != 130 || !strings.Contains(settled(r.stdout), "TIME  revoke  watched\n") {
				t.Errorf("%+v", r)
			}
			return true
		default:
			var d owned
			if c.data(&d, "locks", "watched"); len(d.Locks) == 1 {
				c.run(ExitOK, "kill", "watched")
			} else {
				stop(&signalError{syscall.SIGINT})
			}
			return false
		}
	})
}

func TestDeadlock(t *testing.T) {
	t.Parallel()
	c := newConsole(t)
	a := &app{environ: c.environ, timeout: defaultTimeout, addr: c.environ[0][len("PATHLOCK_ADDR="):]}
	client, err := a.dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	owners := []string{"dead-1", "dead-2", "dead-3"}
	for i, o := range owners {
		path := "dead:/a/" + o
		c.run(ExitOK, "acquire", path, "--owner", o)
		if i < len(owners)-1 {
			err = errors.Join(err, client.SetWaitEdge(t.Context(), o, owners[i+1], maxSpan, "",
				wire.ReasonUnspecified, ""))
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	if r := c.run(ExitOK, "deadlock", "dead-1"); !strings.HasPrefix(r.stdout, "no deadlock: ") {
		t.Error(r.stdout)
	}
	if r := c.run(ExitOK, "deadlock", "dead-1", "--depth", "1"); !strings.HasPrefix(r.stdout,
		"not known: no end after 2 owners: dead-1 → dead-2 → …") {
		t.Error(r.stdout)
	}
	if err := client.SetWaitEdge(t.Context(), "dead-3", "dead-1", maxSpan, "", wire.ReasonUnspecified, ""); err != nil {
		t.Fatal(err)
	}
	if r := c.run(ExitOK, "deadlock", "dead-1"); r.stdout != "deadlock: dead-1 → dead-2 → dead-3 → dead-1\n" {
		t.Error(r.stdout)
	}
	var d deadlocked
	if c.data(&d, "deadlock", "dead-2"); d.Kind != "found" || len(d.Chain) != 3 {
		t.Errorf("%+v", d)
	}
	for _, o := range owners { // with their edges, for the next run
		c.run(ExitOK, "kill", o)
	}
}

// TestAcquireOfManyPaths: who waited for locks is told that they were granted, however long a
// listing of them is.
func TestAcquireOfManyPaths(t *testing.T) {
	t.Parallel()
	c := newConsole(t)
	const paths = 1500
	path := func(i int) string { return "longlist:/a/" + strconv.Itoa(i) }
	c.run(ExitOK, "acquire", path(0), "--owner", "other")
	args := []string{"acquire", "--ttl", "30m", "--wait", "1h", "--json", "--label", "why=" + strings.Repeat("y", 3500)}
	for i := range paths {
		args = append(args, path(i))
	}
	ended, _ := c.background(args...)
	c.waiters(path(0), 1)
	c.run(ExitOK, "release", path(0), "--owner", "other")
	r := <-ended
	var e struct{ Data acquired }
	if err := json.Unmarshal([]byte(r.stdout), &e); err != nil || r.code != ExitOK {
		t.Fatalf("exit code %d: %.200s%.200s: %v", r.code, r.stderr, r.stdout, err)
	}
	left := time.Duration(e.Data.ExpiresInMillis) * time.Millisecond
	if h := c.holder(path(paths - 1)); h != e.Data.Owner || left < 29*time.Minute || left > 30*time.Minute {
		t.Errorf("it said that %q has it for %v; it is held by %q", e.Data.Owner, left, h)
	}
	// Whoever looks or takes it away is told of all of it.
	if r := c.run(ExitOK, "locks", e.Data.Owner); strings.Count(r.stdout, "longlist:") != paths {
		t.Errorf("%d of %d locks are listed", strings.Count(r.stdout, "longlist:"), paths)
	}
	if r := c.run(ExitOK, "kill", e.Data.Owner); !strings.Contains(r.stdout, "freed 1500 locks") {
		t.Errorf("%.200s", r.stdout)
	}
}

// TestLeaseEndThatNobodyAnswers: what was granted is held, whatever becomes of later questions.
func TestLeaseEndThatNobodyAnswers(t *testing.T) {
	t.Parallel()
	var said strings.Builder
	a := &app{environ: newConsole(t).environ, timeout: defaultTimeout, stderr: &said}
	a.addr = a.environ[0][len("PATHLOCK_ADDR="):]
	client, err := a.dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_ = client.Close()
	l, asked := &locking{a: a, ttl: time.Hour}, time.Now()
	over, err := l.leaseEnd(t.Context(), client, &wire.Request{Owner: "o"}, &wire.Result{Namespace: "gone:/a"}, asked)
	if err != nil || !over.Equal(asked.Add(time.Hour)) || !strings.Contains(said.String(), "the client is closed") {
		t.Errorf("until %v, %v; said %q", over.Sub(asked), err, &said)
	}
}

// TestManyPaths: more than one request takes.
func TestManyPaths(t *testing.T) {
	t.Parallel()
	c := newConsole(t)
	args := []string{"--owner", "many"}
	for i := range wire.MaxPaths + 50 {
		args = append(args, "many:/a/"+strconv.Itoa(i))
	}
	c.run(ExitOK, append([]string{"acquire"}, args...)...)
	var d statusData
	c.data(&d, "status", "many", "--limit", "5000")
	if len(d.Locks) != wire.MaxPaths+50 || d.More {
		t.Errorf("%d locks are held, more: %v", len(d.Locks), d.More)
	}
	if c.data(&d, "status", "many"); len(d.Locks) != defaultRows || !d.More {
		t.Errorf("%d locks are shown, more: %v", len(d.Locks), d.More)
	}
	var rel released
	c.data(&rel, append([]string{"release"}, args...)...)
	if len(rel.Released) != wire.MaxPaths+50 {
		t.Errorf("%d are released", len(rel.Released))
	}
	if c.data(&d, "status", "many"); len(d.Locks) != 0 {
		t.Errorf("%d locks are left", len(d.Locks))
	}
}
