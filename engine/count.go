package engine

// Counts answers how many locks the group holds, and how many paths are waited
// for in it. What has expired and is not reaped yet counts.
func (s *State) Counts() (locks, waiting int) {
	held, queued := s.holds.Sum(), s.queue.Sum()
	return int(held.Count[classWrite]) + int(held.Count[classRead]), int(queued.Count[classWait])
}
