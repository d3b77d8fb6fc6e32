package cli

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	pathlockd "github.com/pathlockd/pathlockd/clients/go"
	"github.com/pathlockd/pathlockd/wire"
)

const watchLong = `Tell what happens to an owner, one line an event, until Ctrl-C or --count of them:

  grant    a queued request of it was granted
  revoke   somebody asks it to let go
  killed   somebody took its locks away
  expired  its lease in a namespace is over
  gap      events were missed; look at the state itself: pathlock locks OWNER

Events are told from now on: "watching" on standard error says that none is missed any
more. A lost connection is made anew, and what happened meanwhile is told then.`

// happened is one event for programs.
type happened struct {
	Event        string `json:"event"`
	Owner        string `json:"owner"`
	Path         string `json:"path,omitempty"`
	Namespace    string `json:"namespace,omitempty"`
	FencingToken int64  `json:"fencing_token,omitempty"`
	Time         string `json:"time"` // when it was heard of
}

// watchCmd makes the command watch.
func (a *app) watchCmd() *cobra.Command {
	var most uint32
	cmd := &cobra.Command{
		Use: "watch OWNER", GroupID: groupLook, Short: "Tell what happens to an owner", Long: watchLong,
		Args: takes("OWNER"),
		Example: `  pathlock watch deploy-7
  pathlock watch deploy-7 --json --count 1`,
		RunE: body(func(ctx context.Context, args []string) error {
			if err := checkOwnerArg(args); err != nil {
				return err
			}
			c, err := a.dial(ctx)
			if err != nil {
				return err
			}
			defer c.Close()
			return a.watch(ctx, c, args[0], most)
		}),
	}
	cmd.Flags().Var(&number[uint32]{&most, 1, 1<<32 - 1, "how many events to wait for"}, "count",
		"end after `N` events")
	return cmd
}

// signOfLife is how often watch makes sure that it would hear of events.
const signOfLife = 5 * time.Second

func (a *app) watch(ctx context.Context, c *pathlockd.Client, owner string, most uint32) error {
	asked, cancel := a.limited(ctx)
	defer cancel()
	sub, err := c.Subscribe(asked, owner, wire.EventKilled, wire.EventRevoke, wire.EventGrant, wire.EventExpired)
	if err != nil {
		return fmt.Errorf("subscribe: %w", err)
	}
	defer sub.Close()
	a.note("watching %s", visible(owner))
	ctx, end := context.WithCancel(ctx)
	defer end()
	go a.tellGone(ctx, c)
	for seen := uint32(0); most == 0 || seen < most; seen++ {
		select {
		case e, ok := <-sub.Events():
			if !ok {
				return fmt.Errorf("the subscription ended: %w", sub.Err())
			}
			if err := a.tell(e); err != nil {
				return err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// tell prints one event.
func (a *app) tell(e pathlockd.Event) error {
	now := time.Now()
	data := &happened{Event: strings.ToLower(e.Kind.String()), Owner: e.Owner, Path: e.Path, Namespace: e.Namespace,
		FencingToken: e.Token, Time: stamp(now)}
	if e.Gap {
		data.Event = "gap"
	}
	return a.answer(data, func(b *bytes.Buffer) {
		fmt.Fprintf(b, "%s  %-7s  %s", now.Format(time.TimeOnly), data.Event, visible(e.Owner))
		for _, more := range []string{e.Path, e.Namespace} {
			if more != "" {
				fmt.Fprintf(b, "  %s", visible(more))
			}
		}
		if e.Token != 0 {
			fmt.Fprintf(b, "  token %d", e.Token)
		}
		b.WriteByte('\n')
	})
}

// tellGone tells when the connection is lost, and when there is one again: without
// that, to hear nothing would look as if nothing happened.
func (a *app) tellGone(ctx context.Context, c *pathlockd.Client) {
	t := time.NewTicker(signOfLife)
	defer t.Stop()
	gone := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		asked, cancel := context.WithTimeout(ctx, signOfLife)
		err := c.Ping(asked)
		cancel()
		if ctx.Err() != nil {
			return
		}
		switch {
		case err != nil && !gone:
			a.note("the connection is lost; trying to make it anew: %s", plain(err))
		case err == nil && gone:
			a.note("connected again")
		}
		gone = err != nil
	}
}
