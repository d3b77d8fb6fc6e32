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

// Run runs a test of the package that calls it with a bug, or none, and further arguments, and holds that it finds the
// bug, or passes without one. It returns what the test printed.
func Run(t testing.TB, test, bug string, args ...string) []byte {
	t.Helper()
	cmd := exec.Command(os.Args[0], append([]string{"-test.run", "^" + test + "$", "-test.v"}, args...)...)
	cmd.Env = append(os.Environ(), Env+"="+bug)
	out, err := cmd.CombinedOutput()
	ran := bytes.Contains(out, []byte("=== RUN   "+test))
	failed := err != nil && bytes.Contains(out, []byte("--- FAIL: "+test))
	if !ran || failed != (bug != "") || !failed && err != nil {
		const most = 4000 // bytes
		t.Errorf("%s with %q planted: ran %v, failed %v, %v:\n%s", test, bug, ran, failed, err,
			out[max(0, len(out)-most):])
	}
	return out
}

// FoundBy holds that each bug is found by its test, which passes without one.
func FoundBy(t *testing.T, tests map[string]string) {
	t.Helper()
	for bug, test := range tests {
		Run(t, test, "")
		Run(t, test, bug)
	}
}
