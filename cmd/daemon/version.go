package daemon

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// Set by releases:
//
//	go build -ldflags "-X github.com/pathlockd/pathlockd/cmd/daemon.version=v1.2.3
//	                   -X github.com/pathlockd/pathlockd/cmd/daemon.commit=abc123"
var version, commit string

// Version is this build's version: that of the release, or of the module as it was
// installed, or "devel".
func Version() string {
	if version != "" {
		return version
	}
	if b, ok := debug.ReadBuildInfo(); ok && b.Main.Version != "" && b.Main.Version != "(devel)" {
		return b.Main.Version
	}
	return "devel"
}

// revision is the commit that was built, "unknown" when that was not recorded.
func revision() string {
	if commit != "" {
		return commit
	}
	rev, modified := "", ""
	if b, ok := debug.ReadBuildInfo(); ok {
		for _, s := range b.Settings {
			switch {
			case s.Key == "vcs.revision":
				rev = s.Value
			case s.Key == "vcs.modified" && s.Value == "true":
				modified = ", modified"
			}
		}
	}
	if rev == "" {
		return "unknown"
	}
	return rev[:min(len(rev), 12)] + modified
}

// VersionLine is what --version prints.
func VersionLine(program string) string {
	return fmt.Sprintf("%s %s (commit %s, %s %s/%s)", program, Version(), revision(), runtime.Version(), runtime.GOOS,
		runtime.GOARCH)
}
