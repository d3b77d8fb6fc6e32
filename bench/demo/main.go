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
	exitClean  = 0
	exitBroken = 1
	exitUsage  = 2
	exitFailed = 3
)

// program is a worker if it was started as one, else the demo.
func program(args []string) int {
	if what := os.Getenv(jobVariable); what != "" {
		return workerProgram(what)
	}
	cfg := config{out: os.Stdout, terminal: term.IsTerminal(int(os.Stdout.Fd()))}
	noFencing := false
	flags := flag.NewFlagSet("demo", flag.ContinueOnError)
	flags.StringVar(&cfg.server, "server", "", "binary of pathlockd; built when it is empty")
	flags.StringVar(&cfg.dir, "dir", "", "directory for everything, which stays; empty: one that is removed")
	flags.DurationVar(&cfg.duration, "duration", 30*time.Second, "how long the workers work")
	flags.IntVar(&cfg.files, "files", 1000, "files in the tree")
	flags.IntVar(&cfg.workers, "workers", 8, "worker processes")
	flags.Uint64Var(&cfg.seed, "seed", 0, "seed of everything random; 0: by the clock")
	flags.BoolVar(&noFencing, "no-fencing", false, "do not check tokens, which loses updates")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return exitClean
		}
		return exitUsage
	}
	if cfg.fenced = !noFencing; cfg.seed == 0 {
		cfg.seed = uint64(time.Now().UnixNano())
	}
	if err := cfg.check(); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		return exitUsage
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	v, err := run(ctx, cfg)
	if err != nil {
		fmt.Fprintln(os.Stderr, "\ndemo:", err)
		return exitFailed
	}
	v.print(os.Stdout)
	if !v.clean() {
		return exitBroken
	}
	return exitClean
}

func workerProgram(what string) int {
	j, err := decodeJob(what)
	if err == nil {
		err = j.work(os.Stdin, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return exitFailed
	}
	return exitClean
}
