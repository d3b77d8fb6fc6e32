package naive

import (
	"fmt"
	"reflect"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/wire"
)

// What reads of a view answer, held against the model of its group as of the same instant.

// SeesPath compares everything about one path.
func (m *Model) SeesPath(v *engine.View, ns, path string) error {
	if got, want := v.Inspect(ns, path), m.inspect(ns, path); !reflect.DeepEqual(got, want) {
		return fmt.Errorf("inspect %s in %s:\n got %+v %+v\nwant %+v %+v", path, ns, got, *got.List, want, *want.List)
	}
	got, want := v.Describe(ns, path, wire.MaxDescribePage), m.describe(ns, path)
	sameTwins(got.List.Waiters, want.List.Waiters)
	if !reflect.DeepEqual(got, want) {
		return fmt.Errorf("describe %s in %s:\n got %+v %+v\nwant %+v %+v", path, ns, got, *got.List, want, *want.List)
	}
	const few = 2
	if len(want.List.Waiters) > few {
		want.List.Waiters = want.List.Waiters[:few]
		if got = v.Describe(ns, path, few); !reflect.DeepEqual(got, want) {
			return fmt.Errorf("describe %s briefly:\n got %+v %+v\nwant %+v %+v", path, got, *got.List,
				want, *want.List)
		}
	}
	return nil
}

// sameTwins brings the two wishes of a request that wants to read and to write a
// path into the order they are shown in, which is open.
func sameTwins(got, want []wire.WaiterInfo) {
	for i := 0; i+1 < min(len(got), len(want)); i++ {
		a, b := &want[i], &want[i+1]
		twins := a.Owner == b.Owner && a.Token == b.Token && a.Open == b.Open && a.SinceUnixMillis == b.SinceUnixMillis
		if twins && a.Mode != b.Mode && got[i].Mode == b.Mode {
			a.Mode, b.Mode = b.Mode, a.Mode
		}
	}
}

// SeesOwner compares what an owner holds in domains, with how long its leases last, whether it waits, and
// for whom by its wait edge.
func (m *Model) SeesOwner(v *engine.View, owner string, domains []string) error {
	alive, locks := v.List(owner, domains)
	if a, l := m.list(owner, domains); alive != a || !reflect.DeepEqual(locks, l) || v.Alive(owner, domains) != a {
		return fmt.Errorf("list %s %v:\n got %v %+v\nwant %v %+v", owner, domains, alive, locks, a, l)
	}
	if got, want := v.Waits(owner), m.waiting(owner); got != want {
		return fmt.Errorf("waits %s: got %v, want %v", owner, got, want)
	}
	blocker, path, reason, ok := v.Edge(owner)
	if b, p, r, o := m.edge(owner); blocker != b || path != p || reason != r || ok != o {
		return fmt.Errorf("edge %s: got %s %s %v %v, want %s %s %v %v", owner, blocker, path, reason, ok, b, p, r, o)
	}
	return nil
}

// SeesPolicy compares which algorithm a namespace has, and whether somebody chose it.
func (m *Model) SeesPolicy(v *engine.View, ns string) error {
	alg, chosen := v.Policy(ns)
	if a, c := m.algorithm(ns); alg != a || chosen != c {
		return fmt.Errorf("policy of %s: got %v %v, want %v %v", ns, alg, chosen, a, c)
	}
	return nil
}
