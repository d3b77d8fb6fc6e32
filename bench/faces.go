package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pathlockd/pathlockd/bench/face"
	"github.com/pathlockd/pathlockd/bench/load"
	"github.com/pathlockd/pathlockd/internal/testkit/server"
)

// facesCommand measures every interface of one pathlockd in one run: acquire and
// release of distinct paths, one request at a time on each connection, through the
// client that a user would take.
func facesCommand(ctx context.Context, fs *flag.FlagSet, args []string, stdout, stderr io.Writer) (bool, error) {
	conns := fs.String("conns", "1,16,128", "connections, comma-separated")
	warm := fs.Duration("warm", time.Second, "how long before each measuring begins")
	duration := fs.Duration("duration", 5*time.Second, "how long each is measured")
	turns := fs.Int("turns", 3, "how often each is measured, in turns; the median is told")
	dir := fs.String("dir", ".", "`directory` to write below")
	if err := parse(fs, args); err != nil {
		return false, err
	}
	var counts []int
	for s := range strings.SplitSeq(*conns, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(s))
		if err != nil || n < 1 || n > 4096 {
			fmt.Fprintf(stderr, "bench: --conns %q: must be numbers from 1 to 4096\n", *conns)
			return false, errUsage
		}
		counts = append(counts, n)
	}
	own, err := os.MkdirTemp(*dir, "bench-")
	if err != nil {
		return false, err
	}
	defer func() { _ = os.RemoveAll(own) }() // what is left shows that it failed
	r := newReport(own, nil, false)
	r.Command = strings.Join(append([]string{"bench faces"}, args...), " ")
	fmt.Fprint(stdout, r.head())
	bin, err := server.Build(ctx, own)
	if err != nil {
		return false, err
	}
	p, err := server.Start(ctx, bin, filepath.Join(own, "data"), "--native_listen=127.0.0.1:0",
		"--max_inflight_per_group=65536")
	if err != nil {
		return false, err
	}
	defer p.Kill()
	for _, n := range counts {
		results := make(map[string][]load.Result)
		for range *turns {
			for _, f := range facesOf(p) {
				fmt.Fprintf(stderr, "%s, %d connections\n", f.name, n)
				res, err := f.run(ctx, n, *warm, *duration)
				if err != nil {
					return false, fmt.Errorf("%s, %d connections: %w", f.name, n, err)
				}
				results[f.name] = append(results[f.name], res)
			}
		}
		for _, f := range facesOf(p) {
			res := middle(results[f.name])
			fmt.Fprintf(stdout, "Benchmark/face=%s/conns=%d-%d\t%d\t%.0f ns/op\t%.0f op/s\t%.3f p50-ms\t%.3f p99-ms\n",
				f.name, n, runtime.GOMAXPROCS(0),
				res.Count, float64(res.Elapsed.Nanoseconds())/float64(res.Count), res.PerSecond(), millis(res.P50),
				millis(res.P99))
		}
	}
	return true, nil
}

// faceRun is an interface, and how it is asked.
type faceRun struct {
	name string
	run  func(ctx context.Context, conns int, warm, measure time.Duration) (load.Result, error)
}

// facePool is how many paths the workloads go through.
const facePool = 100_000

func facesOf(p *server.Process) []faceRun {
	calls := func(dial func() (load.Caller, error)) func(context.Context, int, time.Duration,
		time.Duration) (load.Result, error) {
		return func(ctx context.Context, conns int, warm, measure time.Duration) (load.Result, error) {
			return load.Calls{Dial: dial, Conns: conns, Pool: facePool / conns * conns, Warm: warm,
				Measure: measure}.Run(ctx)
		}
	}
	overHTTP := func(addr, version string) func() (load.Caller, error) {
		return func() (load.Caller, error) { return face.DialJSON(addr, version) }
	}
	return []faceRun{
		{"native", func(ctx context.Context, conns int, warm, measure time.Duration) (load.Result, error) {
			return load.Pairs{Addr: p.Addr, Conns: conns, InFlight: 1, Pool: facePool, Warm: warm,
				Measure: measure}.Run(ctx)
		}},
		{"grpc", calls(func() (load.Caller, error) { return face.DialGRPC(p.GRPC) })},
		{"json-http1", calls(overHTTP(p.Web, face.HTTP1))},
		{"json-http2", calls(overHTTP(p.Web, face.HTTP2))},
		{"json-http3", calls(overHTTP(p.H3, face.HTTP3))},
	}
}

// middle is the run with the median rate.
func middle(runs []load.Result) load.Result {
	runs = slices.Clone(runs)
	slices.SortFunc(runs, func(a, b load.Result) int { return cmp.Compare(a.PerSecond(), b.PerSecond()) })
	return runs[len(runs)/2]
}
