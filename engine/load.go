package engine

import (
	"fmt"
	"strings"

	"github.com/pathlockd/pathlockd/trie"
	"github.com/pathlockd/pathlockd/wire"
)

// Load takes one row into an empty state. Rows may come in any order; Loaded
// ends them. Rows of fences are taken as well, into memory: a caller that can
// answer them from disk leaves them there.
func (s *State) Load(row, val []byte) error {
	if len(row) == 0 {
		return fmt.Errorf("engine: row without a table")
	}
	s.w.SetMark(0)
	key := string(row[1:])
	r := wire.NewReader(val)
	n := r.Array()
	read := func(fields ...func()) {
		for i := range n {
			if i < len(fields) {
				fields[i]()
			} else {
				r.Skip()
			}
		}
	}
	switch row[0] {
	case tableHold, tableShared, tableFence:
		s.loadHold(row[0], key, &r, read)
	case tableLease:
		s.loadLease(key, &r, read)
	case tableWaiter:
		s.loadWaiter(key, &r, read)
	case tablePolicy:
		p := s.policies.Insert(s.w, key, trie.None, 0)
		read(func() { p.algorithm = wire.Algorithm(r.Uint()) })
	case tableEdge:
		e := s.edges.Insert(s.w, key, 0, 0)
		read(func() { e.blocker = text(&r) }, func() { e.path = text(&r) },
			func() { e.reason = wire.Reason(r.Uint()) }, func() { e.deadline = r.Int() },
			func() { e.of = r.Uint() })
		s.edgers.add(e.of, 1)
		e.timer = s.deadlines.timer(timeEdge, key)
		s.deadlines.arm(e.timer, e.deadline)
	case tableKept:
		k := s.kept.Insert(s.w, key, 0, 0)
		read(func() { k.hash = r.Uint() }, func() { k.status = wire.Status(r.Uint()) },
			func() { k.token = r.Int() }, func() { k.seq = r.Uint() }, func() { k.deadline = r.Int() },
			func() { k.plan = text(&r) }, func() { k.at = text(&r) }, func() { k.by = r.Uint() },
			func() { k.of = r.Uint() },
			func() { k.attempt = r.Uint() }, func() { k.ends = r.Int() }, func() { k.turn = r.Int() },
			func() { k.version = r.Uint() })
		s.keepers.add(k.of, 1)
		if k.seq != 0 {
			s.asking.Insert(s.w, string(appendSeq(nil, k.seq))+key, trie.None, 0)
		}
		k.timer = s.deadlines.timer(timeKept, key)
		s.deadlines.arm(k.timer, k.deadline)
	case tableDeparture:
		if len(key) != wire.SessionBytes+8 {
			return fmt.Errorf("engine: row %q: no session and arrival number", row)
		}
		d := newDeparture(&s.departing, s.w, key)
		read(func() { d.epoch = r.Uint() }, func() { d.at = r.Int() }, func() { d.after = text(&r) })
	case tableMark:
		m := s.marks.Insert(s.w, key, trie.None, 0)
		read(func() { *m = r.Int() })
	case tableMeta:
		s.loadMeta(&r, read)
	default:
		return fmt.Errorf("engine: row of unknown table %q", row[0])
	}
	if err := r.Err(); err != nil {
		return fmt.Errorf("engine: row %q: %w", row, err)
	}
	return nil
}

// text reads a string that the state keeps.
func text(r *wire.Reader) string { return strings.Clone(r.Str()) }

