// Package planted runs tests again in processes of their own, of which each has one bug planted (engine/plant.go): only
// builds with the tag plant have any.
package planted

import (
	"bytes"
	"os"
	"os/exec"
	"testing"
)

// Env is the variable that says which bug a process has; none when it is empty.
const Env = "PATHLOCKD_PLANT"

// Outcome is how a test went in a process of its own.
type Outcome struct {
	Ran, Failed bool
	Output      []byte
}

// Run runs a test of this binary with a bug, or none, and further arguments.
func Run(t testing.TB, test, bug string, args ...string) (o Outcome) {
	t.Helper()
	cmd := exec.Command(os.Args[0], append([]string{"-test.run", "^" + test + "$", "-test.v"}, args...)...)
	cmd.Env = append(os.Environ(), Env+"="+bug)
	var err error
	o.Output, err = cmd.CombinedOutput()
	o.Ran = bytes.Contains(o.Output, []byte("=== RUN   "+test))
	o.Failed = err != nil && bytes.Contains(o.Output, []byte("--- FAIL: "+test))
	if err != nil && !o.Failed {
		t.Errorf("%s with %q planted ended otherwise than by a failure: %v:\n%s", test, bug, err, o.Output)
	}
	return o
}

// FoundBy holds that each bug is found by its test, which passes without one. The tests are of the package that calls it.
func FoundBy(t *testing.T, tests map[string]string) {
	t.Helper()
	for bug, test := range tests {
		for _, plant := range []string{"", bug} {
			if o := Run(t, test, plant); !o.Ran || o.Failed != (plant != "") {
				t.Errorf("%s with %q planted: ran %v, failed %v:\n%s", test, plant, o.Ran, o.Failed, o.Output)
			}
		}
	}
}
