package daemon

import (
	"fmt"
	"strings"
	"time"
)

// banner is what a person at a terminal is told once the daemon serves.
func (d *Daemon) banner() string {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "  %-8s "+format+"\n", append([]any{name}, args...)...)
	}
	fmt.Fprintf(&b, "\npathlockd %s is ready (%v)\n\n", Version(), d.took.Round(10*time.Millisecond))
	line("data", "%s", absolute(d.cfg.DataDir))
	if s := d.node.Stats(); s.Locks+s.Waiting > 0 {
		line("", "%d locks held, %d paths waited for", s.Locks, s.Waiting)
	}
	at := ""
	if d.unix != "" {
		line("native", "unix:%s", d.unix)
		at = " --addr unix:" + d.unix
	}
	if d.addr != "" {
		line("native", "%s", d.addr)
		if at = " --addr " + d.addr; d.addr == defaults.NativeListen {
			at = ""
		}
	}
	if d.faces.addr != "" {
		line("gRPC", "%s", d.faces.addr)
	}
	if d.faces.webAddr != "" {
		line("web", "https://%s/v1/", d.faces.webAddr)
	}
	if d.faces.h3Addr != "" {
		line("HTTP/3", "https://%s/v1/", d.faces.h3Addr)
	}
	if d.faces.certs != nil && d.cfg.TLSCertPath == "" {
		line("", "its certificate: %s", absolute(d.faces.certs.CertFile()))
	}
	fmt.Fprintf(&b, "\n  Take your first lock:  bin/pathlock acquire tenant:/acme/projects/42 --ttl 30s%s\n", at)
	fmt.Fprintf(&b, "  Is it healthy?         pathlockd --health-check%s\n", at)
	b.WriteString("  Stop:                  Ctrl-C; locks and queues are kept in the data directory\n\n")
	return b.String()
}