func (s *State) loadHold(table byte, key string, r *wire.Reader, read func(...func())) {
	var h hold
	class := classWrite
	switch table {
	case tableFence:
		class = classGhost
		read(func() { h.token = r.Int() }, func() { h.since = r.Int() * minuteMillis }, func() { h.own = r.Bool() })
	case tableHold:
		read(func() { h.owner = text(r) }, func() { h.token = r.Int() }, func() { h.since = r.Int() },
			func() { h.alg = wire.Algorithm(r.Uint()) }, func() { h.meta = loadMetadata(r) },
			func() { h.by = r.Uint() }, func() { h.own = r.Bool() }, func() { h.loadAlso(r) })
	default:
		read(func() { h.owner = text(r) }, func() { h.since = r.Int() },
			func() { h.alg = wire.Algorithm(r.Uint()) }, func() { h.mode = wire.Mode(r.Uint()) },
			func() { h.permits = uint32(r.Uint()) }, func() { h.meta = loadMetadata(r) }, func() { h.by = r.Uint() },
			func() { h.loadAlso(r) })
		if h.mode == wire.ModeRead {
			class = classRead
		}
	}
	if old := s.holds.Get(key); old != nil {
		// A fence left behind by an earlier hold of a path that is held again.
		if class == classGhost {
			return
		}
		s.holds.SetClass(s.w, key, class)
		*s.holds.Edit(s.w, key) = h
		return
	}
	*s.holds.Insert(s.w, key, class, 0) = h
}

func loadMetadata(r *wire.Reader) *string {
	b := r.Bin()
	if len(b) == 0 {
		return nil
	}
	m := string(b)
	return &m
}

func loadBinding(r *wire.Reader) *binding {
	n := r.Array()
	if n == 0 {
		return nil
	}
	b := new(binding)
	for i := range n {
		switch i {
		case 0:
			copy(b.session[:], r.Bin())
		case 1:
			b.epoch = r.Uint()
		case 2:
			b.grace = r.Int()
		case 3:
			b.spent = r.Uint()
		case 4:
			b.loose = r.Bool()
		case 5:
			b.past = r.Uint()
		default:
			r.Skip()
		}
	}
	return b
}

func (s *State) loadLease(key string, r *wire.Reader, read func(...func())) {
	l := s.leases.Insert(s.w, key, trie.None, 0)
	l.owner, l.ns = splitLeaseKey(key)
	l.timer = s.deadlines.timer(timeLease, key)
	read(func() { l.deadline = r.Int() }, func() { l.revoke = r.Int() },
		func() { l.quiet = r.Bool() }, func() {
			l.bind = loadBinding(r)
			s.noteTie(l, l.bind)
		},
		func() {
			for n := r.Array(); n > 0 && r.Err() == nil; n-- {
				if b := loadBinding(r); b != nil {
					l.also = append(l.also, b)
					s.noteTie(l, b)
				}
			}
		},
		func() {
			for n := r.Array(); n > 0 && r.Err() == nil; n-- {
				var p pledge
				for i := range r.Array() {
					switch i {
					case 0:
						copy(p.session[:], r.Bin())
					case 1:
						p.until = r.Int()
					case 2:
						p.several = r.Bool()
					case 3:
						p.over = r.Uint()
					case 4:
						p.grace = r.Int()
					default:
						r.Skip()
					}
				}
				l.pledges = append(l.pledges, p)
			}
		})
	if l.held() {
		s.deadlines.arm(l.timer, l.deadline)
	}
	if s.owners != nil {
		s.owners.OwnerCame(l.owner)
	}
}

func (s *State) loadWaiter(key string, r *wire.Reader, read func(...func())) {
	w := s.waiters.Insert(s.w, key, trie.None, 0)
	read(func() { w.owner = text(r) }, func() { w.ns = text(r) },
		func() { w.alg = wire.Algorithm(r.Uint()) },
		func() {
			for n := r.Array(); n > 0 && r.Err() == nil; n-- {
				var k want
				for i := range r.Array() {
					switch i {
					case 0:
						k.key = text(r)
					case 1:
						k.mode = wire.Mode(r.Uint())
					case 2:
						k.state = wire.LockState(r.Uint())
					case 3:
						k.permits = uint32(r.Uint())
					default:
						r.Skip()
					}
				}
				w.wants = append(w.wants, k)
			}
		},
		func() {
			for n := r.Array(); n > 0 && r.Err() == nil; n-- {
				var l wire.ReleaseRequest
				for i := range r.Array() {
					switch i {
					case 0:
						l.Path = text(r)
					case 1:
						l.Mode = wire.Mode(r.Uint())
					default:
						r.Skip()
					}
				}
				w.releases = append(w.releases, l)
			}
		},
		func() { w.token = r.Int() }, func() { w.own = r.Bool() }, func() { w.open = r.Bool() },
		func() { copy(w.caller.Session[:], r.Bin()); w.of = markOf(w.caller.Session) },
		func() { w.caller.ID = r.Uint() },
		func() { w.ttl = r.Uint() }, func() { w.deadline = r.Int() }, func() { w.since = r.Int() },
		func() { w.bind = loadBinding(r) }, func() { w.meta = loadMetadata(r) },
		func() { w.epoch = r.Uint() }, func() { w.adrift = r.Bool() }, func() { w.hash = r.Uint() },
		func() { w.of = r.Uint() }, func() { w.past = r.Uint() })
	w.timer = s.deadlines.timer(timeWaiter, key)
	s.deadlines.arm(w.timer, w.deadline)
}

