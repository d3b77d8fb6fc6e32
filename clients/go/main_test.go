package pathlockd

import (
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// sharedDir is the data directory of the shared server.
var sharedDir string

func TestMain(m *testing.M) {
	var err error
	if sharedDir, err = os.MkdirTemp("", "pathlockd-client-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	before := goleak.IgnoreCurrent() // what packages start when they are loaded
	code := m.Run()
	if shared.n != nil {
		shared.n.stop(0)
	}
	err = goleak.Find(before)
	for end := time.Now().Add(time.Minute); err != nil && code == 0 && time.Now().Before(end); {
		err = goleak.Find(before) // what ends by itself may take its time where much else is done
	}
	if err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, "goroutines are left over:", err)
		code = 1
	}
	os.RemoveAll(sharedDir)
	os.Exit(code)
}
