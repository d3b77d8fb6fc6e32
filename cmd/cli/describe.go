package cli

import (
	"bytes"
	"context"
	"fmt"

	"github.com/spf13/cobra"

	pathlockd "github.com/pathlockd/pathlockd/clients/go"
	"github.com/pathlockd/pathlockd/wire"
)

const describeLong = `Show everything about one path: its namespace and rules, who holds it, what is held above
and covers it, who waits for it in which order, and how much is held below.`

// waitingLock is one waiter for programs.
type waitingLock struct {
	Position        uint64 `json:"position"`
	Owner           string `json:"owner"`
	Path            string `json:"path"`
	Mode            string `json:"mode"`
	FencingToken    int64  `json:"fencing_token"`
	Since           int64  `json:"since_unix_ms"`
	ExpiresInMillis uint64 `json:"expires_in_ms"`
	// a call that is open; else a place that is asked for again and again
	Open    bool              `json:"open"`
	Permits uint32            `json:"permits,omitempty"`
	Host    string            `json:"host,omitempty"`
	PID     int64             `json:"pid,omitempty"`
	Command string            `json:"command,omitempty"`
	Labels  map[string]string `json:"labels,omitempty"`
}

// described is the data of describe.
type described struct {
	Path         string        `json:"path"`
	Namespace    string        `json:"namespace"`
	Algorithm    string        `json:"algorithm"`
	LastToken    int64         `json:"last_fencing_token"`
	Holders      []heldLock    `json:"holders"`
	Covering     []heldLock    `json:"covering"`
	Waiters      []waitingLock `json:"waiters"`
	WaitersTotal uint64        `json:"waiters_total"`
	WritesBelow  uint64        `json:"writes_below"`
	ReadsBelow   uint64        `json:"reads_below"`
}

// describeCmd makes the command describe.
func (a *app) describeCmd() *cobra.Command {
	waiters := uint32(64)
	cmd := &cobra.Command{
		Use: "describe PATH", GroupID: groupLook, Short: "Show who holds a path, and who waits for it",
		Long: describeLong, Args: takes("PATH"),
		Example: `  pathlock describe tenant:/acme/projects/42`,
		RunE: body(func(ctx context.Context, args []string) error {
			if err := checkPaths(args, 1); err != nil {
				return err
			}
			return a.asking(ctx, func(ctx context.Context, c *pathlockd.Client) error {
				d, err := c.Describe(ctx, args[0], waiters)
				if err != nil {
					return err
				}
				data := describedOf(args[0], d)
				return a.answer(data, data.show)
			})
		}),
	}
	cmd.Flags().Var(&number[uint32]{&waiters, 1, wire.MaxDescribePage, "how many waiters to show"}, "waiters",
		"show at most `N` waiters")
	return cmd
}

func describedOf(path string, d *pathlockd.Description) *described {
	data := &described{
		Path: path, Namespace: d.Namespace, Algorithm: d.Algorithm.String(), LastToken: d.Fence,
		Holders: []heldLock{}, Covering: []heldLock{}, Waiters: []waitingLock{},
		WaitersTotal: d.WaitersTotal, WritesBelow: d.WritesBelow, ReadsBelow: d.ReadsBelow,
	}
	for i := range d.Holders {
		data.Holders = append(data.Holders, heldLockOf(&d.Holders[i]))
	}
	for i := range d.Covering {
		data.Covering = append(data.Covering, heldLockOf(&d.Covering[i]))
	}
	for _, w := range d.Waiters {
		m := metaOf(w.Meta)
		data.Waiters = append(data.Waiters, waitingLock{
			Position: w.Position, Owner: w.Owner, Path: w.Path, Mode: modeName(w.Mode), FencingToken: w.Token,
			Since:           w.SinceUnixMillis,
			ExpiresInMillis: w.ExpiresInMillis, Open: w.Open, Permits: w.Permits, Host: m.Host, PID: m.PID,
			Command: m.Command, Labels: m.Labels,
		})
	}
	return data
}

// show tells people.
func (d *described) show(b *bytes.Buffer) {
	head := table{{"path", visible(d.Path)}, {"namespace", fmt.Sprintf("%s (%s)", visible(d.Namespace), d.Algorithm)}}
	if d.LastToken != 0 {
		head.add("last token", fmt.Sprint(d.LastToken))
	}
	head.add("below", fmt.Sprintf("%s, %s", count(d.WritesBelow, "write lock", "write locks"),
		count(d.ReadsBelow, "read lock", "read locks")))
	head.write(b)
	showHolders(b, "Holders", d.Holders)
	if len(d.Covering) > 0 {
		showHolders(b, "Covered by", d.Covering)
	}
	fmt.Fprintf(b, "\nWaiters: %s\n", orNobody(d.WaitersTotal))
	if len(d.Waiters) == 0 {
		return
	}
	t := table{{"  #", "OWNER", "MODE", "PATH", "TOKEN", "WAITING", "GIVES UP IN", "WHO"}}
	for _, w := range d.Waiters {
		t.add(fmt.Sprintf("  %d", w.Position), visible(w.Owner), w.Mode, visible(w.Path), tokenText(w.FencingToken),
			since(w.Since),
			within(w.ExpiresInMillis), holderLine(w.Host, w.PID, w.Command, w.Labels))
	}
	t.write(b)
	if n := d.WaitersTotal - uint64(len(d.Waiters)); n > 0 && n < d.WaitersTotal {
		fmt.Fprintf(b, "  and %d more; see --waiters\n", n)
	}
}

func showHolders(b *bytes.Buffer, title string, locks []heldLock) {
	fmt.Fprintf(b, "\n%s: %s\n", title, orNobody(uint64(len(locks))))
	if len(locks) == 0 {
		return
	}
	t := table{{"  OWNER", "MODE", "PATH", "TOKEN", "SINCE", "EXPIRES IN", "WHO"}}
	for _, l := range locks {
		t.add("  "+visible(l.Owner), l.how(), visible(l.Path), l.token(), since(l.Since), within(l.ExpiresInMillis),
			holderLine(l.Host, l.PID, l.Command, l.Labels))
	}
	t.write(b)
}

func orNobody(n uint64) string {
	if n == 0 {
		return "nobody"
	}
	return fmt.Sprint(n)
}
