package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime"
	"runtime/pprof"
	"time"

	"github.com/pathlockd/pathlockd/bench/ceiling"
	"github.com/pathlockd/pathlockd/bench/load"
	"github.com/pathlockd/pathlockd/groups"
	"github.com/pathlockd/pathlockd/loop"
)

// Commands that bench runs as children.
const (
	serveName = "serve"
	holdName  = "hold"
)

// Lines that a serving child answers.
const (
	askHeap    = "heap"
	askProfile = "profile" // a CPU profile into the file named, until askDone
	askDone    = "done"
)

// Limits of the node under test that are raised, so that what is measured is never
// a refusal.
const (
	servedInflight = 1 << 17 // per group
	servedQueued   = 1 << 20 // paths waited for per group
)

// serveOptions says what a child serves.
type serveOptions struct {
	echo     bool
	noEngine bool
	logs     int
	data     string
}

func (o *serveOptions) flags(fs *flag.FlagSet) {
	fs.BoolVar(&o.echo, "echo", false, "send back what comes, instead of a node (ceiling N)")
	fs.BoolVar(&o.noEngine, "no-engine", false, "do all but apply the lock rules (ceiling C)")
	fs.IntVar(&o.logs, "logs", 16, "replicated logs")
	fs.StringVar(&o.data, "data", "", "data directory of the node")
}

// args are the command line that flags reads.
func (o *serveOptions) args() []string {
	return []string{serveName, fmt.Sprintf("--echo=%t", o.echo), fmt.Sprintf("--no-engine=%t", o.noEngine),
		fmt.Sprintf("--logs=%d", o.logs), "--data=" + o.data}
}

// serveCommand serves until its input ends.
func serveCommand(ctx context.Context, fs *flag.FlagSet, args []string, stdout, stderr io.Writer) (bool, error) {
	var opt serveOptions
	opt.flags(fs)
	if err := parse(fs, args); err != nil {
		return false, err
	}
	addr, err := opt.start(stderr)
	if err != nil {
		return false, fmt.Errorf("serve: %w", err)
	}
	fmt.Fprintln(stdout, "ready", addr)
	return true, obey(os.Stdin, stdout, serveAnswer)
}

// start serves. Nothing ends it but the process's end: its data is thrown away.
func (o *serveOptions) start(stderr io.Writer) (addr string, err error) {
	if o.echo {
		e, err := ceiling.NewEcho("127.0.0.1:0")
		if err != nil {
			return "", err
		}
		return e.Addr(), nil
	}
	groups.TuneCollector()
	log := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	node, err := groups.Open(groups.Config{
		DataDir: o.data, RaftAddr: "127.0.0.1:0", Bootstrap: true, Segments: 1, LogCount: o.logs, NoEngine: o.noEngine,
		MaxInflight: servedInflight, MaxQueued: servedQueued, ElectionMin: 200 * time.Millisecond, Log: log,
	})
	if err != nil {
		return "", err
	}
	if !node.WaitReady(readyWithin) {
		_, why := node.Health()
		return "", fmt.Errorf("the node is not ready after %v: %s", readyWithin, why)
	}
	srv, err := loop.New(node, loop.Options{
		NodeID: node.NodeID(), ClusterID: node.ClusterID(), Version: "bench", RepeatMillis: groups.RepeatMillis,
		Log: log,
	})
	if err != nil {
		return "", err
	}
	at, err := srv.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return at.String(), nil
}

// serveAnswer answers a line.
func serveAnswer(command, argument string) (string, error) {
	switch command {
	case askHeap:
		var m runtime.MemStats
		runtime.GC()
		runtime.GC() // what finalizers and pools let go
		runtime.ReadMemStats(&m)
		return fmt.Sprint(m.HeapAlloc + m.StackInuse), nil
	case askProfile:
		f, err := os.Create(argument)
		if err != nil {
			return "", err
		}
		return "ok", pprof.StartCPUProfile(f)
	case askDone:
		pprof.StopCPUProfile()
		return "ok", nil
	}
	return "", fmt.Errorf("unknown line %q", command)
}

// holdCommand holds idle connections until its input ends.
func holdCommand(_ context.Context, fs *flag.FlagSet, args []string, stdout, _ io.Writer) (bool, error) {
	addr := fs.String("addr", "", "where to connect to")
	n := fs.Int("conns", 0, "connections")
	if err := parse(fs, args); err != nil {
		return false, err
	}
	all, err := load.Idle(*addr, *n)
	if err != nil {
		return false, fmt.Errorf("hold: %w", err)
	}
	fmt.Fprintln(stdout, "ready")
	err = obey(os.Stdin, stdout, func(string, string) (string, error) { return "", nil })
	_ = all.Close() // it ends with the process in any case
	return true, err
}
