package server_test

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/internal/testkit/server"
)

// TestProcess starts, kills, starts again on the same directory and stops.
func TestProcess(t *testing.T) {
	dir := t.TempDir()
	bin, err := server.Build(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	start := func() *server.Process {
		t.Helper()
		p, err := server.Start(ctx, bin, filepath.Join(dir, "data"), "--native_listen=127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		c, err := net.Dial("tcp", p.Addr)
		if err != nil {
			t.Fatal(err)
		}
		c.Close()
		return p
	}
	p := start()
	p.Kill()
	if _, err := net.Dial("tcp", p.Addr); err == nil {
		t.Error("a killed process serves")
	}
	p = start()
	if err := p.Stop(ctx); err != nil {
		t.Error(err)
	}
	if !strings.Contains(p.Log(), `"stopped"`) {
		t.Errorf("the log of a process that was asked to stop:\n%s", p.Log())
	}
}

// TestStartFails: what the process says is in the error.
func TestStartFails(t *testing.T) {
	dir := t.TempDir()
	bin, err := server.Build(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := server.Start(ctx, bin, dir, "--log_count=none"); err == nil ||
		!strings.Contains(err.Error(), "log_count") {
		t.Errorf("an impossible flag: %v", err)
	}
	if _, err := server.Start(ctx, os.DevNull, dir); err == nil {
		t.Error("no program started")
	}
}
