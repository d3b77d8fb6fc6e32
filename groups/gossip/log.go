package gossip

import (
	"bytes"
	"context"
	"log"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// listLog passes on memberlist's messages. What matters to people (who comes and goes,
// who is refused) this package says itself, so most of it is for debugging.
type listLog struct {
	log    *slog.Logger
	limit  *Limiter    // of warnings, by kind and peer
	silent atomic.Bool // closing: what fails now fails for that
	secure bool        // over TLS, so without UDP
	udp    struct {    // how often noUDP was said, in the last minute or so
		sync.Mutex
		times int
		since time.Time
	}
}

// noUDPTimes is how often in a minute noUDP has to be said to mean anything: while a node
// that was paused or cut off comes back, a probe or two are answered over TCP alone.
const noUDPTimes = 5

// lasts says that noUDP was said often enough.
func (l *listLog) lasts() bool {
	l.udp.Lock()
	defer l.udp.Unlock()
	if time.Since(l.udp.since) > time.Minute {
		l.udp.since, l.udp.times = time.Now(), 0
	}
	l.udp.times++
	return l.udp.times >= noUDPTimes
}

func (l *listLog) logger() *log.Logger { return log.New(l, "", 0) }

// otherKey are the words of memberlist by which a message is known to be encrypted
// with another key.
const otherKey = "no installed keys could decrypt"

// foreign are the words of memberlist by which a message is known to come from
// somebody without the key, or from no gossiping node at all.
var foreign = []string{
	otherKey,
	"unsupported encryption version",
	"payload is too small to decrypt",
	"cannot decrypt empty payload",
	"remote state is not encrypted",
	"remote node state is larger than limit",
	"unacceptable label",
	"label header",
	"cannot decode label",
	errStreamTooLong.Error(),
	errUnread.Error(),
}

// noUDP are the words of a message that means what it says without TLS alone.
const noUDP = "UDP probes failed, network may be misconfigured"

// loud are the words of other messages that people must see.
var loud = []string{
	noUDP,
	"handler queue full",
	"Too many pending push/pull requests",
}

// Write takes one message: "[LEVEL] memberlist: text".
func (l *listLog) Write(p []byte) (int, error) {
	line := string(bytes.TrimSpace(p))
	if i := strings.Index(line, "memberlist: "); i >= 0 {
		line = line[i+len("memberlist: "):]
	}
	level := slog.LevelDebug
	if !l.silent.Load() {
		if containsAny(line, foreign) {
			peer := sender(line)
			if l.limit.Allow("foreign" + peer) {
				l.log.Warn("refused gossip of a peer that does not have this cluster's internal_auth_token, or is "+
					"no pathlockd node", "peer", peer)
			}
		} else if containsAny(line, loud) && (!strings.Contains(line, noUDP) || !l.secure && l.lasts()) &&
			l.limit.Allow(line) {
			level = slog.LevelWarn
		}
	}
	l.log.Log(context.Background(), level, "gossip", "message", line)
	return len(p), nil
}

// warn tells of a peer that does wrong, once in a while for each key.
func (l *listLog) warn(key, what, peer string, why error) {
	if !l.silent.Load() && l.limit.Allow(key) {
		l.log.Warn(what, "peer", peer, "why", why)
	}
}

func (l *listLog) debug(what, peer string, why error) {
	l.log.Debug(what, "peer", peer, "why", why)
}

func containsAny(line string, words []string) bool {
	for _, w := range words {
		if strings.Contains(line, w) {
			return true
		}
	}
	return false
}

// sender is the host in a message's "from=host:port". Ports of clients change with
// each connection.
func sender(line string) string {
	_, rest, ok := strings.Cut(line, "from=")
	if !ok {
		return "unknown"
	}
	addr, _, _ := strings.Cut(rest, " ")
	if host, _, err := net.SplitHostPort(addr); err == nil {
		return host
	}
	return addr
}

// hostOf is the host of a connection's other end.
func hostOf(a net.Addr) string {
	if host, _, err := net.SplitHostPort(a.String()); err == nil {
		return host
	}
	return a.String()
}
