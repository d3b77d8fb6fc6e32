package cli

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	pathlockd "github.com/pathlockd/pathlockd/clients/go"
	"github.com/pathlockd/pathlockd/wire"
)

const releaseLong = `Give locks back: those on the given PATHs, in whichever mode they are held; with --read
or --write only in that one. --all gives back everything an owner holds and waits for,
everywhere.

To release what is not held is no error, so that scripts can release twice; what was not
held is told.`

// released is the data of a release.
type released struct {
	Owner    string     `json:"owner"`
	Released []pathMode `json:"released"`
	NotHeld  []string   `json:"not_held"`
	More     bool       `json:"more"` // there may be more of both: what was held could not be told in time
}

// releaseCmd makes the command release.
func (a *app) releaseCmd() *cobra.Command {
	var owner ownerFlag
	var all, read, write bool
	cmd := &cobra.Command{
		Use: "release PATH… | --all", GroupID: groupLock, Short: "Give locks back", Long: releaseLong,
		Example: `  pathlock release tenant:/acme/projects/42 --owner deploy-7
  pathlock release --all --owner deploy-7`,
	}
	cmd.RunE = body(func(ctx context.Context, paths []string) error {
		if all && len(paths) > 0 {
			return usage("release: --all gives back everything: name no PATH with it, such as %s", paths[0])
		}
		for _, pair := range [][2]string{{"all", "read"}, {"all", "write"}, {"read", "write"}} {
			if err := errTwoWays(cmd, pair[0], pair[1]); err != nil {
				return err
			}
		}
		if !all && len(paths) == 0 {
			return usage("release: PATH is missing; name what to give back, or say --all")
		}
		if !all {
			if err := checkPaths(paths, wire.MaxBulkPaths); err != nil {
				return err
			}
		}
		who, err := owner.get(a)
		if err != nil {
			return err
		}
		modes := []wire.Mode{wire.ModeWrite, wire.ModeRead}
		if read || write {
			modes = slices.DeleteFunc(modes, func(m wire.Mode) bool { return (m == wire.ModeRead) != read })
		}
		return a.asking(ctx, func(ctx context.Context, c *pathlockd.Client) error {
			if all {
				return a.releaseAll(ctx, c, who)
			}
			return a.release(ctx, c, who, paths, modes)
		})
	})
	owner.add(cmd, "whose locks: an `ID` (or set "+envOwner+")")
	fs := cmd.Flags()
	fs.BoolVar(&all, "all", false, "everything the owner holds and waits for")
	fs.BoolVar(&read, "read", false, "only read locks")
	fs.BoolVar(&write, "write", false, "only write locks and permits")
	return cmd
}

func (a *app) releaseAll(ctx context.Context, c *pathlockd.Client, owner string) error {
	held, known := a.heldBefore(ctx, c, owner)
	if err := c.ReleaseAll(ctx, owner, true, ""); err != nil {
		return err
	}
	data := &released{Owner: owner, Released: []pathMode{}, NotHeld: []string{}, More: !known}
	for _, h := range held {
		data.Released = append(data.Released, pathMode{h.Path, modeName(h.Mode)})
	}
	return a.answer(data, data.show)
}

// release gives paths back in the named modes. What is held is looked up before, for
// the answer alone.
func (a *app) release(ctx context.Context, c *pathlockd.Client, owner string, paths []string, modes []wire.Mode) error {
	half, cancel := context.WithTimeout(ctx, a.timeout/2)
	held, err := holds(half, c, owner, paths)
	cancel()
	data := &released{Owner: owner, Released: []pathMode{}, NotHeld: []string{}, More: err != nil}
	var rels []wire.ReleaseRequest
	for _, p := range paths {
		before := len(data.Released)
		for _, m := range modes {
			rels = append(rels, wire.ReleaseRequest{Path: p, Mode: m})
			if _, ok := held[hold{p, m}]; ok {
				data.Released = append(data.Released, pathMode{p, modeName(m)})
			}
		}
		if len(data.Released) == before && !data.More {
			data.NotHeld = append(data.NotHeld, p)
		}
	}
	if err := release(ctx, c, owner, rels); err != nil {
		return err
	}
	return a.answer(data, data.show)
}

// show tells people what was given back.
func (d *released) show(b *bytes.Buffer) {
	if d.More {
		fmt.Fprintf(b, "released what %s held of it; %s\n", visible(d.Owner), notTold)
		return
	}
	for _, r := range d.Released {
		fmt.Fprintf(b, "released  %s (%s)\n", visible(r.Path), r.Mode)
	}
	for _, p := range d.NotHeld {
		fmt.Fprintf(b, "not held  %s\n", visible(p))
	}
	if len(d.Released)+len(d.NotHeld) == 0 {
		fmt.Fprintf(b, "%s held nothing\n", visible(d.Owner))
	}
}
