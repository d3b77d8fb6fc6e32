package daemon

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	pb "github.com/pathlockd/pathlockd/compat/pathlockdv1"
	"github.com/pathlockd/pathlockd/internal/testkit/server"
)

// TestEventIDsAcrossDisks: the disk of a node is lost, and it comes back with an empty one. A stream that comes back
// with an id of before is told that there is a gap (contract.md section 12, docs/events.md), and does not go on behind
// an event that has got the same id since.
func TestEventIDsAcrossDisks(t *testing.T) {
	t.Parallel()
	founder, replaced := testConfig(t), testConfig(t)
	founder.NodeID, founder.Token = "n-0", "0123456789abcdef0123456789abcdef"
	replaced.NodeID, replaced.Token, replaced.WebListen = "n-1", founder.Token, "127.0.0.1:0"
	for _, addr := range []*string{&founder.GossipAddr, &replaced.GossipAddr, &replaced.RaftAddr} {
		var err error
		if *addr, err = server.FreeAddr(); err != nil {
			t.Fatal(err)
		}
	}
	founder.StabilityWindow, replaced.StabilityWindow = time.Hour, time.Hour // it gets no replica: it is fed events
	replaced.Bootstrap, replaced.Seeds = false, []string{founder.GossipAddr}
	startDaemon(t, founder)

	// told causes an event and answers the id of the first behind one, and whether it is told of a gap before that.
	told := func(d *Daemon, after uint64) (id uint64, gap bool) {
		t.Helper()
		if !within(func() bool { // a node that has just begun to be fed cuts streams off
			client := dialGRPC(t, d.GRPCAddr())
			if _, err := client.ForceRelease(t.Context(), &pb.ForceReleaseRequest{VictimId: "a"}); err != nil {
				t.Fatal(err)
			}
			// The event may come before the stream begins, which is told as a gap then, and nothing comes behind it.
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			url := fmt.Sprintf("https://%s/v1/events/sse?owner_id=a&after=%d", d.WebAddr(), after)
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
			if err != nil {
				t.Fatal(err)
			}
			res, err := browser(t, filepath.Join(replaced.DataDir, "dev-cert.pem")).Do(req)
			if err != nil && ctx.Err() != nil {
				return false
			} else if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			gap = false
			for s := bufio.NewScanner(res.Body); s.Scan(); {
				gap = gap || s.Text() == "event: gap"
				if n, _ := fmt.Sscanf(s.Text(), `data: {"id":%d,"type":"killed"`, &id); n == 1 {
					return true
				}
			}
			return false
		}) {
			t.Fatal("no event comes")
		}
		return id, gap
	}
	d, _ := startDaemon(t, replaced)
	had, _ := told(d, 0)
	for range 5 {
		var gap bool
		if had, gap = told(d, had); gap {
			t.Errorf("a gap before event %d", had)
		}
	}
	before := d.node.Run()
	for again := true; again; { // by a chance of 1 in 2048 it begins where it was
		if err := d.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := os.RemoveAll(replaced.DataDir); err != nil {
			t.Fatal(err)
		}
		d, _ = startDaemon(t, replaced)
		again = d.node.Run() != before && (d.node.Run()-before)%maxStarts == 0
	}
	for last, n := uint64(0), 0; n < 10; n++ {
		last, _ = told(d, last)
		if last == had {
			t.Errorf("id %d is given twice", had)
		}
	}
	if id, gap := told(d, had); !gap {
		t.Errorf("who comes back behind event %d is told of event %d, and of no gap", had, id)
	}
}
