package replica

import "github.com/pathlockd/pathlockd/engine"

// plantedLimits is the limits to apply by: those of the log, but for a bug that the simulation
// has to find.
func (m *Machine) plantedLimits(l Limits) Limits {
	switch engine.Planted {
	case engine.PlantNodeLimits:
		return m.Own
	case engine.PlantShortMemory:
		l.RememberMillis = min(l.RememberMillis, 4000)
	}
	return l
}
