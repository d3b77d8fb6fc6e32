package check

import (
	"strings"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/bench/lab/history"
	"github.com/pathlockd/pathlockd/wire"
)

// TestEars: what a subscriber must have heard, and what nobody can say.
func TestEars(t *testing.T) {
	const ns = "lab:/n"
	at := func(i uint64) wire.Position { return wire.Position{Log: 2, Index: i, Ordinal: 1} }
	grant := func(i uint64, token int64) history.Heard {
		return history.Heard{Time: time.Duration(i) * time.Second, Kind: wire.EventGrant, Owner: "a", Namespace: ns,
			Token: token, At: at(i)}
	}
	gap := func(s int) history.Heard { return history.Heard{Time: time.Duration(s) * time.Second, Gap: true} }
	elsewhere := grant(5, 7)
	elsewhere.Namespace = "lab:/other"
	stranger := grant(5, 7)
	stranger.Owner = "b"
	for name, one := range map[string]struct {
		op   func(*history.Op)
		ear  func(*history.Ear)
		want string
	}{
		"heard":     {nil, func(x *history.Ear) { x.Heard = []history.Heard{grant(5, 7)} }, ""},
		"not heard": {nil, nil, "never heard of a grant"},
		"another token": {nil, func(x *history.Ear) { x.Heard = []history.Heard{grant(5, 8)} },
			"never heard of a grant"},
		"another namespace": {nil, func(x *history.Ear) { x.Heard = []history.Heard{elsewhere} },
			"never heard of a grant"},
		"gap since": {nil, func(x *history.Ear) { x.Heard = []history.Heard{gap(6)} }, ""},
		"gap before": {nil, func(x *history.Ear) { x.Heard = []history.Heard{gap(1)} },
			"never heard of a grant"},
		"cut short":        {nil, func(x *history.Ear) { x.Whole = false }, ""},
		"subscribed later": {nil, func(x *history.Ear) { x.From = 3 * time.Second }, ""},
		"another era":      {nil, func(x *history.Ear) { x.Era = 1 }, ""},
		"asked twice":      {func(o *history.Op) { o.Asks = 2 }, nil, ""},
		"granted at once":  {func(o *history.Op) { o.Placed = 0 }, nil, ""},
		"no answer": {func(o *history.Op) { o.Outcome, o.Return = history.Unknown, history.Forever },
			nil, ""},
		"polled": {func(o *history.Op) { o.Open = false }, nil, ""},
		"twice": {nil, func(x *history.Ear) { x.Heard = []history.Heard{grant(5, 7), grant(5, 7)} },
			"heard twice"},
		"twice, cut short": {nil, func(x *history.Ear) {
			x.Whole, x.Heard = false,
				[]history.Heard{grant(5, 7), grant(5, 7)}
		}, "heard twice"},
		"again after a gap": {nil, func(x *history.Ear) {
			x.Heard = []history.Heard{grant(5, 7), gap(6),
				grant(5, 7)}
		}, ""},
		"of somebody else": {nil, func(x *history.Ear) { x.Heard = []history.Heard{grant(4, 7), stranger} },
			"heard of b"},
		"at different places": {nil, func(x *history.Ear) { x.Heard = []history.Heard{grant(5, 7), grant(6, 8)} }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			op := history.Op{
				Kind: history.Acquire, Owner: "a", Namespace: ns, Paths: []string{ns + "/x"}, TTL: time.Minute,
				QueueTTL: time.Minute, Open: true, Asks: 1,
				Call: 2 * time.Second, Placed: 3 * time.Second, Return: 5 * time.Second, Outcome: history.Answered,
				Status: wire.StatusOK, Token: 7,
			}
			x := history.Ear{Owner: "a", Namespace: ns, From: time.Second, Whole: true}
			if one.op != nil {
				one.op(&op)
			}
			if one.ear != nil {
				one.ear(&x)
			}
			c := newChecker(&history.History{Ops: []history.Op{op}, Ears: []history.Ear{x}})
			c.checkEars()
			switch {
			case one.want == "" && len(c.Violations) > 0:
				t.Errorf("violations: %v", c.Violations)
			case one.want != "" && (len(c.Violations) != 1 || c.Violations[0].Promise != 6 ||
				!strings.Contains(c.Violations[0].Text, one.want)):
				t.Errorf("violations: %v, want one with %q", c.Violations, one.want)
			}
		})
	}
}
