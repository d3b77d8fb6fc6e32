package cli

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	pathlockd "github.com/pathlockd/pathlockd/clients/go"
	"github.com/pathlockd/pathlockd/wire"
)

const policyLong = `A namespace is a path whose whole tree locks by one set of rules, or a handler, the part
before the colon, for its whole tree:

  recursive_rw     write locks cover all below; readers share a path (the default)
  point_rw         write locks cover one path; readers share a path
  recursive_write  write locks cover all below; no read locks
  point_write      write locks cover one path; no read locks
  semaphore        up to --permits owners hold a path`

const policySetLong = `Set the algorithm of a namespace.

To change it clears the locks and waiters of the namespace. Where a policy makes a new
namespace out of a part of another, that part must be free of locks: else the exit code
is 1 and nothing is changed.`

// policyData is the data of policy.
type policyData struct {
	Namespace string `json:"namespace"`
	Algorithm string `json:"algorithm"`
	Explicit  bool   `json:"explicit"`
}

// policyCmd makes the command policy and those below it.
func (a *app) policyCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use: "policy", GroupID: groupServer, Short: "Show and set by which rules a namespace locks", Long: policyLong,
		Example: `  pathlock policy set tenant:/acme/slots semaphore
  pathlock policy get tenant:/acme/slots`,
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return fmt.Errorf("policy: %q: must be get, set or delete", args[0])
			}
			return fmt.Errorf("policy: say get, set or delete")
		},
	}
	cmd.AddCommand(
		&cobra.Command{
			Use: "get NAMESPACE", Short: "Show the rules of a namespace", Args: takes("NAMESPACE"),
			Long:    "Show the rules of a namespace, and whether they were set or are the server's default.",
			Example: "  pathlock policy get tenant:/acme",
			RunE: a.policyBody(func(context.Context, *pathlockd.Client, []string) error { return nil },
				""),
		},
		&cobra.Command{
			Use: "set NAMESPACE ALGORITHM", Short: "Set the rules of a namespace", Long: policySetLong,
			Args:    takes("NAMESPACE", "ALGORITHM"),
			Example: "  pathlock policy set tenant:/acme/slots semaphore", ValidArgsFunction: completeAlgorithm,
			RunE: a.policyBody(func(ctx context.Context, c *pathlockd.Client, args []string) error {
				algorithm, _ := wire.ParseAlgorithm(args[1])
				return c.SetNamespacePolicy(ctx, args[0], algorithm, "")
			}, "set: "),
		},
		&cobra.Command{
			Use: "delete NAMESPACE", Short: "Let a namespace have the default rules again", Args: takes("NAMESPACE"),
			Long:    "Let a namespace have the server's default rules again. What set says of locks holds here too.",
			Example: "  pathlock policy delete tenant:/acme/slots",
			RunE: a.policyBody(func(ctx context.Context, c *pathlockd.Client, args []string) error {
				return c.DeleteNamespacePolicy(ctx, args[0], "")
			}, "deleted: "),
		},
	)
	return cmd
}

// policyBody makes the function of a command that does something to a namespace's
// policy, and then shows it.
func (a *app) policyBody(do func(context.Context, *pathlockd.Client, []string) error,
	done string) func(*cobra.Command, []string) error {
	return body(func(ctx context.Context, args []string) error {
		if err := checkNamespaces("NAMESPACE", args[:1], 1); err != nil {
			return err
		}
		if len(args) > 1 {
			if _, ok := wire.ParseAlgorithm(args[1]); !ok {
				return usage("ALGORITHM %s: must be one of %s", wire.Quote(args[1]),
					strings.Join(wire.AlgorithmNames(), ", "))
			}
		}
		return a.asking(ctx, func(ctx context.Context, c *pathlockd.Client) error {
			if err := do(ctx, c, args); err != nil {
				return err
			}
			algorithm, explicit, err := c.GetNamespacePolicy(ctx, args[0])
			if err != nil {
				return err
			}
			data := &policyData{args[0], algorithm.String(), explicit}
			return a.answer(data, func(b *bytes.Buffer) {
				how := "default"
				if explicit {
					how = "set"
				}
				fmt.Fprintf(b, "%s%s  %s (%s)\n", done, visible(data.Namespace), data.Algorithm, how)
			})
		})
	})
}

func completeAlgorithm(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) != 1 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return wire.AlgorithmNames(), cobra.ShellCompDirectiveNoFileComp
}
