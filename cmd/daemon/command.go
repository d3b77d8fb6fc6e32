package daemon

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pathlockd/pathlockd/internal/near"
)

// Exit codes of pathlockd.
const (
	ExitOK      = 0
	ExitFailed  = 1 // the start or the run failed, or --health-check found it unhealthy
	ExitUsage   = 2 // the command line is not understood (and Go's own, for a crash)
	ExitStorage = 3 // storage failed: groups ends the process (groups/disk.go), or a start found the disk full
)

// usageError is a command line that is not understood.
type usageError struct{ error }

// Main is pathlockd with its arguments and environment, and answers its exit code.
func Main(args, env []string, stdout, stderr io.Writer) int {
	err := newCommand(env, stdout, stderr, args).Execute()
	var usage usageError
	var reported reportedError
	switch {
	case err == nil:
		return ExitOK
	case errors.As(err, &reported):
		return reported.code
	case errors.As(err, &usage):
		fmt.Fprintf(stderr, "pathlockd: %v\nTry 'pathlockd --help'.\n", usage.error)
		return ExitUsage
	}
	printError(stderr, err)
	return ExitFailed
}

// printError prints an error for a person, every line of it as one of pathlockd's.
func printError(w io.Writer, err error) {
	for line := range strings.SplitSeq(err.Error(), "\n") {
		fmt.Fprintf(w, "pathlockd: %s\n", line)
	}
}

// reportedError is an error that was told already.
type reportedError struct {
	error
	code int // that the process ends with
}

// options are the flags that are no configuration keys.
type options struct {
	config      string
	healthCheck bool
	addr        string
	version     bool
	reference   bool
}

// newCommand makes the command: a flag for each key, and a few of its own.
func newCommand(env []string, stdout, stderr io.Writer, args []string) *cobra.Command {
	var opt options
	var flags []flagged
	cmd := &cobra.Command{
		Use: "pathlockd", SilenceErrors: true, SilenceUsage: true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usageError{fmt.Errorf("%q: pathlockd takes no arguments, only flags", args[0])}
			}
			return nil
		},
		RunE: func(*cobra.Command, []string) error {
			src := sources{file: opt.config, env: env, flags: flags}
			switch {
			case opt.version:
				fmt.Fprintln(stdout, VersionLine("pathlockd"))
				return nil
			case opt.reference:
				_, err := io.WriteString(stdout, Reference())
				return err
			case opt.healthCheck:
				return checkHealth(src, opt.addr, stdout)
			case opt.addr != "":
				return usageError{errors.New("--addr goes with --health-check")}
			}
			return run(src, stdout, stderr)
		},
	}
	cmd.SetArgs(args)
	cmd.SetOut(stdout)
	cmd.SetErr(stderr)
	cmd.SetHelpFunc(func(*cobra.Command, []string) { _, _ = io.WriteString(stdout, help()) })
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{flagError(err)} })
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.StringVar(&opt.config, "config", "", "")
	fs.BoolVar(&opt.healthCheck, "health-check", false, "")
	fs.StringVar(&opt.addr, "addr", "", "")
	fs.BoolVar(&opt.version, "version", false, "")
	fs.BoolVar(&opt.reference, "print-config-reference", false, "")
	for i := range keys {
		k := &keys[i]
		f := fs.VarPF(&keyFlag{k.name, &flags}, k.name, "", k.help)
		if k.kind == kBool {
			f.NoOptDefVal = "true"
		}
	}
	fs.SetNormalizeFunc(spelling)
	return cmd
}

// spelling lets keys be written with dashes too.
func spelling(_ *pflag.FlagSet, name string) pflag.NormalizedName {
	if known := strings.ReplaceAll(name, "-", "_"); keyNamed(known) != nil {
		name = known
	}
	return pflag.NormalizedName(name)
}

// flagError adds to an unknown flag which one is likely meant.
func flagError(err error) error {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return err
	}
	names := append([]string{"config", "health-check", "version", "help", "addr"}, keyNames()...)
	if meant := near.Name(unknown.GetSpecifiedName(), names); meant != "" {
		return fmt.Errorf("%w: did you mean --%s?", err, meant)
	}
	return err
}

// keyFlag collects what a flag of a key is given; load checks it.
type keyFlag struct {
	name  string
	flags *[]flagged
}

// Set implements pflag.Value.
func (f *keyFlag) Set(text string) error {
	*f.flags = append(*f.flags, flagged{f.name, text})
	return nil
}

// String implements pflag.Value.
func (f *keyFlag) String() string { return "" }

// Type implements pflag.Value.
func (f *keyFlag) Type() string { return "value" }
