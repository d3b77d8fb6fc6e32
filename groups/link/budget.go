package link

import (
	"context"
	"fmt"
	"sync"
)

// budget bounds the bytes of what is large and in memory at once. Who is first waits
// first, so that small requests do not keep a large one waiting for ever.
type budget struct {
	max   int
	turn  chan struct{} // held by who waits next
	freed chan struct{} // a sign to the one whose turn it is
	mu    struct {
		sync.Mutex
		used int
	}
}

func newBudget(limit int) *budget {
	return &budget{max: limit, turn: make(chan struct{}, 1), freed: make(chan struct{}, 1)}
}

// try takes n bytes if they are there now.
func (b *budget) try(n int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.mu.used+n > b.max {
		return false
	}
	b.mu.used += n
	return true
}

// take takes n bytes, and waits for them until ctx ends.
func (b *budget) take(ctx context.Context, n int) error {
	if n > b.max {
		return fmt.Errorf("%d bytes are more than the %d that all may have together", n, b.max)
	}
	select {
	case b.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-b.turn }()
	for !b.try(n) {
		select {
		case <-b.freed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// give returns n bytes.
func (b *budget) give(n int) {
	b.mu.Lock()
	b.mu.used -= n
	b.mu.Unlock()
	select {
	case b.freed <- struct{}{}:
	default:
	}
}

// used is how many bytes are taken now.
func (b *budget) used() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mu.used
}
