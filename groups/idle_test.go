package groups

import (
	"os"
	"runtime/pprof"
	"syscall"
	"testing"
	"time"
)

// TestIdleCluster has three nodes with 256 groups in 16 logs and the default times of raft
// do nothing, on disks in memory, and holds what that costs against its budget. It takes
// half a minute of a quiet machine, so PATHLOCKD_LONG asks for it; PATHLOCKD_PROFILE
// names a file for a profile of that time.
func TestIdleCluster(t *testing.T) {
	if os.Getenv("PATHLOCKD_LONG") == "" {
		t.Skip("PATHLOCKD_LONG is not set")
	}
	const (
		nodes = 3
		most  = 3.0 // percent of a core, each
		idle  = 30 * time.Second
	)
	f := newLocalCluster(t, nodes, func(_ int, c *Config) {
		d := Config{}.Defaults()
		c.GroupCount, c.LogCount, c.ElectionMin, c.Heartbeat = d.GroupCount, d.LogCount, d.ElectionMin, d.Heartbeat
		c.StabilityWindow, c.LeaderBalance = 2*time.Second, 5*time.Second
	})
	f.settle(nodes)
	if file := os.Getenv("PATHLOCKD_PROFILE"); file != "" {
		out, err := os.Create(file)
		if err != nil {
			t.Fatal(err)
		}
		defer out.Close()
		if err := pprof.StartCPUProfile(out); err != nil {
			t.Fatal(err)
		}
		defer pprof.StopCPUProfile()
	}
	before, began := ownTime(t), time.Now()
	<-time.After(idle) // nothing happens: that is measured
	share := 100 * (ownTime(t) - before).Seconds() / time.Since(began).Seconds() / nodes
	t.Logf("%.2f %% of a core a node", share)
	if share > most {
		t.Errorf("an idle node uses %.2f %% of a core, and may use %g %%", share, most)
	}
}

// ownTime is the processor time that this process has used.
func ownTime(t *testing.T) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
