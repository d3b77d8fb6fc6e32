package cli

import (
	"bytes"
	"context"
	"fmt"

	"github.com/spf13/cobra"

	pathlockd "github.com/pathlockd/pathlockd/clients/go"
)

// toOwner is the data of revoke and kill.
type toOwner struct {
	Owner string     `json:"owner"`
	Held  []heldLock `json:"held"` // when it was asked
	More  bool       `json:"more"` // it held more, maybe: that could not be told in time
}

// revokeCmd makes the command revoke.
func (a *app) revokeCmd() *cobra.Command {
	return a.ownerCmd("revoke", "Ask an owner to let go",
		`Ask an owner to let go of its locks. It hears of it at once if it listens, and otherwise
when it renews; nothing is taken away. If it does not answer, there is pathlock kill.`,
		func(ctx context.Context, c *pathlockd.Client, owner string) error { return c.RequestRevoke(ctx, owner) },
		"asked %s to let go of %s")
}

// killCmd makes the command kill.
func (a *app) killCmd() *cobra.Command {
	return a.ownerCmd("kill", "Take everything away from an owner",
		`Take everything away from an owner: its locks, its places in the queues and its wait
edge, everywhere and at once. Whoever waits is granted next.

No process is killed. The owner's program hears of it at once if it listens, and
otherwise when it renews: what it writes until then only its fencing token can stop.`,
		func(ctx context.Context, c *pathlockd.Client, owner string) error {
			return c.ForceRelease(ctx, owner, "")
		},
		"killed %s: freed %s")
}

// ownerCmd makes a command that does something to an owner.
func (a *app) ownerCmd(name, brief, long string, do func(ctx context.Context, c *pathlockd.Client, owner string) error,
	done string) *cobra.Command {
	return &cobra.Command{
		Use: name + " OWNER", GroupID: groupServer, Short: brief, Long: long, Args: takes("OWNER"),
		Example: "  pathlock " + name + " deploy-7",
		RunE: body(func(ctx context.Context, args []string) error {
			if err := checkOwnerArg(args); err != nil {
				return err
			}
			owner := args[0]
			return a.asking(ctx, func(ctx context.Context, c *pathlockd.Client) error {
				infos, known := a.heldBefore(ctx, c, owner)
				if err := do(ctx, c, owner); err != nil {
					return err
				}
				data := &toOwner{Owner: owner, Held: []heldLock{}, More: !known}
				for i := range infos {
					infos[i].Owner = owner
					data.Held = append(data.Held, heldLockOf(&infos[i]))
				}
				return a.answer(data, func(b *bytes.Buffer) {
					switch {
					case data.More:
						fmt.Fprintf(b, done+"; %s\n", visible(owner), "what it held", notTold)
						return
					case len(data.Held) == 0:
						fmt.Fprintf(b, "%s held nothing\n", visible(owner))
						return
					}
					fmt.Fprintf(b, done+"\n", visible(owner), count(uint64(len(data.Held)), "lock", "locks"))
					for _, l := range data.Held {
						fmt.Fprintf(b, "  %s (%s)\n", visible(l.Path), l.how())
					}
				})
			})
		}),
	}
}

// notTold is said instead of what an owner held.
const notTold = "what that was could not be told in time"

// heldBefore lists what an owner holds, for people: it may change meanwhile. What is to be done
// is done whatever becomes of that, and has at least half of the time.
func (a *app) heldBefore(ctx context.Context, c *pathlockd.Client,
	owner string) (infos []pathlockd.LockInfo, known bool) {
	ctx, cancel := context.WithTimeout(ctx, a.timeout/2)
	defer cancel()
	infos, _, err := c.ListOwnerLocks(ctx, owner)
	return infos, err == nil
}