func (s *State) loadMeta(r *wire.Reader, read func(...func())) {
	read(func() { s.now = r.Int() }, func() { s.wall = r.Int() }, func() { s.counter = r.Int() },
		func() { s.seq = r.Uint() }, func() { s.version = r.Uint() },
		func() {
			for n := r.Array(); n > 0 && r.Err() == nil; n-- {
				var f floor
				for i := range r.Array() {
					switch i {
					case 0:
						f.Root = text(r)
					case 1:
						f.Token = r.Int()
					case 2:
						f.NS = text(r)
					default:
						r.Skip()
					}
				}
				s.floors = append(s.floors, f)
			}
		},
		func() {
			for n := r.Array(); n > 0 && r.Err() == nil; n-- {
				s.frozen = append(s.frozen, freezing{root: text(r)})
			}
		},
		func() { s.attempt = r.Uint() },
		func() {
			for at, n := 0, r.Array(); at < n && r.Err() == nil; at++ {
				var f freezing
				for i := range r.Array() {
					switch i {
					case 0:
						f.above = text(r)
					case 1:
						f.until = r.Uint()
					default:
						r.Skip()
					}
				}
				if at < len(s.frozen) {
					s.frozen[at].above, s.frozen[at].until = f.above, f.until
				}
			}
		})
}

// Loaded ends the rows of Load: what is derived from them is made, and held
// against them. An error says that the rows contradict each other.
func (s *State) Loaded() error {
	if err := s.linkHolds(); err != nil {
		return err
	}
	if err := s.linkWaiters(); err != nil {
		return err
	}
	s.w.SetMark(1)
	if Planted == PlantTokenReuse {
		s.counter = max(s.counter-2, 0)
	}
	return nil
}

// linkHolds gives each lease its holds.
func (s *State) linkHolds() (err error) {
	s.holds.All().AscendClass(liveHolds, func(key string, h *hold) bool {
		l := s.leases.Edit(s.w, s.leaseKey(h.owner, namespaceOf(key)))
		if !l.held() {
			err = fmt.Errorf("engine: %s is held by %s, which has no lease", wire.Quote(pathOf(key)),
				wire.Quote(h.owner))
			return false
		}
		class, hkey := classWrite, key
		if h.mode == wire.ModeRead || h.alg == wire.Semaphore {
			hkey = key[:len(key)-len(h.owner)]
		}
		if h.mode == wire.ModeRead {
			class = classRead
		}
		h.owner = l.owner // share its memory
		if l.meta != nil && h.meta != nil && *l.meta == *h.meta {
			h.meta = l.meta
		}
		l.meta = h.meta
		l.holds.Insert(s.w, hkey, class, 0)
		return true
	})
	return err
}

// linkWaiters puts each waiter into the queue.
func (s *State) linkWaiters() (err error) {
	s.waiters.All().Ascend(func(key string, w *waiter) bool {
		seq := seqOf(key)
		l := s.leases.Edit(s.w, s.leaseKey(w.owner, w.ns))
		if l == nil {
			err = fmt.Errorf("engine: waiter %d of %s has no ownership record in %s", seq, wire.Quote(w.owner),
				wire.Quote(w.ns))
			return false
		}
		w.owner, w.ns = l.owner, l.ns
		for i := range w.wants {
			s.addPlace(w, l, &w.wants[i], key)
		}
		s.weigh(w)
		if w.open {
			s.openCall(w.caller, seq)
		} else {
			l.poll = seq
			s.noteTie(l, w.bind)
		}
		return true
	})
	return err
}
