package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	pathlockd "github.com/pathlockd/pathlockd/clients/go"
)

// load is what the clients did.
type load struct {
	done, failed atomic.Uint64
	mu           sync.Mutex
	took         []time.Duration // since the last look
	worst        string          // the last error
}

// work has clients take and give back locks in several namespaces until ctx ends.
func work(ctx context.Context, cfg config, addrs []string) *load {
	l := new(load)
	for i := range cfg.clients {
		go func() {
			rnd := rand.New(rand.NewPCG(1, uint64(i)))
			mine := append(slices.Clone(addrs[i%len(addrs):]), addrs[:i%len(addrs)]...)
			client, err := pathlockd.Dial(ctx, strings.Join(mine, ","))
			if err != nil {
				l.fail(err)
				return
			}
			defer client.Close()
			for ctx.Err() == nil {
				if cfg.gap > 0 {
					select {
					case <-ctx.Done():
					case <-time.After(cfg.gap):
					}
				}
				path := fmt.Sprintf("demo:/tenant%d/file%d", rnd.IntN(64), rnd.IntN(10))
				began := time.Now()
				lock, err := client.Lock(ctx, path)
				if err == nil {
					err = lock.Unlock()
				}
				switch {
				case ctx.Err() != nil:
				case err != nil:
					l.fail(err)
				default:
					l.done.Add(1)
					l.mu.Lock()
					l.took = append(l.took, time.Since(began))
					l.mu.Unlock()
				}
			}
		}()
	}
	return l
}

func (l *load) fail(err error) {
	l.failed.Add(1)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.worst = err.Error()
}

// look answers the median and the 99th percentile since the last look.
func (l *load) look() (p50, p99 time.Duration, worst string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	slices.Sort(l.took)
	if n := len(l.took); n > 0 {
		p50, p99 = l.took[n/2], l.took[n*99/100]
	}
	l.took = l.took[:0]
	return p50, p99, l.worst
}
