package cli

import (
	"bytes"
	"context"
	"fmt"

	"github.com/spf13/cobra"

	pathlockd "github.com/pathlockd/pathlockd/clients/go"
	"github.com/pathlockd/pathlockd/wire"
)

const assertLong = `Check that an owner holds the write lock on every PATH, and that --token is the path's
latest: that nobody was granted it since. Exit code 0 says yes, 1 no.

Inside run, the token and the owner are known. An answer is true of the moment when it
was given; what must be safe at every moment has the token checked by the resource
itself.`

// asserted is the data of assert.
type asserted struct {
	Owner        string   `json:"owner"`
	FencingToken int64    `json:"fencing_token"`
	Paths        []string `json:"paths"`
}

// assertFailed tells programs what does not hold.
type assertFailed struct {
	Path   string `json:"path"`
	Reason string `json:"reason"`
}

// assertCmd makes the command assert.
func (a *app) assertCmd() *cobra.Command {
	var owner ownerFlag
	var token int64
	cmd := &cobra.Command{
		Use: "assert PATH…", GroupID: groupLock, Short: "Check that a lock is held under a token", Long: assertLong,
		Example: `  pathlock assert tenant:/acme/projects/42 --owner deploy-7 --token 12
  pathlock run tenant:/acme/x -- sh -c 'prepare && pathlock assert tenant:/acme/x && publish'`,
	}
	cmd.RunE = body(func(ctx context.Context, paths []string) error {
		if err := checkPaths(paths, wire.MaxPaths); err != nil {
			return err
		}
		who, err := owner.get(a)
		if err != nil {
			return err
		}
		n, err := a.tokenOf(cmd, token)
		if err != nil {
			return err
		}
		return a.asking(ctx, func(ctx context.Context, c *pathlockd.Client) error {
			return a.assert(ctx, c,
				who, n, paths)
		})
	})
	owner.add(cmd, "whose lock: an `ID` (or set "+envOwner+")")
	cmd.Flags().Var(&number[int64]{&token, 1, wire.MaxToken, "a fencing token"}, "token",
		"the fencing token `N` (or set "+envToken+")")
	return cmd
}

func (a *app) assert(ctx context.Context, c *pathlockd.Client, owner string, token int64, paths []string) error {
	res, err := c.AssertFencing(ctx, owner, token, paths...)
	if err != nil {
		return err
	}
	if res.Status != wire.StatusOK {
		f := &failure{exit: ExitFailed, code: codeAssert, details: &assertFailed{res.Path, res.Reason.String()}}
		f.message = fmt.Sprintf("assertion failed: %s does not hold the write lock on %s", visible(owner),
			visible(res.Path))
		if res.Reason == wire.ReasonStaleFencingToken {
			f.message = fmt.Sprintf("assertion failed: %d is not the latest token of %s", token, visible(res.Path))
		}
		return f.hinted("stop what the lock protects; see: pathlock describe %s", quote(res.Path))
	}
	return a.answer(&asserted{owner, token, paths}, func(b *bytes.Buffer) {
		for _, p := range paths {
			fmt.Fprintf(b, "holds  %s  token %d\n", visible(p), token)
		}
	})
}
