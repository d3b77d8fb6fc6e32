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

const deadlockLong = `Follow from owner to owner who waits for whom, as programs declared it (wait edges), and
tell whether that leads in a circle. The exit code is 0 either way.

To end a deadlock, let one of the circle go: pathlock revoke, or pathlock kill.`

// deadlocked is the data of deadlock.
type deadlocked struct {
	Owner string   `json:"owner"`
	Kind  string   `json:"kind"` // none, found, truncated
	Chain []string `json:"chain"`
}

// deadlockCmd makes the command deadlock.
func (a *app) deadlockCmd() *cobra.Command {
	depth := uint32(wire.MaxCycleDepth)
	cmd := &cobra.Command{
		Use: "deadlock OWNER", GroupID: groupLook, Short: "Tell whether an owner waits in a circle", Long: deadlockLong,
		Args: takes("OWNER"),
		Example: `  pathlock deadlock deploy-7
  pathlock deadlock deploy-7 --json | jq -e '.data.kind == "none"'`,
		RunE: body(func(ctx context.Context, args []string) error {
			if err := checkOwnerArg(args); err != nil {
				return err
			}
			return a.asking(ctx, func(ctx context.Context, c *pathlockd.Client) error {
				kind, chain, err := c.DetectCycle(ctx, args[0], depth)
				if err != nil {
					return err
				}
				data := &deadlocked{args[0], strings.ToLower(kind.String()), append([]string{}, chain...)}
				return a.answer(data, func(b *bytes.Buffer) { data.show(b, kind) })
			})
		}),
	}
	cmd.Flags().Var(&number[uint32]{&depth, 1, wire.MaxCycleDepth, "how many owners to follow"}, "depth",
		"follow at most `N` owners")
	return cmd
}

func (d *deadlocked) show(b *bytes.Buffer, kind wire.CycleKind) {
	var names []string
	for _, n := range d.Chain {
		names = append(names, visible(n))
	}
	way := strings.Join(names, " → ")
	switch kind {
	case wire.CycleFound:
		if len(names) > 0 {
			way += " → " + names[0]
		}
		fmt.Fprintf(b, "deadlock: %s\n", way)
	case wire.CycleTruncated:
		fmt.Fprintf(b, "not known: no end after %s: %s → …\n", count(uint64(len(names)), "owner", "owners"), way)
	default:
		fmt.Fprintf(b, "no deadlock: what %s waits for leads in no circle\n", visible(d.Owner))
	}
}
