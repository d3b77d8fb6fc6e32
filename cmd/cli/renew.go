package cli

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	pathlockd "github.com/pathlockd/pathlockd/clients/go"
	"github.com/pathlockd/pathlockd/wire"
)

const renewLong = `Make the locks of an owner last for --ttl from now on: everywhere, or in the namespaces
of the given PATHs. The TTL counts anew, so a shorter one shortens them.

Exit code 1 says that there was nothing to renew: the lease is over or was taken away.
Then somebody else may hold the locks; stop what they protect. When somebody asked the
owner to let go (pathlock revoke), renew says so.`

// renewed is the data of a renewal.
type renewed struct {
	Owner           string   `json:"owner"`
	Namespaces      []string `json:"namespaces,omitempty"`
	TTLMillis       int64    `json:"ttl_ms"`
	ExpiresAt       string   `json:"expires_at"`
	RevokeRequested bool     `json:"revoke_requested"`
}

// lostLease tells programs what was lost.
type lostLease struct {
	Owner  string `json:"owner"`
	Path   string `json:"path,omitempty"`
	Reason string `json:"reason"`
}

// renewCmd makes the command renew.
func (a *app) renewCmd() *cobra.Command {
	var owner ownerFlag
	ttl := defaultTTL
	cmd := &cobra.Command{
		Use: "renew [PATH…]", GroupID: groupLock, Short: "Make the locks of an owner last longer", Long: renewLong,
		Example: `  pathlock renew --owner deploy-7
  pathlock renew --owner deploy-7 --ttl 10m tenant:/acme`,
		RunE: body(func(ctx context.Context, namespaces []string) error {
			who, err := owner.get(a)
			if err != nil {
				return err
			}
			if err := checkNamespaces("PATH", namespaces, wire.MaxDomains); err != nil {
				return err
			}
			return a.asking(ctx, func(ctx context.Context, c *pathlockd.Client) error {
				return a.renew(ctx, c, who, ttl, namespaces)
			})
		}),
	}
	owner.add(cmd, "whose locks: an `ID` (or set "+envOwner+")")
	cmd.Flags().Var(&span{&ttl, minTTL, maxSpan}, "ttl", "how long they last from now on: a `DURATION`, at most 7d")
	return cmd
}

func (a *app) renew(ctx context.Context, c *pathlockd.Client, owner string, ttl time.Duration,
	namespaces []string) error {
	sent := time.Now()
	res, err := c.Renew(ctx, owner, ttl, "", 0, namespaces...)
	if err != nil {
		return err
	}
	if res.Status != wire.StatusOK {
		where := ""
		if res.Path != "" {
			where = " in " + visible(res.Path)
		}
		f := &failure{
			exit: ExitFailed, code: codeLost,
			message: fmt.Sprintf("lost: %s has no lease%s: it is over, or was taken away or never there",
				visible(owner), where),
			details: &lostLease{owner, res.Path, res.Reason.String()},
		}
		return f.hinted("stop what it protects; see what is held: pathlock locks %s", quote(owner))
	}
	over := sent.Add(ttl)
	data := &renewed{owner, namespaces, ttl.Milliseconds(), stamp(over), res.Flag}
	return a.answer(data, func(b *bytes.Buffer) {
		fmt.Fprintf(b, "renewed: the locks of %s last for %s, until %s\n", visible(owner), short(ttl),
			over.Format(time.TimeOnly))
		if res.Flag {
			b.WriteString("somebody asks to let go of them: release them when you can\n")
		}
	})
}
