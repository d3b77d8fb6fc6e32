package history

import "time"

// Cost is what one kind of request took, asked where there is much that it must not pay
// for, and where there is little.
type Cost struct {
	Kind  string `json:"kind"`
	Pairs []Pair `json:"pairs,omitempty"`
}

// Pair is how long the same took in the two places: the shorter of two times each, taken in
// turns that began where a coin said.
type Pair struct {
	At     time.Duration `json:"at"` // of its episode: it may be an earlier one
	Much   time.Duration `json:"much"`
	Little time.Duration `json:"little"`
}

// Ratio is how many times as long it took among much.
func (p *Pair) Ratio() float64 { return float64(p.Much) / float64(max(p.Little, 1)) }
