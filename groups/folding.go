package groups

import (
	"time"

	"github.com/pathlockd/pathlockd/groups/replica"
	"github.com/pathlockd/pathlockd/wire"
)

// foldLoop looks through the fences now and then.
func (n *Node) foldLoop() {
	if n.tasks.wait(forever, n.stop, n.ready) == 0 {
		return
	}
	n.every(n.cfg.folding.Every, n.foldFences)
}

// foldFences looks through the fences of every group that it is time for.
func (n *Node) foldFences() {
	pause := func() bool { return n.tasks.wait(n.cfg.folding.Pause, n.stop) != 0 }
	for _, m := range n.hosted() {
		if !m.Loaded.Load() {
			continue
		}
		for _, number := range n.groupsOf(m.Shard) {
			folds, err := m.SweepFences(number, pause)
			if err != nil {
				m.Fail(err)
			}
			if l := n.logs[m.Shard]; len(folds) > 0 && l.leads() && !n.draining.Load() {
				n.proposeFolds(number, folds)
			}
			if n.tasks.wait(time.Millisecond, n.stop) == 0 {
				return
			}
		}
	}
}

// proposeFolds puts folds into the log. What fails is found again at the next look.
func (n *Node) proposeFolds(group uint16, folds []replica.Fold) {
	cmds := make([]command, len(folds))
	for i := range folds {
		f := &folds[i]
		cmds[i] = command{group: group, ns: f.NS, req: f.Request()}
		n.log.Info("folding fences of paths that were not locked for long",
			"group", group, "of", f.Of(), "up_to_token", f.Token, "fences", f.Fences)
	}
	s := steps{n: n, c: &wire.Call{}, since: n.clock.Mono()}
	if err := s.all(cmds); err != nil {
		n.log.Warn("fences are not folded, trying again later", "group", group, "error", err)
	}
}
