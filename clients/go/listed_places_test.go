package pathlockd

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestManyLongAnswers: a program has very many paths described, and lists what very many owners hold, in all namespaces
// and in one, all at once, over a way of a tenth of a second. All are answered, some at a time.
func TestManyLongAnswers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const many = 80
		c, s := newTimed(t)
		s.takes(always(100*time.Millisecond, nil))
		ctx, done := context.WithTimeout(t.Context(), 10*time.Second)
		defer done()
		var all sync.WaitGroup
		for i := range many {
			all.Go(func() {
				if _, err := c.Describe(ctx, fmt.Sprintf("a:/b/%d", i), 0); err != nil {
					t.Errorf("Describe: %v", err)
				}
			})
			for _, of := range [][]string{nil, {"a:/b"}} {
				all.Go(func() {
					if _, _, err := c.ListOwnerLocks(ctx, fmt.Sprint("o", i), of...); err != nil {
						t.Errorf("ListOwnerLocks: %v", err)
					}
				})
			}
		}
		all.Wait()
	})
}

// takes has a share send so many calls of a kind as it may, and answers how many.
func (s *session) takes(one call) (n int) {
	for ; s.fits(&one, s.mu.limits.all); n++ {
		s.sends(one.share, 0)
		s.counted(&one, 1)
	}
	return n
}

// TestPlacesOfShares: what shares have of the places for long answers, one after the other, if nothing is answered.
func TestPlacesOfShares(t *testing.T) {
	long, listed := call{answer: wire.LongAnswer}, call{answer: wire.ListedAnswer}
	raising := call{answer: wire.ListedAnswer, raises: true}
	for name, of := range map[string]struct {
		users int    // requests that the program has under way
		known uint8  // shares that asked something before
		calls []call // of each share
		want  string // how many it has of each
	}{
		"renewals":                   {0, 0, []call{{}}, "112 56 28 14 7 4 2 2 2 2 2 2 2 2 2 1 0 0 0 0"},
		"of logs that are known":     {0, 20, []call{{}}, "93 48 25 13 8 5 3 3 2 2 2 2 2 2 2 2 2 2 2 2"},
		"of very many":               {0, logShares, []call{{}}, "60 30 15 8 4 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2"},
		"renewals beside users":      {240, 20, []call{{}}, "14 1 1 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0"},
		"long answers":               {0, 0, []call{long}, "4 2 1 1 0 0 0 0 0"},
		"listings":                   {0, 0, []call{listed}, "16 16 16 13 8 5 3 3 2"},
		"before tokens are raised":   {0, 0, []call{raising, listed}, "8 8 8 8 8 8 8 5 5 3 3 2 2 1 2 1 1 1"},
		"beside users":               {240, 0, []call{raising}, "2 0 0 0 0 0 0 0 0"},
		"those beside users, listed": {240, 0, []call{listed}, "14 1 1 0 0 0 0 0 0"},
	} {
		bubble(t, func(t *testing.T) {
			c, _ := newTimed(t)
			s := &c.home.session
			s.mu.Lock()
			defer s.mu.Unlock()
			was, flying, before := s.mu.shares, s.mu.flying, s.mu.known // something may be under way
			s.mu.shares, s.mu.flying, s.mu.known = [maxShares]share{}, 0, known{}
			for range of.users {
				s.counted(&call{}, 1)
			}
			for share := range of.known {
				s.sends(1+share, 0)
			}
			var has []string
			for share := range uint8(len(strings.Fields(of.want)) / len(of.calls)) {
				for _, one := range of.calls {
					one.share = 1 + share
					has = append(has, fmt.Sprint(s.takes(one)))
				}
			}
			if got := strings.Join(has, " "); got != of.want {
				t.Errorf("%s: shares have %s, want %s", name, got, of.want)
			}
			s.mu.shares, s.mu.flying, s.mu.known = was, flying, before
			s.mu.raises, s.mu.gathers, s.mu.spareTaken = 0, 0, 0
		})
	}
}
