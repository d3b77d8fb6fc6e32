package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/term"
)

func main() { os.Exit(program(os.Args[1:])) }

// Exit codes.
const (
	exitDone   = 0
	exitBroken = 1 // the cluster was not healthy at the end, or a request was lost
	exitUsage  = 2
	exitFailed = 3
)

type config struct {
	server   string
	dir      string
	nodes    int
	clients  int
	gap      time.Duration // between two locks of a client
	logs     int
	basePort int
	duration time.Duration
	terminal bool
}

func program(args []string) int {
	cfg := config{terminal: term.IsTerminal(int(os.Stdout.Fd()))}
	flags := flag.NewFlagSet("cluster", flag.ContinueOnError)
	flags.StringVar(&cfg.server, "server", "", "binary of pathlockd; built when it is empty")
	flags.StringVar(&cfg.dir, "dir", "./pathlockd-cluster", "directory for the nodes' data, which stays")
	flags.IntVar(&cfg.nodes, "nodes", 3, "nodes, 1 to 9")
	flags.IntVar(&cfg.clients, "clients", 8, "clients that take and give back locks")
	flags.IntVar(&cfg.logs, "logs", 4, "replicated logs of a new cluster")
	flags.IntVar(&cfg.basePort, "port", 27100, "first port: a node has ten of its own")
	flags.DurationVar(&cfg.duration, "for", 0, "how long; 0: until Ctrl-C")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return exitDone
		}
		return exitUsage
	}
	if cfg.nodes < 1 || cfg.nodes > 9 || cfg.clients < 0 || cfg.clients > 1000 || cfg.basePort < 1024 ||
		cfg.basePort > 65_000 {
		fmt.Fprintln(os.Stderr, "cluster: --nodes must be 1 to 9, --clients 0 to 1000, --port 1024 to 65000")
		return exitUsage
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ok, err := run(ctx, cfg)
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "cluster:", err)
		return exitFailed
	case !ok:
		return exitBroken
	}
	return exitDone
}
