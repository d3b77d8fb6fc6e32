package pathlockd_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	pathlockd "github.com/pathlockd/pathlockd/clients/go"
	"github.com/pathlockd/pathlockd/wire"
)

// A lock around some work, which stops when the lock is lost.
func Example() {
	ctx := context.Background()
	c, err := pathlockd.Dial(ctx, "127.0.0.1:50050")
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	l, err := c.Lock(ctx, "tenant:/acme/projects/42")
	if err != nil {
		log.Fatal(err)
	}
	work := l.Context() // ends when the lock is lost
	for step := range 10 {
		if err := write(work, l.Token(), step); err != nil {
			log.Print(err)
			break
		}
	}
	if err := l.Unlock(); err != nil {
		log.Print(err) // it was lost on the way
	}
}

// write stands for what a program does under a lock. Whatever it writes to is to
// refuse tokens lower than one it has seen.
func write(ctx context.Context, token int64, step int) error {
	fmt.Println("step", step, "with token", token)
	return context.Cause(ctx)
}

func ExampleClient_WithLock() {
	ctx := context.Background()
	c, err := pathlockd.Dial(ctx, "127.0.0.1:50050,127.0.0.1:50060")
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	err = c.WithLock(ctx, "files:/srv/data", func(ctx context.Context, l *pathlockd.Lock) error {
		return write(ctx, l.Token(), 1)
	}, pathlockd.TTL(10*time.Second), pathlockd.Labels(map[string]string{"job": "nightly"}))
	if err != nil {
		log.Print(err)
	}
}

func ExampleClient_TryLock() {
	ctx := context.Background()
	c, err := pathlockd.Dial(ctx, "unix:/run/pathlockd.sock")
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	l, err := c.TryLock(ctx, "tenant:/acme")
	var conflict *pathlockd.ConflictError
	switch {
	case errors.As(err, &conflict):
		fmt.Printf("%s holds %s\n", conflict.Owner, conflict.Path)
		return
	case err != nil:
		log.Fatal(err)
	}
	defer l.Unlock()
}

func ExampleClient_Subscribe() {
	ctx := context.Background()
	c, err := pathlockd.Dial(ctx, "127.0.0.1:50050")
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	s, err := c.Subscribe(ctx, "worker-7")
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	for e := range s.Events() {
		switch {
		case e.Gap:
			fmt.Println("some events were missed: look at the state itself")
		case e.Kind == wire.EventRevoke:
			fmt.Println(e.Owner, "is asked to let go")
		default:
			fmt.Println(e.Kind, e.Path, e.Namespace)
		}
	}
}

// Several nodes of a cluster: one of them has to be there, now and later. The client
// gets to know the others by itself.
func ExampleDial_cluster() {
	ctx := context.Background()
	c, err := pathlockd.Dial(ctx, "lock-0:50050,lock-1:50050,lock-2:50050", pathlockd.WithGrace(5*time.Second))
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	top, err := c.Topology(ctx)
	if err != nil {
		log.Fatal(err)
	}
	for _, n := range top.Nodes {
		fmt.Println(n.NodeID, "at", n.Native)
	}
}

// Many requests at once, without a goroutine for each.
func ExampleClient_Batch() {
	ctx := context.Background()
	c, err := pathlockd.Dial(ctx, "127.0.0.1:50050")
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	b, done := c.Batch(), make(chan error, 100)
	for i := range 100 {
		req := &wire.Request{
			Op: wire.OpAcquire, Owner: "loader", TTLMillis: 30_000, Flags: wire.FlagNoQueue,
			Locks: []wire.LockRequest{{Path: fmt.Sprintf("tenant:/acme/%d", i)}},
		}
		// The result is valid until the function returns, which must not block.
		err := b.Add(req, func(res *wire.Result, err error) {
			if err == nil && res.Status != wire.StatusOK {
				err = fmt.Errorf("%s holds %s", res.Owner, res.Path)
			}
			done <- err
		})
		if err != nil {
			log.Fatal(err)
		}
	}
	if err := b.Send(ctx); err != nil {
		log.Fatal(err)
	}
	for range 100 {
		if err := <-done; err != nil {
			log.Print(err)
		}
	}
}
