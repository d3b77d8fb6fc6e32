package gossip

import (
	"net"
	"net/netip"
	"slices"
	"sync"
)

// What a certificate of a node may be for. Gossip dials addresses; certificates may name
// hosts. The links dial hosts, those in the records: so what a record tells is taken for a
// name here as well.

// places is which addresses the seeds' names stood for last, at most maxSeedAddresses of
// each of maxSeeds and of those that are known from before.
type places struct {
	mu   sync.Mutex
	seed map[string][]netip.AddrPort
}

func (p *places) are(seed string, addrs []netip.AddrPort) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.seed == nil {
		p.seed = make(map[string][]netip.AddrPort)
	}
	p.seed[seed] = addrs
}

// at lists the seeds that stand for an address.
func (p *places) at(addr netip.AddrPort) (list []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for seed, addrs := range p.seed {
		if slices.Contains(addrs, addr) {
			list = append(list, seed)
		}
	}
	return list
}

// hosts lists by which names this node knows whoever gossips at an address: the address,
// the seeds that stand for it, and the hosts of raft_addr and link_addr that it told now
// or before this start.
func (m *Members) hosts(addr string) []string {
	at, err := netip.ParseAddrPort(addr)
	if err != nil {
		return hostsOf(addr)
	}
	more := append(m.places.at(at), m.table.hosts(at)...)
	if known := m.config.Hosts[addr]; known != "" {
		more = append(more, known)
	}
	return hostsOf(addr, more...)
}

// hostsOf lists the hosts of addresses, each once.
func hostsOf(addr string, more ...string) (list []string) {
	for _, a := range append([]string{addr}, more...) {
		host, _, err := net.SplitHostPort(a)
		if err != nil {
			host = a
		}
		if host != "" && !slices.Contains(list, host) {
			list = append(list, host)
		}
	}
	return list
}
