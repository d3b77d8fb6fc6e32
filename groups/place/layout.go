package place

import (
	"cmp"
	"slices"

	"github.com/zeebo/xxh3"
)

// Layout says for each log which nodes its voters belong on, the one that should
// lead it first, the others from the best seat down.
type Layout map[uint64][]string

// Voters is how many voters a log has in a cluster of that many members: the
// largest odd number that neither the members nor the replication factor are short
// of, and none without members.
func Voters(members, factor int) int {
	n := min(members, factor)
	if n > 0 && n%2 == 0 {
		n--
	}
	return max(n, 0)
}

// Place lays logs out over nodes. It is a function of the sets of logs and nodes and
// of the factor: not of their order, of addresses, or of what was before; and it is
// part of the format of a cluster, because all its nodes must agree on it
// (TestLayoutIsPinned).
//
// With V = Voters(len(nodes), factor) it guarantees
//
//   - every log has V voters on V different nodes, and its leader among them;
//   - two nodes differ by at most one in the voters they hold: V·logs/nodes,
//     rounded down or up;
//   - two nodes differ by at most one in the logs they lead: logs/nodes, rounded
//     down or up.
//
// It is rendezvous hashing with a bound on the load. Seats are given out from the
// highest weight down, to nodes that hold less than the mean rounded down, and then
// to nodes that hold less than the mean rounded up. A node that comes or goes
// changes little: what it takes or leaves, and what the bound sends on from there
// (docs/scaling.md has the figures).
//
// It costs O(logs·nodes) memory and a sort of as many weights.
func Place(logs []uint64, nodes []string, factor int) Layout {
	logs, nodes = sorted(logs), sorted(nodes)
	voters := Voters(len(nodes), factor)
	layout := make(Layout, len(logs))
	if voters == 0 || len(logs) == 0 {
		return layout
	}
	s := newSeats(logs, nodes, voters)
	s.fill(voters * len(logs) / len(nodes))
	s.fill((voters*len(logs) + len(nodes) - 1) / len(nodes))
	for l, leader := range s.leaders() {
		s.rank(l, leader)
		for _, n := range s.of[l] {
			layout[logs[l]] = append(layout[logs[l]], nodes[n])
		}
	}
	return layout
}

// sorted is a copy without doubles, in order.
func sorted[T cmp.Ordered](in []T) []T {
	return slices.Compact(slices.Sorted(slices.Values(in)))
}

// bid is what a node offers for a log.
type bid struct {
	weight    uint64
	log, node int32
}

// seats is a layout in the making. Logs and nodes are numbered in their order.
type seats struct {
	voters int
	weight [][]uint64 // by log, node
	bids   []bid      // from the highest down
	of     [][]int    // nodes that hold each log
	load   []int      // logs that each node holds
	given  int
}

func newSeats(logs []uint64, nodes []string, voters int) *seats {
	s := &seats{
		voters: voters, weight: make([][]uint64, len(logs)), bids: make([]bid, 0, len(logs)*len(nodes)),
		of: make([][]int, len(logs)), load: make([]int, len(nodes)),
	}
	for l, log := range logs {
		s.weight[l] = make([]uint64, len(nodes))
		for n, node := range nodes {
			w := weight(log, node)
			s.weight[l][n] = w
			s.bids = append(s.bids, bid{w, int32(l), int32(n)})
		}
	}
	slices.SortFunc(s.bids, func(a, b bid) int {
		return cmp.Or(cmp.Compare(b.weight, a.weight), cmp.Compare(a.log, b.log), cmp.Compare(a.node, b.node))
	})
	return s
}

// weight is how much a node wants a log. 62 bits, so that two can be added.
func weight(log uint64, node string) uint64 { return xxh3.HashStringSeed(node, log) >> 2 }

func (s *seats) holds(log, node int) bool { return slices.Contains(s.of[log], node) }

func (s *seats) give(log, node int) {
	s.of[log] = append(s.of[log], node)
	s.load[node]++
	s.given++
}

// fill gives out seats until every node holds limit logs or every log has its
// voters.
func (s *seats) fill(limit int) {
	for _, b := range s.bids {
		l, n := int(b.log), int(b.node)
		if len(s.of[l]) < s.voters && s.load[n] < limit && !s.holds(l, n) {
			s.give(l, n)
		}
	}
	for n := range s.load {
		for s.load[n] < limit && s.given < s.voters*len(s.of) {
			s.exchange(n)
		}
	}
}

// exchange gives one more log to node n, which holds less than its limit. If n has
// all logs that lack a voter, another node hands one of its logs to n and takes one
// of those. There always is such a node: take any outside an unfinished log. If it
// holds more logs than n, one of them is a log that n does not have; if not, it
// could be given that unfinished log itself, and has been by then (fill asks the
// bids first). The exchange that costs the least weight is taken.
func (s *seats) exchange(n int) {
	lack, from, handed, best := -1, -1, -1, int64(-1<<63)
	for l := range s.of {
		if len(s.of[l]) == s.voters {
			continue
		}
		if !s.holds(l, n) {
			s.give(l, n)
			return
		}
		for m := range s.of {
			if s.holds(m, n) {
				continue
			}
			for _, a := range s.of[m] {
				gain := int64(s.weight[m][n]) + int64(s.weight[l][a]) - int64(s.weight[m][a])
				if !s.holds(l, a) && gain > best {
					lack, from, handed, best = l, a, m, gain
				}
			}
		}
	}
	s.of[handed] = slices.DeleteFunc(s.of[handed], func(a int) bool { return a == from })
	s.load[from]--
	s.given--
	s.give(handed, n)
	s.give(lack, from)
}

// rank orders the voters of a log: the leader, then by weight.
func (s *seats) rank(log, leader int) {
	voters := slices.DeleteFunc(s.of[log], func(n int) bool { return n == leader })
	slices.SortFunc(voters, func(a, b int) int {
		return cmp.Or(cmp.Compare(s.weight[log][b], s.weight[log][a]), cmp.Compare(a, b))
	})
	s.of[log] = slices.Insert(voters, 0, leader)
}
