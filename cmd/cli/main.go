package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// Exit codes of pathlock. run passes on its command's own.
const (
	ExitOK          = 0
	ExitFailed      = 1   // not acquired, lost, assertion failed, refused
	ExitUsage       = 2   // the command line, or a value in it, is not understood
	ExitUnavailable = 69  // the server cannot be reached, or cannot answer (EX_UNAVAILABLE)
	ExitTimeout     = 75  // the wait for a lock is over (EX_TEMPFAIL)
	ExitNotRunnable = 126 // run: the command cannot be run
	ExitNotFound    = 127 // run: the command was not found
	exitSignal      = 128 // and the signal's number: 130 for SIGINT, 143 for SIGTERM
)

// DefaultAddr is where the server is looked for that nobody named.
const DefaultAddr = "127.0.0.1:50050"

// Variables of the environment.
const (
	envAddr  = "PATHLOCK_ADDR"
	envOwner = "PATHLOCK_OWNER"
	envToken = "PATHLOCK_TOKEN"
)

// app is one call of pathlock.
type app struct {
	environ        []string
	stdin          io.Reader
	stdout, stderr io.Writer
	signals        *signals // nil in tests that send none

	addr    string
	json    bool
	timeout time.Duration
}

// Main is pathlock with its arguments and environment, and answers its exit code.
func Main(args, environ []string, stdin io.Reader, stdout, stderr io.Writer) int {
	s := catchSignals()
	defer s.release()
	a := &app{environ: environ, stdin: stdin, stdout: stdout, stderr: stderr, signals: s}
	return a.main(s.ctx, args)
}

// main runs one command line until its end, or that of ctx.
func (a *app) main(ctx context.Context, args []string) int {
	root := a.root()
	root.SetArgs(args)
	for _, arg := range args { // so that even a flag that is not understood is told so
		if arg == "--" {
			break
		}
		a.json = a.json || arg == "--json" || arg == "--json=true"
	}
	err := root.ExecuteContext(ctx)
	if err == nil {
		return ExitOK
	}
	var ran *ranError
	if !errors.As(err, &ran) {
		return a.fail(usage("%s", strings.ReplaceAll(err.Error(), "\n\n", "\n")))
	}
	var sig *signalError
	if errors.As(context.Cause(ctx), &sig) {
		return a.fail(sig)
	}
	return a.fail(ran.error)
}

// ranError is what a command answered, as opposed to what cobra says of the command
// line before it runs one.
type ranError struct{ error }

func (e *ranError) Unwrap() error { return e.error }

// body makes a command's function out of one that does not need cobra.
func body(f func(ctx context.Context, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if err := f(cmd.Context(), args); err != nil {
			return &ranError{err}
		}
		return nil
	}
}

const rootLong = `pathlock takes and looks at locks on the paths of a tree, held by a pathlockd server.

A PATH is handler:/segment/segment, such as tenant:/acme/projects/42. A write lock on a
path covers everything below it, unless the namespace's policy says otherwise. Who locks
is an OWNER: any name; two processes that use one name are one owner.

What acquire takes outlives the command: it is held until it is released or its TTL is
over. run holds a lock for as long as a command of yours runs.`

// root makes the command and all below it.
func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use: "pathlock", Short: "Take and look at locks held by a pathlockd server", Long: rootLong,
		Example: `  pathlock run tenant:/acme/projects/42 -- make deploy
  pathlock acquire tenant:/acme/projects/42 --owner deploy-7 --ttl 5m
  pathlock status tenant:/acme`,
		SilenceErrors: true, SilenceUsage: true, SuggestionsMinimumDistance: 2,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			err := fmt.Errorf("%q is no command of pathlock", args[0])
			if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
				err = fmt.Errorf("%w; did you mean %s?", err, strings.Join(near, " or "))
			}
			return err
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if a.json {
				return errors.New("no command is given")
			}
			cmd.SetOut(a.stderr)
			if err := cmd.Help(); err != nil {
				return err
			}
			return &ranError{childExit(ExitUsage)}
		},
	}
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	fs := root.PersistentFlags()
	fs.StringVar(&a.addr, "addr", a.envOr(envAddr, DefaultAddr),
		"server: `ADDR` is host:port, unix:/path, or several with commas between; or set "+envAddr)
	fs.Lookup("addr").DefValue = DefaultAddr
	fs.BoolVar(&a.json, "json", a.json, "answer with one JSON envelope: schema_version, ok, and data or "+
		"error{code,message}")
	fs.Lookup("json").DefValue = "false"
	a.timeout = defaultTimeout
	fs.Var(&span{&a.timeout, minTimeout, maxTimeout}, "timeout",
		"how long the server may take to answer, waiting for a lock aside: a `DURATION`")
	root.AddGroup(&cobra.Group{ID: groupLock, Title: "Locking:"}, &cobra.Group{ID: groupLook, Title: "Looking:"},
		&cobra.Group{ID: groupServer, Title: "Administration:"})
	root.AddCommand(
		a.acquireCmd(), a.runCmd(), a.renewCmd(), a.releaseCmd(), a.assertCmd(),
		a.statusCmd(), a.describeCmd(), a.locksCmd(), a.watchCmd(), a.deadlockCmd(),
		a.revokeCmd(), a.killCmd(), a.policyCmd(), a.healthCmd(), a.clusterCmd(), a.nodeCmd(), a.backupCmd(),
		a.versionCmd(), a.referenceCmd(),
	)
	each(root, func(cmd *cobra.Command) {
		if cmd.ValidArgsFunction == nil && cmd.Name() != "run" {
			cmd.ValidArgsFunction = cobra.NoFileCompletions
		}
	})
	root.SetHelpCommandGroupID(groupServer)
	root.SetCompletionCommandGroupID(groupServer)
	return root
}

// Commands and flags stand in the order in which people come to need them.
func init() { cobra.EnableCommandSorting = false }

// Groups of commands in --help.
const (
	groupLock   = "lock"
	groupLook   = "look"
	groupServer = "server"
)

// env is a variable of the environment, "" when it is not set.
func (a *app) env(name string) string {
	for i := len(a.environ) - 1; i >= 0; i-- {
		if v, ok := strings.CutPrefix(a.environ[i], name+"="); ok {
			return v
		}
	}
	return ""
}

func (a *app) envOr(name, otherwise string) string {
	if v := a.env(name); v != "" {
		return v
	}
	return otherwise
}
