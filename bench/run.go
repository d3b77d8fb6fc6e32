package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"time"

	"github.com/pathlockd/pathlockd/bench/ceiling"
	"github.com/pathlockd/pathlockd/bench/load"
)

// runOptions is one workload.
type runOptions struct {
	workload string
	addr     string
	conns    int
	inFlight int
	pool     int
	logs     int
	noEngine bool
	warm     time.Duration
	duration time.Duration
	profile  string
	dir      string
}

func (o *runOptions) flags(fs *flag.FlagSet) {
	fs.StringVar(&o.workload, "workload", "pairs",
		"pairs (acquire and release of distinct paths), handover (one mutex that conns x inflight clients wait "+
			"for), echo (ceiling N) or fsync (Y)")
	fs.StringVar(&o.addr, "addr", "", "`host:port` of a server that runs; else one is started for the run")
	fs.IntVar(&o.conns, "conns", 64, "connections")
	fs.IntVar(&o.inFlight, "inflight", 256, "requests in flight on each, or clients that wait")
	fs.IntVar(&o.pool, "pool", 1_000_000, "paths, in 64 namespaces")
	fs.IntVar(&o.logs, "logs", 16, "replicated logs of the server")
	fs.BoolVar(&o.noEngine, "no-engine", false, "have the server do all but apply the lock rules (ceiling C)")
	fs.DurationVar(&o.warm, "warm", time.Second, "how long before the measuring begins")
	fs.DurationVar(&o.duration, "duration", 10*time.Second, "how long is measured")
	fs.StringVar(&o.profile, "cpuprofile", "", "`file` for a CPU profile of the server that is started")
	fs.StringVar(&o.dir, "dir", ".", "`directory` to write below")
}

// runCommand runs one workload and prints it as Go benchmarks print.
func runCommand(ctx context.Context, fs *flag.FlagSet, args []string, stdout, stderr io.Writer) (bool, error) {
	var opt runOptions
	opt.flags(fs)
	if err := parse(fs, args); err != nil {
		return false, err
	}
	dir, err := os.MkdirTemp(opt.dir, "bench-")
	if err != nil {
		return false, err
	}
	defer func() { _ = os.RemoveAll(dir) }() // what is left shows that it failed
	opt.dir = dir
	fmt.Fprint(stdout, newReport(dir, args, false).head())
	if opt.workload == "fsync" {
		return true, opt.fsync(stdout)
	}
	w, served := workloads[opt.workload]
	if !served {
		fmt.Fprintf(stderr, "bench: --workload %s: there are pairs, handover, echo and fsync\n", opt.workload)
		return false, errUsage
	}
	s := &suite{ctx: ctx, dir: dir, stderr: stderr, progress: stderr}
	var c *child
	if opt.addr == "" {
		var drop func()
		c, drop, err = s.serve(serveOptions{echo: opt.workload == "echo", noEngine: opt.noEngine, logs: opt.logs})
		if err != nil {
			return false, err
		}
		defer drop()
		opt.addr = c.addr
	}
	done, err := opt.startProfile(ctx, c)
	if err != nil {
		return false, err
	}
	res, err := w(ctx, &opt)
	if err != nil {
		return false, err
	}
	opt.print(stdout, res)
	return true, done()
}

// workloads are those that need a server.
var workloads = map[string]func(ctx context.Context, o *runOptions) (load.Result, error){
	"pairs": func(ctx context.Context, o *runOptions) (load.Result, error) { return o.pairs().Run(ctx) },
	"echo": func(ctx context.Context, o *runOptions) (load.Result, error) {
		p := o.pairs()
		p.Echo = true
		return p.Run(ctx)
	},
	"handover": func(ctx context.Context, o *runOptions) (load.Result, error) {
		return load.Handover{Addr: o.addr, Conns: o.conns, Waiters: o.inFlight, Warm: o.warm,
			Measure: o.duration}.Run(ctx)
	},
}

func (o *runOptions) pairs() load.Pairs {
	return load.Pairs{Addr: o.addr, Conns: o.conns, InFlight: o.inFlight, Pool: o.pool, Warm: o.warm,
		Measure: o.duration}
}

// startProfile has the server record a profile until done is called.
func (o *runOptions) startProfile(ctx context.Context, c *child) (done func() error, err error) {
	if o.profile == "" {
		return func() error { return nil }, nil
	}
	if c == nil {
		return nil, fmt.Errorf("--cpuprofile goes without --addr: only a server that bench starts records one")
	}
	_, err = c.ask(ctx, askProfile+" "+o.profile)
	return func() error {
		_, err := c.ask(ctx, askDone)
		return err
	}, err
}

// print writes a result as a line of the Go benchmark format.
func (o *runOptions) print(w io.Writer, res load.Result) {
	name := fmt.Sprintf("%s/logs=%d/conns=%d/inflight=%d", o.workload, o.logs, o.conns, o.inFlight)
	if o.noEngine {
		name += "/no-engine"
	}
	fmt.Fprintf(w, "Benchmark/%s-%d\t%d\t%.0f ns/op\t%.0f op/s\t%.3f p50-ms\t%.3f p99-ms\t%.3f max-ms\n",
		name, runtime.GOMAXPROCS(0), res.Count, float64(res.Elapsed.Nanoseconds())/float64(max(res.Count, 1)),
		res.PerSecond(),
		millis(res.P50), millis(res.P99), millis(res.Max))
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// fsync measures the disk alone.
func (o *runOptions) fsync(w io.Writer) error {
	d, err := ceiling.NewDisk(o.dir)
	if err != nil {
		return err
	}
	defer d.Close()
	rate, err := d.PerSecond(o.duration)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "Benchmark/fsync\t%.0f\t%.0f ns/op\t%.0f op/s\n", rate*o.duration.Seconds(), 1e9/rate, rate)
	return nil
}
