package check

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
)

// project loads the compose file as docker compose does: against its schema, with what
// it refers to resolved.
func project(env ...string) (*types.Project, error) {
	opts, err := cli.NewProjectOptions([]string{"../compose/compose.yaml"}, cli.WithEnv(env),
		cli.WithInterpolation(true), cli.WithConsistency(true))
	if err != nil {
		return nil, err
	}
	return opts.LoadProject(context.Background())
}

func TestCompose(t *testing.T) {
	if _, err := project(); err == nil || !strings.Contains(err.Error(), "PATHLOCKD_INTERNAL_AUTH_TOKEN") ||
		!strings.Contains(err.Error(), "32 bytes") {
		t.Errorf("without a secret: %v", err)
	}
	p, err := project("PATHLOCKD_INTERNAL_AUTH_TOKEN=" + secret)
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Services) != 3 || len(p.Volumes) != 3 {
		t.Fatalf("%d services, %d volumes", len(p.Services), len(p.Volumes))
	}
	ports, founders := make(map[string]string), 0
	for name, s := range p.Services {
		env := make(map[string]string)
		for key, value := range s.Environment {
			if value == nil {
				t.Errorf("%s: %s has no value", name, key)
				continue
			}
			env[key] = *value
		}
		checkEnvironment(t, name, env)
		if env["PATHLOCKD_NODE_ID"] != name || s.Hostname != name || env["PATHLOCKD_INTERNAL_AUTH_TOKEN"] != secret {
			t.Errorf("%s: node %s on host %s", name, env["PATHLOCKD_NODE_ID"], s.Hostname)
		}
		for _, key := range []string{"PUBLIC_ADDR", "RAFT_ADDR", "LINK_ADDR", "GOSSIP_ADVERTISE_ADDR"} {
			if !strings.Contains(env["PATHLOCKD_"+key], name+":") {
				t.Errorf("%s: PATHLOCKD_%s is %s", name, key, env["PATHLOCKD_"+key])
			}
		}
		if !strings.Contains(env["PATHLOCKD_SEED_NODES"], name+":7946") {
			t.Errorf("%s is no seed", name)
		}
		if env["PATHLOCKD_BOOTSTRAP"] == "true" {
			founders++
		}
		if len(s.Volumes) != 1 || s.Volumes[0].Target != "/var/lib/pathlockd" {
			t.Errorf("%s keeps its data in %v", name, s.Volumes)
		}
		for _, port := range s.Ports {
			if other := ports[port.Published]; other != "" || port.HostIP != "127.0.0.1" {
				t.Errorf("%s: port %s of %s, also of %s", name, port.Published, port.HostIP, other)
			}
			ports[port.Published] = name
		}
		if s.Build == nil {
			t.Errorf("%s is not built", name)
			continue
		}
		if _, err := os.Stat(filepath.Join(s.Build.Context, s.Build.Dockerfile)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if founders != 1 {
		t.Errorf("%d nodes found a cluster", founders)
	}
}

// TestDockerfile: what it copies is there, and it builds from what it names.
func TestDockerfile(t *testing.T) {
	text := read(t, "../Dockerfile")
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) < 2 {
			continue
		}
		switch words[0] {
		case "FROM":
			if strings.HasSuffix(words[1], ":latest") || !strings.Contains(words[1], ":") {
				t.Errorf("%s names no version", words[1])
			}
		case "USER":
			if words[1] != "65532:65532" {
				t.Errorf("runs as %s", words[1])
			}
		}
	}
	goVersion := ""
	for line := range strings.Lines(read(t, "../../go.mod")) {
		if v, ok := strings.CutPrefix(line, "go "); ok {
			goVersion = strings.TrimSpace(v)
		}
	}
	if minor := goVersion[:strings.LastIndex(goVersion, ".")]; !strings.Contains(text, "FROM golang:"+minor+
		" AS build") {
		t.Errorf("does not build with Go %s, as go.mod says", minor)
	}
	for line := range strings.Lines(read(t, "../Dockerfile.dockerignore")) {
		if kept, ok := strings.CutPrefix(strings.TrimSpace(line), "!"); ok {
			if _, err := os.Stat(filepath.Join("../..", kept)); err != nil {
				t.Errorf("Dockerfile.dockerignore: %v", err)
			}
		}
	}
}
