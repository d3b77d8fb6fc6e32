package cli

import (
	"bytes"
	"context"
	"fmt"

	"github.com/spf13/cobra"

	pathlockd "github.com/pathlockd/pathlockd/clients/go"
)

// owned is the data of locks.
type owned struct {
	Owner string     `json:"owner"`
	Alive bool       `json:"alive"`
	Locks []heldLock `json:"locks"`
}

// checkOwnerArg checks the argument OWNER.
func checkOwnerArg(args []string) error { return checkOwner("OWNER", args[0]) }

// locksCmd makes the command locks.
func (a *app) locksCmd() *cobra.Command {
	return &cobra.Command{
		Use: "locks OWNER", GroupID: groupLook, Short: "Show what an owner holds", Args: takes("OWNER"),
		Long:    "Show what an owner holds, in every namespace. With nothing held the exit code is 0 too.",
		Example: `  pathlock locks deploy-7`,
		RunE: body(func(ctx context.Context, args []string) error {
			if err := checkOwnerArg(args); err != nil {
				return err
			}
			return a.asking(ctx, func(ctx context.Context, c *pathlockd.Client) error {
				return a.locks(ctx,
					c, args[0])
			})
		}),
	}
}

func (a *app) locks(ctx context.Context, c *pathlockd.Client, owner string) error {
	infos, alive, err := c.ListOwnerLocks(ctx, owner)
	if err != nil {
		return err
	}
	data := &owned{Owner: owner, Alive: alive, Locks: []heldLock{}}
	for i := range infos {
		infos[i].Owner = owner
		data.Locks = append(data.Locks, heldLockOf(&infos[i]))
	}
	return a.answer(data, func(b *bytes.Buffer) {
		if len(data.Locks) == 0 {
			fmt.Fprintf(b, "%s holds nothing\n", visible(owner))
			return
		}
		t := table{{"PATH", "MODE", "TOKEN", "SINCE", "EXPIRES IN", "WHO"}}
		for _, l := range data.Locks {
			t.add(visible(l.Path), l.how(), l.token(), since(l.Since), within(l.ExpiresInMillis),
				holderLine(l.Host, l.PID, l.Command, l.Labels))
		}
		t.write(b)
	})
}
