package pathlockd

import (
	"slices"
	"time"
)

// tie is what the keeper knows of a lane's connection.
type tie struct {
	live    uint64              // its number, 0: there is none
	broke   time.Duration       // when the last one was lost
	excused bool                // its server went with it, and could end no lease
	cut     bool                // it ended from the other side
	unsure  map[string]struct{} // owners whose leases may hang on it, as what asked for that is unanswered
}

// attached is called before anything is sent on a new connection of a lane: every
// lease that hung on the last one is renewed, so that it hangs on one that lives.
// (Renewals of before are asked again by the session.)
func (k *keeper) attached(l *lane, on uint64) {
	k.mu.Lock()
	if !slices.Contains(k.mu.lanes, l) {
		k.mu.lanes = append(k.mu.lanes, l)
	}
	l.tie.live, l.tie.unsure = on, nil
	now := k.c.now()
	var todo chores
	for _, le := range k.mu.due {
		if le.lane == l && le.on != on || le.limit != 0 {
			le.renewAt = now
		}
	}
	k.reorder()
	for _, le := range k.mu.due {
		if !le.asking && le.renewAt <= now && le.deadline() > now {
			le.renew(&todo)
		}
	}
	k.reorder()
	k.mu.Unlock()
	todo.do(k.c)
}

// detached is called when the connection of a lane is gone. excused says that no
// lease ends for that, cut that the connection ended from the other side.
func (k *keeper) detached(l *lane, excused, cut bool, unsure map[string]struct{}) {
	k.mu.Lock()
	defer k.mu.Unlock()
	l.tie = tie{broke: k.c.now(), excused: excused, cut: cut, unsure: unsure}
	if excused {
		return
	}
	for _, le := range k.mu.due {
		le.limit = k.limited(le)
	}
	k.reorder()
	k.rouse(0)
}

// limited is until when a lease lasts that hangs, or may hang, on a connection that
// was lost; 0 when it does not, or the limit of before if that is earlier.
func (k *keeper) limited(le *lease) time.Duration {
	limit := le.limit
	for _, l := range k.mu.lanes {
		if at := k.limit(l); l.ends(le) && (limit == 0 || at < limit) {
			limit = at
		}
	}
	return limit
}

// ends says that a lease may end as the connection of a lane was lost.
func (l *lane) ends(le *lease) bool {
	if l.tie.live != 0 || l.tie.excused {
		return false
	}
	_, unsure := l.tie.unsure[le.name.owner]
	return unsure || le.lane == l
}

// limit is until when leases last that hung on the connection that a lane lost.
func (k *keeper) limit(l *lane) time.Duration {
	grace := k.c.opt.grace
	return max(l.tie.broke+grace-margin(grace), 1)
}

// firm says that a lease which was just confirmed on a connection of a lane hangs on
// that alone, and that it lives.
func (k *keeper) firm(le *lease, on uint64, l *lane) bool {
	return on == l.tie.live && !slices.ContainsFunc(k.mu.lanes, func(other *lane) bool { return other != l && other.ends(le) })
}

// excuseWithin is how soon after a connection was cut its server must turn out to be
// gone to have gone with it. One that lived on may have ended leases.
const excuseWithin = 250 * time.Millisecond

// excuse is called when nobody listens any more where a lane's lost connection led
// to. If its server went with it, no lease is shorter for that: the death of a server
// is no disconnect.
func (k *keeper) excuse(l *lane) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if l.tie.excused || l.tie.live != 0 || !l.tie.cut || k.c.now()-l.tie.broke > excuseWithin {
		return
	}
	limit := k.limit(l)
	l.tie.excused = true
	for _, le := range k.mu.due {
		if le.limit == limit {
			le.limit = 0
			le.limit = k.limited(le)
		}
	}
	k.reorder()
}

// tied says on which lanes leases hang.
func (k *keeper) tied() map[*lane]bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	on := make(map[*lane]bool)
	for _, le := range k.mu.due {
		on[le.lane] = true
	}
	return on
}

// forget is called when a lane is over.
func (k *keeper) forget(l *lane) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.mu.lanes = slices.DeleteFunc(k.mu.lanes, func(other *lane) bool { return other == l })
}
