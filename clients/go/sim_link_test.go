package pathlockd

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"time"
)

// simProxy stands between one client and the servers, and does to its connections what
// proxies, balancers and networks do.
type simProxy struct {
	s    *simServer
	name string

	mu    sync.Mutex
	rnd   *rand.Rand
	dead  bool            // nobody listens there any more
	mute  map[string]bool // nodes to which connections are taken, and nothing comes of them
	delay time.Duration
	links map[*simLink]struct{}
}

// simLink is one connection through a proxy. Each side sees the end of its own half.
type simLink struct {
	p              *simProxy
	client, server net.Conn // the proxy's ends

	mu   sync.Mutex
	lost [2]bool // what goes to the server, and what goes to the client, is swallowed
}

// Directions of a link.
const (
	toServer = 0
	toClient = 1
)

var errRefused = errors.New("connection refused")

// dial is for WithDialer.
func (p *simProxy) dial(ctx context.Context, _, addr string) (net.Conn, error) {
	name, _, _ := strings.Cut(addr, ":")
	var node *simNode
	for _, n := range p.s.nodes {
		if n.name == name {
			node = n
		}
	}
	time.Sleep(time.Millisecond)
	p.mu.Lock()
	dead, mute := p.dead, p.mute[name]
	p.mu.Unlock()
	p.s.mu.Lock()
	up := node != nil && node.up
	p.s.mu.Unlock()
	switch {
	case dead || !up:
		return nil, errRefused
	case ctx.Err() != nil:
		return nil, ctx.Err()
	}
	mine, client := net.Pipe()
	server, nodes := net.Pipe()
	l := &simLink{p: p, client: client, server: server}
	if mute {
		l.lost = [2]bool{true, true}
	} else {
		go node.accept(nodes)
	}
	p.mu.Lock()
	p.links[l] = struct{}{}
	p.mu.Unlock()
	go l.pump(client, server, toServer)
	go l.pump(server, client, toClient)
	return mine, nil
}

// chunk is bytes on their way.
type chunk struct {
	b  []byte
	at time.Time
}

// pump carries bytes from one half to the other, and the end of one half to the other,
// unless they are lost.
func (l *simLink) pump(from, to net.Conn, dir int) {
	way := make(chan chunk, 1<<16)
	go func() {
		for c := range way {
			time.Sleep(time.Until(c.at))
			if l.loses(dir) {
				continue
			}
			if _, err := to.Write(c.b); err != nil {
				break
			}
			if dir == toClient {
				l.p.s.heard(l.p.name, c.b)
			}
		}
		for range way { // nobody takes it any more
		}
	}()
	buf := make([]byte, 4096)
	var last time.Time
	for {
		n, err := from.Read(buf)
		if n > 0 {
			l.p.mu.Lock()
			at := time.Now().Add(time.Duration(l.p.rnd.IntN(1000))*time.Microsecond + l.p.delay)
			l.p.mu.Unlock()
			if at.Before(last) {
				at = last
			}
			last = at
			way <- chunk{append([]byte(nil), buf[:n]...), at}
		}
		if err != nil {
			break
		}
	}
	close(way)
	from.Close()
	if !l.loses(dir) {
		time.Sleep(time.Until(last))
		to.Close()
		return
	}
	time.Sleep(simSilent) // a server gives up a client that acknowledges nothing
	to.Close()
}

func (l *simLink) loses(dir int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lost[dir]
}

// lose has what goes one way, or both, be swallowed from now on.
func (l *simLink) lose(dirs ...int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, d := range dirs {
		l.lost[d] = true
	}
	if l.lost[toClient] { // the server hears of no acknowledgement
		time.AfterFunc(simSilent, func() { l.server.Close() })
	}
}

// end closes halves of a link.
func (l *simLink) end(server, client bool) {
	if server {
		l.server.Close()
	}
	if client {
		l.client.Close()
	}
}

// each calls f with every link there is.
func (p *simProxy) each(f func(*simLink)) {
	p.mu.Lock()
	all := make([]*simLink, 0, len(p.links))
	for l := range p.links {
		all = append(all, l)
	}
	clear(p.links)
	p.mu.Unlock()
	for _, l := range all {
		f(l)
	}
}

