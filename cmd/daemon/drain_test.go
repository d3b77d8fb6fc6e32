package daemon

import (
	"context"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestDrainKeepsLeases: what is tied to a connection stays when the node is the one
// that closes it.
func TestDrainKeepsLeases(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	d, _ := startDaemon(t, cfg)
	c := dial(t, "tcp", d.Addr(), wire.Hello{Grace: 0, Session: []byte("0123456789abcdef"), Epoch: 1})
	c.mustLock("tied", "t:/a/x", wire.FlagBind)
	c.mustLock("other", "t:/b/x", 0)
	waiting := c.send(lock("tied", "t:/b/x", wire.FlagWait))
	if f, err := c.read(); err != nil || f.id != 0 || wire.PushKind(f.code) != wire.PushQueued {
		t.Fatalf("read %+v, %v; want a queued push", f, err)
	}
	if err := d.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	d, _ = startDaemon(t, cfg)
	c2 := dial(t, "tcp", d.Addr(), wire.Hello{Session: []byte("0123456789abcdef"), Epoch: 2})
	c2.mustHold("t:/a/x", "tied")
	// The wait goes on under its old id, at its old place.
	c2.id = waiting - 1
	c2.send(lock("tied", "t:/b/x", wire.FlagWait))
	c3 := dial(t, "tcp", d.Addr(), wire.Hello{})
	if res := c3.ask(&wire.Request{Op: wire.OpRelease, Owner: "other",
		Releases: []wire.ReleaseRequest{{Path: "t:/b/x"}}}); res.Err() != nil {
		t.Fatal(res.Err())
	}
	for {
		f, err := c2.read()
		if err != nil {
			t.Fatal(err)
		}
		if f.id == waiting {
			if wire.Code(f.code) != wire.OK {
				t.Errorf("the wait ended with code %v", wire.Code(f.code))
			}
			break
		}
	}
	c2.mustHold("t:/b/x", "tied")
}

// TestDrainAnswersEverything: each request of a burst that a drain meets is carried
// out and answered OK, or refused and not carried out; and then comes the goodbye.
func TestDrainAnswersEverything(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	d, _ := startDaemon(t, cfg)
	c := dial(t, "tcp", d.Addr(), wire.Hello{})
	var burst []*wire.Request
	for _, p := range paths(250) {
		burst = append(burst, lock("me", p, 0))
	}
	first := c.send(burst...)
	closed := make(chan error, 1)
	go func() { closed <- d.Close(context.Background()) }()
	answered := make(map[uint64]wire.Code)
	goodbye := false
	for {
		f, err := c.read()
		if err != nil {
			break
		}
		if f.id == 0 {
			goodbye = goodbye || wire.PushKind(f.code) == wire.PushGoodbye
			continue
		}
		if goodbye && wire.Code(f.code) != wire.Unavailable {
			t.Errorf("request %d was answered %v after the goodbye", f.id, wire.Code(f.code))
		}
		answered[f.id] = wire.Code(f.code)
	}
	if err := <-closed; err != nil {
		t.Fatal(err)
	}
	if !goodbye {
		t.Error("no goodbye")
	}
	d, _ = startDaemon(t, cfg)
	after := dial(t, "tcp", d.Addr(), wire.Hello{})
	done, refused := 0, 0
	for i, p := range paths(250) {
		switch code, ok := answered[first+uint64(i)]; {
		case ok && code == wire.OK:
			done++
			after.mustHold(p, "me")
		case ok && code == wire.Unavailable:
			refused++
			after.mustHold(p, "")
		case ok:
			t.Errorf("%s was answered %v", p, code)
		default:
			// It had not been read when the connection was closed.
			after.mustHold(p, "")
		}
	}
	t.Logf("%d done, %d refused", done, refused)
}

// TestCloseGivesUp: a drain lasts no longer than it was given.
func TestCloseGivesUp(t *testing.T) {
	t.Parallel()
	d, _ := startDaemon(t, testConfig(t))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	began := time.Now()
	if err := d.Close(ctx); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took > patience {
		t.Errorf("took %v", took)
	}
}
