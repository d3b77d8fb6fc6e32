package cli

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	pathlockd "github.com/pathlockd/pathlockd/clients/go"
)

// heldLock is one held lock for programs.
type heldLock struct {
	Path            string            `json:"path"`
	Owner           string            `json:"owner"`
	Mode            string            `json:"mode"`
	FencingToken    int64             `json:"fencing_token"`
	Since           int64             `json:"since_unix_ms"`
	ExpiresInMillis uint64            `json:"expires_in_ms"`
	Algorithm       string            `json:"algorithm"`
	Permits         uint32            `json:"permits,omitempty"`
	Host            string            `json:"host,omitempty"`
	PID             int64             `json:"pid,omitempty"`
	Command         string            `json:"command,omitempty"`
	Labels          map[string]string `json:"labels,omitempty"`
}

// heldLockOf is a lock as the server lists it.
func heldLockOf(info *pathlockd.LockInfo) heldLock {
	l := heldLock{
		Path: info.Path, Owner: info.Owner, Mode: modeName(info.Mode), Since: info.SinceUnixMillis,
		ExpiresInMillis: info.ExpiresInMillis, Algorithm: info.Algorithm.String(), Permits: info.Permits,
	}
	if info.HasFence {
		l.FencingToken = info.Fence
	}
	m := metaOf(info.Meta)
	l.Host, l.PID, l.Command, l.Labels = m.Host, m.PID, m.Command, m.Labels
	return l
}

// token is the lock's fencing token in a table.
func (l *heldLock) token() string { return tokenText(l.FencingToken) }

func tokenText(token int64) string {
	if token == 0 {
		return "-"
	}
	return fmt.Sprint(token)
}

// how is the lock's mode in a table.
func (l *heldLock) how() string {
	if l.Permits > 0 {
		return fmt.Sprintf("1 of %d", l.Permits)
	}
	return l.Mode
}

// metaOf is what a holder says of itself; nothing when it cannot be read.
func metaOf(b []byte) pathlockd.Metadata {
	m, err := pathlockd.DecodeMetadata(b)
	if err != nil {
		return pathlockd.Metadata{}
	}
	return m
}

// holder says in a line who holds a lock, "" when that is not known.
func holder(meta []byte) string {
	m := metaOf(meta)
	return holderLine(m.Host, m.PID, m.Command, m.Labels)
}

func holderLine(host string, pid int64, command string, labels map[string]string) string {
	const most = 48
	var parts []string
	if host != "" {
		parts = append(parts, visible(host))
	}
	if pid > 0 {
		parts = append(parts, fmt.Sprintf("pid %d", pid))
	}
	s := strings.Join(parts, " ")
	if command != "" {
		if r := []rune(visible(command)); len(r) > most {
			command = string(r[:most]) + "…"
		} else {
			command = string(r)
		}
		s += ": " + command
	}
	if len(labels) > 0 {
		var all []string
		for _, k := range slices.Sorted(maps.Keys(labels)) {
			all = append(all, visible(k)+"="+visible(labels[k]))
		}
		s += " [" + strings.Join(all, " ") + "]"
	}
	return strings.TrimPrefix(s, ": ")
}
