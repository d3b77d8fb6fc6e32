package main

import (
	"bytes"
	"io"
	"regexp"
	"strings"
	"testing"
)

// TestScale plays a scenario by command, and measures what the simulation is told for a
// moment.
func TestScale(t *testing.T) {
	var out bytes.Buffer
	if code := do(t.Context(), []string{"scale", "--nodes", "5", "--logs", "16", "--factor", "3", "--what", "^death$"},
		&out, io.Discard); code != exitOK {
		t.Fatalf("exit code %d\n%s", code, out.String())
	}
	for _, line := range []string{`BenchmarkTraffic/nodes=5/logs=16/factor=3\t8 conns`,
		`BenchmarkScale/what=death/nodes=5/logs=16/factor=3\t[1-9].*\t4 elections\t.*\t0 violations`} {
		if !regexp.MustCompile(`(?m)^` + line).MatchString(out.String()) {
			t.Errorf("no line like %q in\n%s", line, out.String())
		}
	}
	out.Reset()
	if code := do(t.Context(), []string{"scale", "--measure", "--short"}, &out, io.Discard); code != exitOK {
		t.Fatalf("exit code %d\n%s", code, out.String())
	}
	for _, line := range []string{`BenchmarkSnapshot/locks=1000\t[1-9]`,
		`BenchmarkLinks/nodes=3\t6 conns\t[1-9]\d+ B/end`, `BenchmarkGossip/nodes=3\t.*\t[1-9]\d* B/s`} {
		if !regexp.MustCompile(`(?m)^` + line).MatchString(out.String()) {
			t.Errorf("no line like %q in\n%s", line, out.String())
		}
	}
	for _, args := range []string{"--nodes=2", "--logs=x", "--what=("} {
		if code := do(t.Context(), []string{"scale", args}, io.Discard, io.Discard); code != exitUsage {
			t.Errorf("%s: exit code %d", args, code)
		}
	}
	out.Reset()
	if do(t.Context(), []string{"scale", "--list"}, &out, io.Discard); !strings.Contains(out.String(), "rack") {
		t.Errorf("--list says %q", out.String())
	}
}
