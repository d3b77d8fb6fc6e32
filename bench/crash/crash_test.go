package crash

import (
	"context"
	"flag"
	"os"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/internal/testkit/server"
)

var (
	seed      = flag.Uint64("crash.seed", 0, "seed of TestCrash; 0: by the clock")
	serverBin = flag.String("crash.server", "", "pathlockd to test; built when it is empty")
)

const (
	shortRounds = 4
	longRounds  = 20 // with PATHLOCKD_LONG=1
	reported    = 20 // violations shown of a run
)

// TestCrash kills a real server under load, again and again, and holds it to what
// it acknowledged.
func TestCrash(t *testing.T) {
	rounds := shortRounds
	if os.Getenv("PATHLOCKD_LONG") != "" { // as in all tests of this repository
		rounds = longRounds
	}
	s := *seed
	if s == 0 {
		s = uint64(time.Now().UnixNano())
	}
	t.Logf("seed %d: again with -crash.seed=%d", s, s)
	dir := t.TempDir()
	bin := *serverBin
	if bin == "" {
		var err error
		if bin, err = server.Build(context.Background(), dir); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(rounds)*20*time.Second)
	defer cancel()
	h, violations, err := Run(ctx, Config{Bin: bin, Dir: dir, Rounds: rounds, Seed: s, Logf: t.Logf})
	if err != nil {
		t.Error(err)
	}
	for i, v := range violations {
		if i == reported {
			t.Errorf("… and %d more", len(violations)-i)
			break
		}
		t.Error(v)
	}
	enough(t, h, rounds)
}

// enough fails when the load was not what the test is about.
func enough(t *testing.T, h *History, rounds int) {
	t.Helper()
	answered, open, queued, lost, waiting := 0, 0, 0, 0, 0
	for _, op := range h.Ops {
		switch {
		case !op.Answered:
			lost++
		default:
			answered++
		}
		if op.Queued > 0 {
			open++
		} else if op.Status == 3 {
			queued++
		}
	}
	for _, l := range h.Looks {
		if len(l.Waiters) > 1 {
			waiting++
		}
	}
	t.Logf("%d kills, %d answered, %d unanswered, %d told QUEUED, %d waits in open calls, %d looks at queues",
		len(h.Outages), answered, lost, queued, open, waiting)
	if answered < 100*rounds || open < rounds || queued < rounds || lost == 0 || waiting < rounds ||
		len(h.Outages) != rounds {
		t.Error("that is too little to show anything")
	}
}
