package datadir

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/pathlockd/pathlockd/groups/gossip"
)

// peersFile holds who the other nodes were when they were last seen, so that a node
// that starts again finds them without seeds, and knows the names of those that are
// away.
const peersFile = "peers.json"

// maxPeers bounds the nodes in the file, and the disks beside them of which only the name
// is kept. Further nodes are not written down: this node finds them through those that are.
const maxPeers = 4096

// Peer is another node as it was seen last.
type Peer struct {
	Node   string `json:"node_id"`
	Gossip string `json:"gossip_addr"`
	// Formats are the lowest and the highest that it works with, as it told last; 0 and
	// 0 in a file of a build that did not write them down.
	Formats [2]uint32 `json:"formats"`
	Raft    string    `json:"raft_addr,omitempty"` // its host may be what its certificate is for
}

// Peers is the other nodes, by raft host id. Of a disk that was replaced, or whose node was
// forgotten, there is the name alone: until its replicas are removed, whose they are
// matters, also after a restart.
type Peers struct {
	path string
	By   map[string]Peer
}

// Load reads the file of a data directory, if there is one.
func (p *Peers) Load(dir string) error {
	p.path, p.By = filepath.Join(dir, peersFile), make(map[string]Peer)
	b, err := os.ReadFile(p.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = json.Unmarshal(b, &p.By)
	}
	if err != nil {
		return fmt.Errorf("read %s: %w (it only helps to find the other nodes: delete it and set seed_nodes)",
			p.path, err)
	}
	return nil
}

// Gossip lists where the others were, but for those that are seeds already.
func (p *Peers) Gossip(seeds []string) (addrs []string) {
	for _, host := range slices.Sorted(maps.Keys(p.By)) {
		if a := p.By[host].Gossip; a != "" && !slices.Contains(seeds, a) && len(addrs) < 16 {
			addrs = append(addrs, a)
		}
	}
	return addrs
}

// At names the node that gossips at an address, "" when none is known to.
func (p *Peers) At(addr string) string {
	for _, x := range p.By {
		if x.Gossip == addr {
			return x.Node
		}
	}
	return ""
}

// Names lists whose names those of the nodes are, by node id. Disks that were replaced
// have none, nor have nodes that were forgotten.
func (p *Peers) Names() map[string]gossip.Holder {
	names := make(map[string]gossip.Holder, len(p.By))
	for host, x := range p.By {
		if x.Gossip != "" {
			names[x.Node] = gossip.Holder{HostID: host, RaftAddr: x.Raft}
		}
	}
	return names
}

// Hosts lists the raft addresses that nodes had, by gossip address.
func (p *Peers) Hosts() map[string]string {
	hosts := make(map[string]string, len(p.By))
	for _, x := range p.By {
		if x.Gossip != "" {
			hosts[x.Gossip] = x.Raft
		}
	}
	return hosts
}

// Take takes in who is seen. It answers what is to be written down, nil if there is no
// news.
func (p *Peers) Take(seen []gossip.Sighting, self string) (*File, error) {
	news, nodes := false, 0
	for _, x := range p.By {
		if x.Gossip != "" {
			nodes++
		}
	}
	for _, s := range seen {
		now := Peer{s.NodeID, s.GossipAddr, [2]uint32{s.FormatMin, s.FormatMax}, s.RaftAddr}
		old := p.By[s.HostID]
		if s.HostID == self || old == now {
			continue
		}
		if s.Alive { // if its disk was replaced, what that held is lost
			replaced := p.strip(s.NodeID, s.HostID)
			nodes, news = nodes-replaced, news || replaced > 0
		}
		if old.Gossip == "" {
			if nodes >= maxPeers {
				continue
			}
			nodes++
		}
		p.By[s.HostID], news = now, true
	}
	if !news {
		return nil, nil
	}
	return p.File()
}

// File is what is to be written down.
func (p *Peers) File() (*File, error) {
	b, err := json.MarshalIndent(p.By, "", "  ")
	if err != nil {
		return nil, err
	}
	return &File{p.path, append(b, '\n')}, nil
}

// File is what a file is to hold.
type File struct {
	path string
	b    []byte
}

// Write writes it, whole or not at all.
func (f *File) Write() error {
	if f == nil {
		return nil
	}
	if err := WriteFileSync(f.path+".new", f.b); err != nil {
		return err
	}
	return os.Rename(f.path+".new", f.path)
}

// Forget takes a node out, and answers whether it was there.
func (p *Peers) Forget(node string) bool { return p.strip(node, "") > 0 }

// strip leaves nothing but the name of a node's disks but one, and answers of how many.
func (p *Peers) strip(node, but string) (disks int) {
	for host, x := range p.By {
		if x.Node == node && host != but && x.Gossip != "" {
			p.By[host] = Peer{Node: node}
			disks++
		}
	}
	if disks == 0 {
		return 0
	}
	names := 0
	for host, x := range p.By {
		if x.Gossip != "" {
			continue
		}
		if names++; names > maxPeers {
			delete(p.By, host)
		}
	}
	return disks
}

// NodeOf names the node of a raft host id, "" for one that is not known.
func (p *Peers) NodeOf(host string) string { return p.By[host].Node }
