package cli

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	pathlockd "github.com/pathlockd/pathlockd/clients/go"
)

// defaultRows is how many locks status shows unless it is told otherwise, and
// maxRows the most it can be told: it keeps them all in memory.
const (
	defaultRows = 1000
	maxRows     = 1_000_000
)

const statusLong = `Show what is held at and below PREFIX, as a tree; everywhere without one. PREFIX is a
path, or a handler: the part before the colon.

It shows at most --limit locks, and says when there are more. For programs, --json lists
them by path. The list is not one instant: what changes meanwhile is in it or not.`

// statusData is the data of status.
type statusData struct {
	Locks []heldLock `json:"locks"`
	More  bool       `json:"more"`
}

// statusCmd makes the command status.
func (a *app) statusCmd() *cobra.Command {
	limit := uint32(defaultRows)
	cmd := &cobra.Command{
		Use: "status [PREFIX]", GroupID: groupLook, Short: "Show what is held, as a tree", Long: statusLong,
		Args: atMost(1),
		Example: `  pathlock status
  pathlock status tenant:/acme
  pathlock status tenant --json | jq -r '.data.locks[].path'`,
		RunE: body(func(ctx context.Context, args []string) error {
			if err := checkNamespaces("PREFIX", args, 1); err != nil {
				return err
			}
			prefix := strings.Join(args, "")
			return a.asking(ctx, func(ctx context.Context, c *pathlockd.Client) error {
				return a.status(ctx, c, prefix,
					int(limit))
			})
		}),
	}
	cmd.Flags().Var(&number[uint32]{&limit, 1, maxRows, "how many locks to show"}, "limit", "show at most `N` locks")
	return cmd
}

func (a *app) status(ctx context.Context, c *pathlockd.Client, prefix string, limit int) error {
	data := &statusData{Locks: []heldLock{}}
	for info, err := range c.ScanLocks(ctx, prefix) {
		if err != nil {
			return err
		}
		if data.More = len(data.Locks) == limit; data.More {
			break
		}
		data.Locks = append(data.Locks, heldLockOf(&info))
	}
	slices.SortFunc(data.Locks, func(a, b heldLock) int {
		if d := strings.Compare(a.Path, b.Path); d != 0 {
			return d
		}
		return strings.Compare(a.Owner+"\x00"+a.Mode, b.Owner+"\x00"+b.Mode)
	})
	return a.answer(data, func(b *bytes.Buffer) {
		if len(data.Locks) == 0 {
			fmt.Fprintf(b, "nothing is held%s\n", atAndBelow(prefix))
			return
		}
		var t tree
		for _, l := range data.Locks {
			t.insert(l)
		}
		t.write(b)
		if data.More {
			fmt.Fprintf(b, "\nThere is more: only %s are shown. Name a PREFIX, or raise --limit.\n",
				count(uint64(limit), "lock", "locks"))
		}
	})
}

func atAndBelow(prefix string) string {
	if prefix == "" {
		return ""
	}
	return " at or below " + visible(prefix)
}
