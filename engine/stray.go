package engine

import "github.com/pathlockd/pathlockd/wire"

// What the states of a cluster say about a path when their logs stopped at instants that no
// policy change between them allows for: the majority was lost, and what one node has is
// restored (pathlock backup save --local). A path was in one namespace when the log of its
// old group stopped, and is in another by the routes of the system log, or the other way
// round. Who asks for the path is sent to the group that the routes name. So what another
// one has on it guards nothing any more, and would be renewed and listed all the same, as if
// its owner had the path.

// Stray is what somebody holds, or waits for, on a path that the routes put into another namespace; or what its lease
// there holds beside that, since a lease is renewed as a whole, and who lost a part of it is to hear that it is lost.
type Stray struct {
	Owner     string
	Path      string
	Namespace string // where it is held, or waited for
	Waits     bool

	seq uint64 // of a waiter
}

// Strays answers all of them, what is held first. home answers the namespace of a path.
func (s *State) Strays(home func(path string) string) (all []Stray) {
	s.leases.All().Ascend(func(_ string, l *lease) bool {
		stray, before := false, len(all)
		l.holds.All().Ascend(func(key string, _ *struct{}) bool {
			path := pathOf(key)
			stray = stray || home(path) != l.ns
			all = append(all, Stray{Owner: l.owner, Path: path, Namespace: l.ns})
			return true
		})
		if !stray {
			all = all[:before]
		}
		return true
	})
	s.waiters.All().Ascend(func(key string, w *waiter) bool {
		for i := range w.wants {
			if path := pathOf(w.wants[i].key); home(path) != w.ns {
				all = append(all, Stray{Owner: w.owner, Path: path, Namespace: w.ns, Waits: true, seq: seqOf(key)})
				break
			}
		}
		return true
	})
	return all
}

// EndStrays ends them in a state that a restore has raised, and all moves: nobody is left who
// would end those that the system log does not know, and a change that it does know begins
// anew. What that frees is granted as in any step. A state without any stays as it is.
func (s *State) EndStrays(c Clock, home func(path string) string) {
	strays := s.Strays(home)
	if len(strays) == 0 && len(s.frozen) == 0 {
		return
	}
	s.begin(c, new(Output)) // there is nobody yet to be told
	for i := range strays {
		s.endStray(&strays[i])
	}
	for _, root := range s.Freezing() {
		s.thaw(root)
	}
	s.settle()
}

func (s *State) endStray(o *Stray) {
	if o.Waits {
		if s.waiter(o.seq) != nil { // else it relied on a stray that ended before
			s.abort(o.seq, wire.Errorf(wire.Aborted, "the path is in another namespace since the cluster was restored"))
		}
		return
	}
	if l := s.ownership(o.Owner, o.Namespace); l.held() { // else it ended with another one of its lease
		l.quiet = true
		s.shorten(l, s.now)
		s.endLease(l, everything)
	}
}

// Routed is the version of the routes that the group knows of, or is to learn of by a move.
func (s *State) Routed() uint64 {
	version := s.version
	for i := range s.frozen {
		version = max(version, s.frozen[i].until)
	}
	return version
}

// RaiseRoutes makes the routes at least of a version.
func (s *System) RaiseRoutes(version uint64) { s.version = max(s.version, version) }
