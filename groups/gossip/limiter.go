package gossip

import (
	"sync"
	"time"
)

// maxKept is how many keys a Limiter tells apart. While it has that many, all others
// are refused: what it limits is messages.
const maxKept = 256

// Limiter lets something through once in a while for each key: what strangers cause to
// be logged, or sent. It is groups/link's too.
type Limiter struct {
	every time.Duration
	mu    struct {
		sync.Mutex
		last map[string]time.Time
	}
}

// NewLimiter answers one that has let nothing through yet.
func NewLimiter(every time.Duration) *Limiter {
	l := &Limiter{every: every}
	l.mu.last = make(map[string]time.Time)
	return l
}

// Allow says whether something may happen for key now, and remembers that it did.
func (l *Limiter) Allow(key string) bool {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if last, ok := l.mu.last[key]; ok && now.Sub(last) < l.every {
		return false
	}
	if len(l.mu.last) >= maxKept {
		for k, last := range l.mu.last {
			if now.Sub(last) >= l.every {
				delete(l.mu.last, k)
			}
		}
		if len(l.mu.last) >= maxKept {
			return false
		}
	}
	l.mu.last[key] = now
	return true
}
