package backup

import (
	"context"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/wire"
)

// Report is what a backup has in it.
type Report struct {
	Manifest *Manifest
	Logs     []LogReport    // as in the manifest
	Policies int            // namespaces with an algorithm of their own
	Changes  int            // changes of policies that were under way, and go on after a restore
	Strays   []engine.Stray // in a local backup, what the routes put elsewhere: a restore ends it
	Highest  int64          // token: of any group, those that wait in its queue too, or the cluster-wide

	routes *wire.Routes // of the system log, by which strays are told
	routed uint64       // the highest version of the routes that a group knows of
}

// LogReport is what one log has in it.
type LogReport struct {
	Saved
	engine.Tally
}

// Total is the tally of all logs.
func (r *Report) Total() (t engine.Tally) {
	for i := range r.Logs {
		l := &r.Logs[i].Tally
		t.Writes += l.Writes
		t.Shared += l.Shared
		t.Fences += l.Fences
		t.Leases += l.Leases
		t.Waiters += l.Waiters
		t.Policies += l.Policies
		t.Edges += l.Edges
		t.Kept += l.Kept
	}
	return t
}

// Verify reads a whole backup and says what is in it, or what is wrong with it.
// It has one log in memory at a time.
func Verify(ctx context.Context, dir string) (*Report, error) {
	m, err := readManifest(dir)
	if err != nil {
		return nil, err
	}
	return m.verify(ctx, dir)
}

func (m *Manifest) verify(ctx context.Context, dir string) (*Report, error) {
	r := &Report{Manifest: m}
	for i := range m.Logs {
		c, err := m.read(ctx, dir, &m.Logs[i])
		if err != nil {
			return nil, err
		}
		if c.system != nil {
			r.Policies, r.Changes = c.system.Policies()
			r.routes = c.system.Routes(m.Segments)
		}
		if root := c.freezing(); root != "" && r.Changes == 0 && !m.Local {
			return nil, damaged("%s: namespace %s is being moved, and no policy change is under way",
				m.Logs[i].File, root)
		}
		if m.Local {
			r.compare(c)
		}
		r.Highest = max(r.Highest, c.highest())
		r.Logs = append(r.Logs, LogReport{Saved: m.Logs[i], Tally: c.tally})
	}
	return r, nil
}

// compare holds a log's groups against the system log, which was read before. In a local backup either may have stopped
// before the other.
func (r *Report) compare(c *contents) {
	for _, number := range c.numbers() {
		s := c.groups[number]
		r.Strays = append(r.Strays, s.Strays(r.routes.Resolve)...)
		r.routed = max(r.routed, s.Routed())
	}
}

// version is what the routes are to have at least: groups that know of later ones than the system log would wait for
// these for ever, and those that come are others.
func (r *Report) version() uint64 {
	if r.routed > r.routes.Version {
		return r.routed + 1
	}
	return r.routes.Version
}
