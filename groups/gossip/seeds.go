package gossip

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"time"
)

const (
	// maxSeeds is how many seeds may be named. More are refused at the start.
	maxSeeds = 64
	// maxSeedAddresses is how many addresses of a seed's name are tried; the others
	// are left out.
	maxSeedAddresses = 8
	// resolveTime bounds one look-up of a name.
	resolveTime = 3 * time.Second
)

// checkSeeds says what is wrong with the spelling of a seed.
func checkSeeds(seeds []string) error {
	if len(seeds) > maxSeeds {
		return fmt.Errorf("seed_nodes: %d seeds, the limit is %d", len(seeds), maxSeeds)
	}
	for _, s := range seeds {
		host, port, err := net.SplitHostPort(s)
		if n, bad := strconv.ParseUint(port, 10, 16); err != nil || bad != nil || n == 0 || host == "" {
			return fmt.Errorf("seed_nodes: %q must be host:port with a port from 1 to 65535", s)
		}
	}
	return nil
}

// resolve answers the addresses that a host:port stands for.
func resolve(ctx context.Context, addr string) ([]netip.AddrPort, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return nil, fmt.Errorf("port %q: %w", port, err)
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		return []netip.AddrPort{netip.AddrPortFrom(ip.Unmap(), uint16(n))}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, resolveTime)
	defer cancel()
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, err
	}
	var found []netip.AddrPort
	for _, ip := range ips[:min(len(ips), maxSeedAddresses)] {
		found = append(found, netip.AddrPortFrom(ip.Unmap(), uint16(n)))
	}
	return found, nil
}

// resolveBind answers the address to listen at, and the one to tell the others; that
// is invalid when it is the first.
func resolveBind(ctx context.Context, bind, advertise string) (listen, told netip.AddrPort, err error) {
	one := func(key, addr string) (netip.AddrPort, error) {
		if host, port, err := net.SplitHostPort(addr); err == nil && host == "" {
			addr = net.JoinHostPort("::", port)
		}
		found, err := resolve(ctx, addr)
		if err != nil {
			return netip.AddrPort{}, fmt.Errorf("%s %q: %w", key, addr, err)
		}
		for _, a := range found {
			if a.Addr().Is4() {
				return a, nil // of localhost's two, the one that everybody has
			}
		}
		return found[0], nil
	}
	if listen, err = one("gossip_addr", bind); err != nil {
		return listen, told, err
	}
	if advertise != "" {
		told, err = one("gossip_advertise_addr", advertise)
		if err == nil && told.Addr().IsUnspecified() {
			err = fmt.Errorf("gossip_advertise_addr %q must be an address that others reach", advertise)
		}
		return listen, told, err
	}
	if !listen.Addr().IsUnspecified() {
		return listen, told, nil
	}
	for _, ip := range interfaces() {
		if ip.IsPrivate() && (ip.Is4() || listen.Addr().Is6()) {
			return listen, netip.AddrPortFrom(ip, listen.Port()), nil
		}
	}
	return listen, told, fmt.Errorf("gossip_addr %q listens everywhere and the host has no private address: set "+
		"gossip_advertise_addr", bind)
}

// interfaces lists this machine's addresses.
func interfaces() []netip.Addr {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return nil
	}
	var ips []netip.Addr
	for _, a := range addrs {
		if p, err := netip.ParsePrefix(a.String()); err == nil {
			ips = append(ips, p.Addr().Unmap())
		}
	}
	return ips
}

// ownAddresses knows which addresses lead to this node.
type ownAddresses struct {
	listen, told netip.AddrPort
	machine      []netip.Addr
}

func newOwnAddresses(listen, told netip.AddrPort) *ownAddresses {
	o := &ownAddresses{listen: listen, told: told}
	if listen.Addr().IsUnspecified() {
		o.machine = interfaces()
	}
	return o
}

// others are the addresses of a name that lead to other nodes.
func (o *ownAddresses) others(addrs []netip.AddrPort) (list []netip.AddrPort) {
	local := func(a netip.AddrPort) bool {
		return a.Addr() == netip.IPv6Loopback() || a.Addr() == netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	// Of localhost's two addresses a node may listen at one: nobody else is at the other.
	twin := slices.ContainsFunc(addrs, func(a netip.AddrPort) bool { return o.is(a) && local(a) })
	for _, a := range addrs {
		if o.is(a) || twin && local(a) && a.Port() == o.listen.Port() {
			continue
		}
		list = append(list, a)
	}
	return list
}

// is says that addr is this node's. Another address of the same machine is not, when
// the node listens at one alone: somebody else may be there.
func (o *ownAddresses) is(addr netip.AddrPort) bool {
	if addr == o.listen || addr == o.told {
		return true
	}
	if addr.Port() != o.listen.Port() || !o.listen.Addr().IsUnspecified() {
		return false
	}
	if addr.Addr().IsLoopback() || addr.Addr().IsUnspecified() {
		return true
	}
	for _, ip := range o.machine {
		if ip == addr.Addr() {
			return true
		}
	}
	return false
}
