package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// Exit codes.
const (
	exitOK    = 0
	exitShort = 1 // a budget is not met, or could not be measured
	exitUsage = 2
)

const usage = `bench measures pathlockd on the machine at hand.

  bench budgets   every budget against its ceiling: name  measured  budget  ok|SHORT
  bench run       one workload
  bench faces     native, gRPC and JSON over each HTTP version, side by side
  bench scale     simulated clusters of up to hundreds of nodes

bench COMMAND --help tells the flags of a command.
`

// command is one of bench's commands. It answers whether all was well.
type command struct {
	name string
	run  func(ctx context.Context, fs *flag.FlagSet, args []string, stdout, stderr io.Writer) (bool, error)
}

var commands = []command{
	{"budgets", budgetsCommand},
	{"run", runCommand},
	{"faces", facesCommand},
	{"cluster", clusterCommand},
	{"scale", scaleCommand},
	{serveName, serveCommand},
	{holdName, holdCommand},
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := do(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// errUsage is a command line that is not understood, and was told to be.
var errUsage = errors.New("usage")

func do(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if len(args) == 0 {
		fmt.Fprint(stderr, usage)
		return exitUsage
	}
	for _, c := range commands {
		if c.name != args[0] {
			continue
		}
		fs := flag.NewFlagSet("bench "+c.name, flag.ContinueOnError)
		fs.SetOutput(stderr)
		well, err := c.run(ctx, fs, args[1:], stdout, stderr)
		switch {
		case errors.Is(err, flag.ErrHelp):
			return exitOK
		case errors.Is(err, errUsage):
			return exitUsage
		case err != nil:
			fmt.Fprintln(stderr, "bench:", err)
			return exitShort
		case !well:
			return exitShort
		}
		return exitOK
	}
	if args[0] == "--help" || args[0] == "-h" || args[0] == "help" {
		fmt.Fprint(stdout, usage)
		return exitOK
	}
	fmt.Fprintf(stderr, "bench: unknown command %q\n\n%s", args[0], usage)
	return exitUsage
}

// parse reads the flags of a command that takes no arguments.
func parse(fs *flag.FlagSet, args []string) error {
	if err := fs.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return err
		}
		return errUsage // told by fs
	}
	if fs.NArg() > 0 {
		fmt.Fprintf(fs.Output(), "%s: %q: there are only flags\n", fs.Name(), fs.Arg(0))
		return errUsage
	}
	return nil
}
