package cli

import (
	"fmt"
	"os"
	"os/user"
	"strings"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/pathlockd/pathlockd/wire"
)

// takes checks that a command is given exactly the named arguments.
func takes(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < len(names) {
			return fmt.Errorf("%s: %s is missing; usage: %s", cmd.Name(), names[len(args)], cmd.UseLine())
		}
		if len(args) > len(names) {
			return fmt.Errorf("%s: %q is one argument too many; usage: %s", cmd.Name(), args[len(names)], cmd.UseLine())
		}
		return nil
	}
}

// atMost checks that a command is given no more arguments than that.
func atMost(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > n {
			return fmt.Errorf("%s: %q is one argument too many; usage: %s", cmd.Name(), args[n], cmd.UseLine())
		}
		return nil
	}
}

// checkPaths checks the arguments PATH of a command.
func checkPaths(paths []string, most int) error {
	if len(paths) == 0 {
		return usage("PATH is missing; example: tenant:/acme/projects/42")
	}
	if len(paths) > most {
		return usage("PATH: %d are given, at most %d are taken", len(paths), most)
	}
	for _, p := range paths {
		if err := wire.CheckPath("PATH", p); err != nil {
			return usage("%s", err.Message)
		}
	}
	return nil
}

// checkNamespaces checks arguments that are namespaces, or paths in them.
func checkNamespaces(name string, list []string, most int) error {
	if len(list) > most {
		return usage("%s: %d are given, at most %d are taken", name, len(list), most)
	}
	for _, ns := range list {
		if err := wire.CheckNamespace(name, ns); err != nil {
			return usage("%s", err.Message)
		}
	}
	return nil
}

// checkOwner checks an owner; name says where it was given.
func checkOwner(name, owner string) error {
	ask := wire.Request{Op: wire.OpRequestRevoke, Owner: owner}
	var bad *wire.Error
	if bad = ask.Validate(); bad == nil {
		return nil
	}
	return usage("%s%s", name, strings.TrimPrefix(bad.Message, "owner_id"))
}

// ownerFlag is the flag --owner of a command.
type ownerFlag struct {
	owner string
	cmd   *cobra.Command
}

func (o *ownerFlag) add(cmd *cobra.Command, help string) {
	o.cmd = cmd
	cmd.Flags().StringVar(&o.owner, "owner", "", help)
}

func (o *ownerFlag) given() bool { return o.cmd.Flags().Changed("owner") }

// get answers the owner that was given by the flag or the environment.
func (o *ownerFlag) get(a *app) (owner string, err error) {
	if o.given() {
		return o.owner, checkOwner("--owner", o.owner)
	}
	if owner = a.env(envOwner); owner != "" {
		return owner, checkOwner(envOwner, owner)
	}
	return "", usage("%s: whose lock? Say --owner ID, as acquire printed it, or set %s", o.cmd.Name(), envOwner)
}

// newOwner makes up an owner: it tells people who it was, and programs from all
// others.
func newOwner() string {
	const most = 64
	name := "unknown"
	if u, err := user.Current(); err == nil && u.Username != "" {
		name = u.Username
	} else if env := os.Getenv("USER"); env != "" {
		name = env
	}
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	return strings.ToValidUTF8(fmt.Sprintf("%.*s@%.*s:%s", most, name, most, host, uuid.NewString()), "")
}

// tokenOf answers the fencing token of a flag, or of the environment.
func (a *app) tokenOf(cmd *cobra.Command, given int64) (int64, error) {
	if cmd.Flags().Changed("token") {
		return given, nil
	}
	text := a.env(envToken)
	if text == "" {
		return 0, usage("%s: which token? Say --token N, as acquire printed it, or set %s", cmd.Name(), envToken)
	}
	var n int64
	if err := (&number[int64]{&n, 1, wire.MaxToken, "a fencing token"}).Set(text); err != nil {
		return 0, usage("%s=%q: %v", envToken, text, err)
	}
	return n, nil
}

// errTwoWays is two flags that exclude each other.
func errTwoWays(cmd *cobra.Command, one, other string) error {
	if cmd.Flags().Changed(one) && cmd.Flags().Changed(other) {
		return usage("%s: --%s and --%s exclude each other", cmd.Name(), one, other)
	}
	return nil
}
