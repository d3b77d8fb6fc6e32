package link

import (
	"sync"
	"time"
)

// maxKept is how many keys a limiter tells apart. While it has that many, all others
// are refused: what it limits is log lines.
const maxKept = 256

// limiter lets something through once in a while for each key.
type limiter struct {
	every time.Duration
	mu    struct {
		sync.Mutex
		last map[string]time.Time
	}
}

func newLimiter(every time.Duration) *limiter {
	l := &limiter{every: every}
	l.mu.last = make(map[string]time.Time)
	return l
}

// allow says whether something may happen for key now, and remembers that it did.
func (l *limiter) allow(key string) bool {
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
