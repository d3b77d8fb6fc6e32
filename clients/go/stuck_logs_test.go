package pathlockd

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestLocksBesideStuckLogs: logs do not answer any more, one after the other or all at once, whose locks the keeper renews. Each
// takes as much of the window as it may. Locks of logs where all is well are kept, over a way of a tenth of a second; so are
// those of one in which nothing was held before.
func TestLocksBesideStuckLogs(t *testing.T) {
	for _, of := range []struct {
		logs  int           // that are stuck in the end
		apart time.Duration // one after the other
		well  int           // locks in each of two logs
	}{{9, 2 * time.Second, 1}, {9, 2 * time.Second, 20}, {16, 2 * time.Second, 1}, {40, 0, 1}, {40, 0, 10}, {40, 500 * time.Millisecond, 10}} {
		t.Run(fmt.Sprintf("%d, %v apart", of.logs, of.apart), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c, s := newTimed(t)
				s.takes(always(100*time.Millisecond, nil))
				pick := picker(c)
				well, fresh, ill := pick("well", 2), pick("fresh", 1)[0], pick("ill", of.logs)
				keep := func(log string, n int) (kept []*Lock) {
					for i := range n {
						kept = append(kept, takesTwo(t, c, fmt.Sprintf("%s:/x/k%d", log, i), fmt.Sprintf("%s-%d", log, i), 10*time.Second))
					}
					return kept
				}
				kept := append(keep(well[0], of.well), keep(well[1], of.well)...)
				for i, log := range ill {
					keep(log, max(20, 150>>i))
				}
				pass(time.Minute)
				began := time.Now()
				s.takes(func(req *wire.Request) (time.Duration, bool) {
					log, _, _ := strings.Cut(req.Owner, "-")
					for i := range ill {
						if ill[i] == log && req.Op != wire.OpSubscribe && time.Since(began) >= time.Duration(i)*of.apart {
							return 30 * time.Second, false
						}
					}
					return 100 * time.Millisecond, false
				})
				for at := range 90 {
					if pass(time.Second); at == 45 {
						kept = append(kept, keep(fresh, 1)...)
					}
					for i, l := range kept {
						select {
						case <-l.Lost():
							m := &c.home.session.mu
							m.Lock()
							defer m.Unlock()
							t.Fatalf("lock %d is lost %d s after the first log is stuck: %d of 256 under way, %d of the program",
								i, at, m.flying, m.shares[usersShare].flying)
						default:
						}
					}
				}
			})
		})
	}
}
