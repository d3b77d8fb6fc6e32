// Command torture lets the fault laboratory (bench/lab) run for as long as it is told, and
// writes down what came of it: `make torture`.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/pathlockd/pathlockd/bench/lab"
	"github.com/pathlockd/pathlockd/bench/lab/cluster"
	"github.com/pathlockd/pathlockd/internal/testkit/server"
)

// options is the command line.
type options struct {
	kind     string
	bin      string
	nodes    int
	seeds    int
	duration time.Duration
	report   string
	keep     string
	list     bool // print the kinds of faults and end
	cfg      lab.Config
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "torture:", err)
		os.Exit(1)
	}
}

func parse(args []string) (*options, error) {
	o := &options{}
	f := flag.NewFlagSet("torture", flag.ContinueOnError)
	f.StringVar(&o.kind, "cluster", "nodes",
		"nodes (in this process: all faults) or processes (kill -9, stops, full disks)")
	f.StringVar(&o.bin, "server", "", "pathlockd for processes; built when empty")
	f.IntVar(&o.nodes, "nodes", 3, "how many nodes")
	f.Uint64Var(&o.cfg.Seed, "seed", 1, "first seed")
	f.IntVar(&o.seeds, "seeds", 1, "how many seeds, one after the other, each on a new cluster")
	f.DurationVar(&o.duration, "duration", 10*time.Minute, "of all seeds together")
	f.DurationVar(&o.cfg.Episode, "episode", 30*time.Second, "of one episode under faults")
	f.DurationVar(&o.cfg.Apart, "apart", time.Minute,
		"for how long a leader is isolated at most that gets its logs back")
	f.IntVar(&o.cfg.Clients, "clients", 10, "how many clients")
	f.IntVar(&o.cfg.MaxFaults, "max-faults", 0, "end each seed after so many faults; 0: when its time is over")
	f.IntVar(&o.cfg.Ballast, "ballast", lab.Ballast,
		"how many locks there are that no request must pay for; 0: what requests cost is not looked at")
	faults := f.String("faults", "", "kinds of faults, with commas between; empty: all; ?: print them and "+
		"what each does")
	f.StringVar(&o.report, "report", "", "file to write the report to, say docs/testing/torture-nodes.md")
	f.StringVar(&o.keep, "keep", os.TempDir(), "where to keep histories that break promises")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	if *faults != "" {
		o.cfg.Faults = strings.Split(*faults, ",")
	}
	switch {
	case *faults == "?":
		o.list = true
		return o, nil
	case f.NArg() > 0:
		return nil, fmt.Errorf("%q is no flag", f.Arg(0))
	case o.cfg.Apart < time.Second:
		return nil, errors.New("apart must be at least 1s")
	case o.cfg.Ballast < 0:
		return nil, errors.New("ballast must be at least 0")
	case o.nodes < 1 || o.seeds < 1 || o.cfg.Clients < 1:
		return nil, errors.New("nodes, seeds and clients must be at least 1")
	case o.kind != "nodes" && o.kind != "processes":
		return nil, fmt.Errorf("cluster %q must be nodes or processes", o.kind)
	}
	o.cfg.Sit = true
	if o.kind == "nodes" {
		o.cfg.Election = cluster.ElectionMost
	}
	if err := o.cfg.CheckFaults(); err != nil {
		return nil, err
	}
	o.cfg.Duration, o.cfg.Keep = o.duration/time.Duration(o.seeds), o.keep
	return o, nil
}

func run(ctx context.Context, args []string, out io.Writer) error {
	o, err := parse(args)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	if o.list {
		return lab.PrintFaults(out)
	}
	o.cfg.Logf = func(format string, args ...any) { fmt.Fprintf(out, format+"\n", args...) }
	dir, err := os.MkdirTemp("", "torture-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if o.kind == "processes" && o.bin == "" {
		if o.bin, err = server.Build(ctx, dir); err != nil {
			return err
		}
	}
	var reports []*lab.Report
	var failed error
	for i := range o.seeds {
		cfg := o.cfg
		cfg.Seed += uint64(i)
		r, err := o.one(ctx, cfg, filepath.Join(dir, fmt.Sprint(i)))
		if r != nil {
			reports = append(reports, r)
			for _, v := range r.Violations {
				fmt.Fprintln(out, v)
			}
			if len(r.Violations) > 0 {
				failed = errors.Join(failed, fmt.Errorf("seed %d: %d violations, %v", cfg.Seed, len(r.Violations),
					r.Histories))
			}
		}
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("seed %d: %w", cfg.Seed, err))
		}
		if ctx.Err() != nil {
			break
		}
	}
	text := lab.Markdown("go run ./bench/lab/torture "+strings.Join(args, " "), o.kind, o.nodes, reports, failed)
	if o.report != "" {
		if err := os.MkdirAll(filepath.Dir(o.report), 0o755); err != nil {
			return errors.Join(failed, err)
		}
		if err := os.WriteFile(o.report, []byte(text), 0o644); err != nil {
			return errors.Join(failed, err)
		}
	}
	fmt.Fprint(out, "\n", text)
	return failed
}

// one runs one seed on a cluster of its own.
func (o *options) one(ctx context.Context, cfg lab.Config, dir string) (*lab.Report, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	var c cluster.Cluster
	var err error
	if o.kind == "processes" {
		c, err = cluster.NewProcesses(ctx, o.bin, dir, o.nodes)
	} else {
		c, err = cluster.NewNodes(ctx, dir, o.nodes, cfg.Seed)
	}
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return lab.Run(ctx, cfg, c)
}
