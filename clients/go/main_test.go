package pathlockd

import (
	"fmt"
	"os"
	"testing"
)

// sharedDir is the data directory of the shared server.
var sharedDir string

func TestMain(m *testing.M) {
	var err error
	if sharedDir, err = os.MkdirTemp("", "pathlockd-client-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	if shared.n != nil {
		shared.n.stop(0)
	}
	os.RemoveAll(sharedDir)
	os.Exit(code)
}
