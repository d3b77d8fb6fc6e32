package cli

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	pathlockd "github.com/pathlockd/pathlockd/clients/go"
)

// healthData is the data of health.
type healthData struct {
	Node       string `json:"node"`
	Detail     string `json:"detail"`
	TookMillis int64  `json:"took_ms"`
}

// healthCmd makes the command health.
func (a *app) healthCmd() *cobra.Command {
	return &cobra.Command{
		Use: "health", GroupID: groupServer, Short: "Ask whether the server can serve", Args: takes(),
		Long:    "Ask a server whether it can serve: it makes a round through the replicated log. Exit code 69 says no.",
		Example: "  pathlock health --addr locks.example.com:50050",
		RunE: body(func(ctx context.Context, _ []string) error {
			return a.asking(ctx, func(ctx context.Context, c *pathlockd.Client) error {
				began := time.Now()
				ok, detail, err := c.Health(ctx)
				if err != nil {
					return err
				}
				data := &healthData{c.Server(), detail, time.Since(began).Milliseconds()}
				if !ok {
					return &failure{exit: ExitUnavailable, code: codeUnhealthy, message: "unhealthy: " +
						visible(data.Node) + ": " + detail, details: data}
				}
				return a.answer(data, func(b *bytes.Buffer) {
					fmt.Fprintf(b, "ok: %s: %s (%dms)\n", visible(data.Node), detail, data.TookMillis)
				})
			})
		}),
	}
}
