package cli

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// Set by releases, to the same values as those of pathlockd (cmd/daemon). They are
// not shared with it, because the server and its storage would come with them:
//
//	go build -ldflags "-X github.com/pathlockd/pathlockd/cmd/cli.version=v1.2.3
//	                   -X github.com/pathlockd/pathlockd/cmd/cli.commit=abc123"
var version, commit string

// Version is this build's version: that of the release, or of the module as it was
// installed, or "devel".
func Version() string {
	if b, ok := debug.ReadBuildInfo(); ok && version == "" && b.Main.Version != "(devel)" {
		return cmp.Or(b.Main.Version, "devel")
	}
	return cmp.Or(version, "devel")
}

// revision is the commit that was built, "unknown" when that was not recorded.
func revision() string {
	rev := commit
	if b, ok := debug.ReadBuildInfo(); ok && rev == "" {
		for _, s := range b.Settings {
			if s.Key == "vcs.revision" {
				rev = s.Value[:min(len(s.Value), 12)]
			}
		}
	}
	return cmp.Or(rev, "unknown")
}

// versionData is the data of version.
type versionData struct {
	Version string `json:"version"`
	Commit  string `json:"commit"`
	Go      string `json:"go"`
	System  string `json:"system"`
}

// versionCmd makes the command version.
func (a *app) versionCmd() *cobra.Command {
	return &cobra.Command{
		Use: "version", GroupID: groupServer, Short: "Show the version of pathlock", Args: takes(),
		Long:    "Show the version of this command. It asks no server.",
		Example: "  pathlock version",
		RunE: body(func(context.Context, []string) error {
			d := &versionData{Version(), revision(), runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH}
			return a.answer(d, func(b *bytes.Buffer) {
				fmt.Fprintf(b, "pathlock %s (commit %s, %s %s)\n", d.Version, d.Commit, d.Go, d.System)
			})
		}),
	}
}