// faults are what a proxy does to its connections, and to those that are to come.
var faults = []struct {
	name string
	do   func(p *simProxy)
}{
	{"cuts its connections", func(p *simProxy) { p.each(func(l *simLink) { l.end(true, true) }) }},
	{"cuts one", func(p *simProxy) { p.one(func(l *simLink) { l.end(true, true) }) }},
	{"drops the servers' side of one", func(p *simProxy) {
		p.one(func(l *simLink) { l.lose(toServer, toClient); l.end(true, false) })
	}},
	{"drops the client's side of one", func(p *simProxy) {
		p.one(func(l *simLink) { l.lose(toServer, toClient); l.end(false, true) })
	}},
	{"swallows all of one", func(p *simProxy) { p.one(func(l *simLink) { l.lose(toServer, toClient) }) }},
	{"drops the servers' side alone", func(p *simProxy) {
		p.each(func(l *simLink) { l.lose(toServer, toClient); l.end(true, false) })
	}},
	{"drops the client's side alone", func(p *simProxy) {
		p.each(func(l *simLink) { l.lose(toServer, toClient); l.end(false, true) })
	}},
	{"swallows what goes to the servers", func(p *simProxy) { p.each(func(l *simLink) { l.lose(toServer) }) }},
	{"swallows what goes to the client", func(p *simProxy) { p.each(func(l *simLink) { l.lose(toClient) }) }},
	{"swallows everything", func(p *simProxy) { p.each(func(l *simLink) { l.lose(toServer, toClient) }) }},
	{"dies", func(p *simProxy) {
		p.for_(func(yes bool) { p.dead = yes })
		p.each(func(l *simLink) { l.end(true, true) })
	}},
	{"is slow", func(p *simProxy) {
		d := p.draw(400 * time.Millisecond)
		p.for_(func(yes bool) {
			if p.delay = 0; yes {
				p.delay = d
			}
		})
	}},
	{"has no way to a node", func(p *simProxy) {
		n := p.s.nodes[p.pick(len(p.s.nodes))].name
		p.for_(func(yes bool) { p.mute[n] = yes })
		p.each(func(l *simLink) { l.lose(toServer, toClient); l.end(p.pick(2) == 0, false) })
	}},
}

func (p *simProxy) pick(n int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.rnd.IntN(n)
}

func (p *simProxy) draw(most time.Duration) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Duration(p.rnd.Int64N(int64(most)))
}

// for_ has something be so for a while.
func (p *simProxy) for_(set func(yes bool)) {
	d := p.draw(3 * time.Second)
	p.mu.Lock()
	set(true)
	p.mu.Unlock()
	time.AfterFunc(d, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		set(false)
	})
}

// trouble makes faults until the context ends.
func (p *simProxy) trouble(ctx context.Context, pace time.Duration) {
	for {
		select {
		case <-time.After(p.draw(pace)):
		case <-ctx.Done():
			return
		}
		f := &faults[p.pick(len(faults))]
		p.s.mu.Lock()
		p.s.note("the proxy of %s %s", p.name, f.name)
		p.s.mu.Unlock()
		f.do(p)
	}
}

// one calls f with one of the links.
func (p *simProxy) one(f func(*simLink)) {
	p.mu.Lock()
	var all []*simLink
	for l := range p.links {
		all = append(all, l)
	}
	if len(all) == 0 {
		p.mu.Unlock()
		return
	}
	l := all[p.rnd.IntN(len(all))]
	delete(p.links, l)
	p.mu.Unlock()
	f(l)
}

// aNode is one node that is ready at once, and a proxy to it for a client c.
func aNode() (*simServer, *simProxy) {
	s := newSimServer(rand.New(rand.NewPCG(1, 1)), 1)
	s.rate = 1
	s.nodes[0].limits = simLimits
	return s, newSimProxy(s, "c", 2)
}

// newSimProxy makes the proxy of a client.
func newSimProxy(s *simServer, name string, seed uint64) *simProxy {
	p := &simProxy{s: s, name: name, rnd: rand.New(rand.NewPCG(seed, seed))}
	p.mute, p.links = make(map[string]bool), make(map[*simLink]struct{})
	return p
}

// late has all that goes through the proxy take so long from now on.
func (p *simProxy) late(d time.Duration) {
	p.mu.Lock()
	p.delay = d
	p.mu.Unlock()
}

// dies has it take no connections from now on, or take them again; those there are stay.
func (p *simProxy) dies(yes bool) {
	p.mu.Lock()
	p.dead = yes
	p.mu.Unlock()
}
