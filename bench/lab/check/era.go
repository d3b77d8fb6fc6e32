package check

import (
	"time"

	"github.com/pathlockd/pathlockd/bench/lab/history"
)

// A restore ends an era: what was acknowledged after the backup is gone, as promised. So
// each era is judged as a life of its own. It begins with what came before the backup that
// its cluster was founded with, and goes on with what that cluster was asked. Lease clocks
// stand still from a backup to the new cluster's start: what came before is moved by as
// much, so that it ends where the new cluster begins.

// moment is an operation in a life.
type moment struct {
	history.Op
	// torn says that the backup was taken while it was under way: it is in it or not.
	torn bool
}

// life is what the cluster of an era went through.
type life struct {
	era      int
	moments  []moment
	faults   []history.Fault
	accesses []history.Access // of the era alone
	// restored is the instants of backups, one for each namespace and restore, and high is
	// the highest token that was told of in a namespace in eras before this one.
	restored []history.Op
	high     map[string]int64
}

// lives are those of a history, one for each era.
func lives(h *history.History) []life {
	spaces := make(map[string]bool)
	for i := range h.Ops {
		spaces[h.Ops[i].Namespace] = true
	}
	l := life{high: make(map[string]int64)}
	l.live(h, 0)
	list := []life{l}
	for i := range h.Restores {
		l = l.reborn(&h.Restores[i], h.Ops, sortedKeys(spaces))
		l.live(h, h.Restores[i].Began)
		list = append(list, l)
	}
	return list
}

// live adds what happened in the life's era, which began at a time.
func (l *life) live(h *history.History, began time.Duration) {
	end := history.Forever
	if l.era < len(h.Restores) {
		end = h.Restores[l.era].Abandoned
	}
	for i := range h.Ops {
		if h.Ops[i].Era == l.era {
			l.moments = append(l.moments, moment{Op: h.Ops[i]})
		}
	}
	for _, f := range h.Faults {
		if f.From >= began && f.From < end {
			l.faults = append(l.faults, f)
		}
	}
	for _, a := range h.Accesses {
		if a.Time >= began && a.Time < end {
			l.accesses = append(l.accesses, a)
		}
	}
}

// reborn is the life of the cluster that was founded with a backup of this one, up to its
// beginning. ops is all that was ever asked.
func (l *life) reborn(r *history.Restore, ops []history.Op, spaces []string) life {
	by := r.Began - r.SaveTo
	next := life{era: l.era + 1, high: make(map[string]int64)}
	for i := range l.moments {
		m := l.moments[i]
		if m.Call > r.SaveTo {
			continue
		}
		m.torn = m.torn || m.Return > r.SaveFrom
		m.Call, m.Return = moved(m.Call, by), moved(m.Return, by)
		if m.Placed > 0 {
			m.Placed = moved(m.Placed, by)
		}
		next.moments = append(next.moments, m)
	}
	for _, f := range l.faults {
		if f.From > r.SaveTo {
			continue
		}
		f.From += by
		if f.To <= r.SaveTo { // else it is the one that the restore is a part of
			f.To += by
		}
		next.faults = append(next.faults, f)
	}
	for _, op := range l.restored {
		op.Call, op.Return = op.Call+by, op.Return+by
		next.restored = append(next.restored, op)
	}
	for i := range ops {
		if op := &ops[i]; op.Era < next.era && op.Outcome == history.Answered {
			next.high[op.Namespace] = max(next.high[op.Namespace], op.Token)
			for _, x := range op.Holders {
				next.high[op.Namespace] = max(next.high[op.Namespace], x.Token)
			}
		}
	}
	for _, ns := range spaces {
		next.restored = append(next.restored, history.Op{
			Client: -next.era, Kind: history.Restored, Namespace: ns, Era: next.era, Token: next.high[ns],
			Call: r.SaveFrom + by, Return: r.Began, Outcome: history.Answered,
		})
	}
	return next
}

func moved(t, by time.Duration) time.Duration {
	if t == history.Forever {
		return t
	}
	return t + by
}

// exact is the life for who can tell from the order of things whether what was torn is in
// the backup (the model). An open call that was torn may have been there as one that waits,
// and go on from there.
func (l *life) exact() *history.History {
	h := &history.History{Faults: l.faults, Ops: append([]history.Op(nil), l.restored...)}
	for i := range l.moments {
		op := l.moments[i].Op
		if l.moments[i].torn && op.Open {
			op = untold(op)
		}
		h.Ops = append(h.Ops, op)
	}
	return h
}

// untold is an operation of whose outcome nothing is known. A call that waited and was
// refused then was in the queue before.
func untold(op history.Op) history.Op {
	if op.Outcome == history.Answered || op.Outcome == history.Refused && op.Open {
		op.Outcome, op.Return, op.Token = history.Unknown, history.Forever, 0
	}
	return op
}

// sure is the life for who goes by what is sure: nobody knows whether what was torn
// happened, nor the tokens that came of the old ones.
func (l *life) sure() *history.History {
	h := &history.History{Faults: l.faults, Accesses: l.accesses}
	for i := range l.moments {
		op := l.moments[i].Op
		if op.Era < l.era {
			op.Token = 0
			if l.moments[i].torn {
				op = untold(op)
			}
		}
		h.Ops = append(h.Ops, op)
	}
	return h
}
