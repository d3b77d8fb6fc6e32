package groups

import (
	"flag"
	"os"
	"runtime"
	"testing"
)

// TestMain has four tests run at once where fewer would, unless -parallel says how many: most of their time they wait,
// for elections, deadlines and graces.
func TestMain(m *testing.M) {
	flag.Parse()
	asked := false
	flag.Visit(func(f *flag.Flag) { asked = asked || f.Name == "test.parallel" })
	if !asked && runtime.GOMAXPROCS(0) < 4 {
		if err := flag.Set("test.parallel", "4"); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}
