// Package place decides where the replicas of each log belong and which change comes
// next. It is a function of what it is told: it has no clock, no goroutine and no
// I/O, and asks nobody.
//
// # The pieces
//
//	Members    (members.go)  who counts: a node after the stability window, until the
//	                         eviction window after it was last seen
//	Place      (layout.go)   which nodes hold the voters of each log, and who of them
//	                         should lead it (leaders.go)
//	Plan       (plan.go)     the next single change of one log, as its leader sees it
//	Scheduler  (schedule.go) which of the plans of all logs a node leads are carried
//	                         out now
//
// # A round
//
// A node runs a round when gossip tells it something, when a change it started has
// ended, when Members or the Scheduler asked to be looked at again, and every second
// or so while a log that it leads is not settled (replicas catch up unasked):
//
//	members.Adopt(now, nodes that hold a replica of a log that this node leads)
//	view := members.Observe(now, sightings, marks)
//	layout := place.Place(logs, view.Placed, replicationFactor) // when view.Placed changed
//	for each log that this node leads:
//		steps = append(steps, place.Plan(&log, layout[log.ID], view.Nodes))
//	start, next := scheduler.Next(now, steps)
//	carry out start, each with its Version, and tell scheduler.Done when each has ended
//
// Every leader decides for its logs alone and nobody is asked for permission. Nodes
// that see the same members compute the same layout; while they do not, each log
// still has one leader, and its membership has a version that every change names,
// so that two changes never build on the same membership.
//
// # What is never done
//
// No step leaves a log with fewer live and caught-up voters than a majority, by what
// its leader knows when it decides; a step that waits for long should be planned anew.
// One change at a time. What is new is caught up before what is old goes. A replica id
// is used once. An even number of voters is only passed through.
//
// Nothing here is safe for concurrent use; one goroutine owns the Members and the
// Scheduler of a node. Place and Plan keep nothing.
package place
