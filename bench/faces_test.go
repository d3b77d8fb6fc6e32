package main

import (
	"bytes"
	"io"
	"regexp"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/bench/load"
)

// TestFaces runs every interface for a moment: each must have carried pairs out.
func TestFaces(t *testing.T) {
	var out bytes.Buffer
	code := do(t.Context(), []string{"faces", "--dir", t.TempDir(), "--conns", "2", "--turns", "1", "--warm", "10ms",
		"--duration", "100ms"}, &out, io.Discard)
	if code != exitOK {
		t.Fatalf("exit code %d\n%s", code, out.String())
	}
	for _, face := range []string{"native", "grpc", "json-http1", "json-http2", "json-http3"} {
		if !regexp.MustCompile(`(?m)^Benchmark/face=` + face +
			`/conns=2-\d+\t[1-9]\d*\t\d+ ns/op\t\d+ op/s\t\d+\.\d+ p50-ms\t\d+\.\d+ p99-ms$`).MatchString(out.String()) {
			t.Errorf("no figures of %s in\n%s", face, out.String())
		}
	}
	if code := do(t.Context(), []string{"faces", "--conns", "0"}, io.Discard, io.Discard); code != exitUsage {
		t.Errorf("--conns 0: exit code %d", code)
	}
}

func TestMiddle(t *testing.T) {
	run := func(n int64) load.Result { return load.Result{Count: n, Elapsed: time.Second} }
	for _, c := range []struct {
		runs []load.Result
		want int64
	}{
		{[]load.Result{run(5)}, 5},
		{[]load.Result{run(9), run(1), run(5)}, 5},
		{[]load.Result{run(3), run(3), run(3)}, 3},
		{[]load.Result{run(3), run(3), run(4)}, 3},
	} {
		if got := middle(c.runs); got.Count != c.want {
			t.Errorf("middle of %v is %d, want %d", c.runs, got.Count, c.want)
		}
	}
}
