package pathlockd

import (
	"hash/crc32"
	"iter"
	"math/bits"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// maxShares is the bits of a word.
const maxShares = 64

// usersShare is what the program asks, and what is of no log; bindsShare is owners that are bound again, of whichever
// logs they are; the others are of logs, so many of which are told apart.
const (
	usersShare = 0
	bindsShare = maxShares - 1
	logShares  = maxShares - 2
)

// share is what the keeper asks of one log, or what the program asks.
//
// A log may have no leader, and its node answers what is asked of it after half a minute, while all others are well
// on the same connection. So of what they all go by, the window and the places of listings, a share takes no more than
// it leaves free: one that is stuck has half of it, a second one half of the rest. (Dynamic thresholds, as Choudhury
// and Hahne gave them for the memory that the ports of a switch share.)
type share struct {
	waits   [kinds]callQueue // for its room
	next    kind             // which of them has its turn
	flying  int              // of what is sent and unanswered, what is the share's
	lists   int              // of that, listings
	raises  int              // of those, what is asked before requests that raise tokens
	gathers int              // of what is sent, questions with other long answers
}

// kind is what calls of a share wait for turns by: a lock that is in doubt lasts a moment, and other renewals have no
// end.
type kind uint8

const (
	plain    kind = iota // renewals that count when they are answered
	doubtful             // other renewals, and questions about locks
	listing
	describing
	raising // what is asked for the program, before a request that raises a token: it is many at once
	kinds
)

func kindOf(c *call) kind {
	switch {
	case c.raises:
		return raising
	case c.answer == wire.ListedAnswer:
		return listing
	case c.answer == wire.LongAnswer:
		return describing
	case c.doubtful:
		return doubtful
	}
	return plain
}

func (sh *share) vacant() bool {
	for k := range kinds {
		if sh.waits[k].first != nil {
			return false
		}
	}
	return true
}

// turn answers a call that has its turn and may be sent, nil if there is none, and gives the next turn to another kind.
func (sh *share) turn(may func(*call) bool) *call {
	for i := range kinds {
		k := (sh.next + i) % kinds
		c := sh.waits[k].first
		if c == nil || !may(c) {
			continue
		}
		sh.next = (k + 1) % kinds
		return c
	}
	return nil
}

// hold lets a call wait until its share has room. It keeps its place among those of its kind.
func (s *session) hold(c *call) {
	s.mu.shares[c.share].waits[kindOf(c)].push(c)
	s.mu.holding |= 1 << c.share
	s.mu.known.asks(c.share, &s.mu.shares[c.share])
}

// held are the calls' queues of those shares that have any.
func (s *session) held() iter.Seq[*callQueue] {
	return func(yield func(*callQueue) bool) {
		for m := s.mu.holding; m != 0; m &= m - 1 {
			i := bits.TrailingZeros64(m)
			sh := &s.mu.shares[i]
			if sh.vacant() { // somebody left
				s.mu.holding &^= 1 << i
				continue
			}
			for k := range kinds {
				if !yield(&sh.waits[k]) {
					return
				}
			}
		}
	}
}

// roomy says that a call's share takes no more than it leaves to others if the call is sent.
func (s *session) roomy(c *call) bool {
	sh := &s.mu.shares[c.share]
	if !s.inWindow(c.share) {
		return false
	}
	switch c.answer {
	case wire.ListedAnswer:
		most := s.mostListed()
		return sh.lists < most && (!c.raises || 2*sh.raises < most && s.mayRaise())
	case wire.LongAnswer:
		return sh.gathers < wire.MaxGathered-s.mu.gathers
	}
	return true
}

// A share may always have two listings under way, and some more of the places beyond those, but no more than it leaves.
// So no log has to wait for another: many that did not answer took all places otherwise, or all but those of one that
// might stop, too. Half of what a share may have is the most that is asked before requests that raise tokens: the
// program may have any number of those at once.
const (
	alwaysListed = 2
	mostListed   = 16
	sparePlaces  = wire.MaxListings - maxShares*alwaysListed
)

// mostListed is how many listings a share may have under way.
func (s *session) mostListed() int {
	return alwaysListed + min(sparePlaces-s.mu.spareTaken, mostListed-alwaysListed)
}

// mayRaise reports whether there is room in the window for what is asked before a request that raises a token. It keeps
// no lock, so it has almost nothing of the reserve: but something, as users and what keeps locks may always take the
// rest.
func (s *session) mayRaise() bool {
	w := &s.mu.limits
	flying, own := s.mu.flying, s.mu.shares[usersShare].flying
	// they always may, in the reserve too: a program that is busy would keep those back for good
	if own <= w.all-w.users {
		flying -= own
	}
	return flying < w.users || s.mu.raises < max(1, w.spare())
}

// alwaysSent is how many calls a share may have under way whatever others have, as far as users leave it room. Without
// it nine logs that got stuck one after the other had all, and a tenth had none for seven seconds. That much is kept
// for each share that asked something not long ago: of what is asked once in longer than knownFor there is time to try
// again.
const (
	alwaysSent = 2
	knownFor   = time.Minute
)

// inWindow reports whether a share takes no more of the window than it leaves to others. It leaves the half of what
// other logs' shares have not taken, and what is kept for them: users fill what is free at once, so what they have
// counts as free, and what goes ahead takes each place first that they give back. They may be stuck, too, and what they
// leave is the reserve: of that a share leaves some to those that have nothing.
func (s *session) inWindow(share uint8) bool {
	if share == usersShare {
		return true
	}
	sh, w := &s.mu.shares[share], &s.mu.limits
	all := s.mu.flying - s.mu.shares[usersShare].flying
	switch {
	case sh.flying > 0 && s.mu.flying >= w.all-w.spare():
		return false
	case sh.flying < alwaysSent:
		return all < w.users
	}
	kept := s.mu.known.unclaimed + w.all - w.users // some for those that are new, too
	return 2*sh.flying < w.users-(all-sh.flying)-min(kept, w.users/2)
}

// known tells which shares asked something not long ago, or have something that is not answered.
type known struct {
	shares    uint64
	recent    uint64        // those that asked since the last time
	since     time.Duration // when that was, by the client's clock
	unclaimed int           // of what they may always have under way, what they have not
}

// asks takes note that a share has something to send.
func (k *known) asks(i uint8, sh *share) {
	if bit := uint64(1) << i; i != usersShare && k.shares&bit == 0 {
		k.shares |= bit
		k.unclaimed += max(0, alwaysSent-sh.flying)
	}
}

// sends takes note that a share of a log sends something now, and forgets those that did not for long.
func (s *session) sends(share uint8, now time.Duration) {
	k := &s.mu.known
	if age := now - k.since; age >= knownFor {
		recent := k.recent
		if age >= 2*knownFor { // nothing was sent for so long
			recent = 0
		}
		*k = known{shares: recent | s.mu.holding&^(1<<usersShare), since: now}
		for i := range s.mu.shares {
			if i != usersShare && s.mu.shares[i].flying > 0 {
				k.shares |= 1 << i
			}
		}
		k.count(&s.mu.shares)
	}
	k.recent |= 1 << share
	k.asks(share, &s.mu.shares[share])
}

// count counts anew what is unclaimed.
func (k *known) count(shares *[maxShares]share) {
	k.unclaimed = 0
	for m := k.shares; m != 0; m &= m - 1 {
		k.unclaimed += max(0, alwaysSent-shares[bits.TrailingZeros64(m)].flying)
	}
}

// sendHeld sends what shares hold, but that of users, as far as there is room: one call of each of them in turn.
func (s *session) sendHeld(cn *conn) {
	may := func(c *call) bool { return s.fits(c, s.mu.limits.all) }
	for m := s.mu.holding &^ (1 << usersShare); m != 0; {
		i := (bits.TrailingZeros64(bits.RotateLeft64(m, -s.mu.nextShare)) + s.mu.nextShare) % maxShares
		sh := &s.mu.shares[i]
		for of := sh.waits[plain].first; of != nil && of.strayed(cn); of = sh.waits[plain].first {
			sh.waits[plain].remove(of)
			of.free()
		}
		c := sh.turn(may)
		if c == nil {
			if m &^= 1 << i; sh.vacant() {
				s.mu.holding &^= 1 << i
			}
			continue
		}
		s.send(cn, c.in, c)
		s.mu.nextShare = (i + 1) % maxShares
	}
}

// counted takes note of a call that was sent, with 1, or answered, with -1.
func (s *session) counted(c *call, n int) {
	s.mu.flying += n
	if c.ordered {
		s.mu.ordered += n
	}
	sh := &s.mu.shares[c.share]
	if s.mu.known.shares&(1<<c.share) != 0 {
		s.mu.known.unclaimed += max(0, alwaysSent-sh.flying-n) - max(0, alwaysSent-sh.flying)
	}
	sh.flying += n
	switch c.answer {
	case wire.ListedAnswer:
		before := max(0, sh.lists-alwaysListed)
		sh.lists += n
		s.mu.spareTaken += max(0, sh.lists-alwaysListed) - before
	case wire.LongAnswer:
		s.mu.gathers += n
		sh.gathers += n
	}
	if c.raises {
		s.mu.raises += n
		sh.raises += n
	}
}

// logs tells which log a namespace is of.
type logs struct {
	*table
	of []uint64 // by group
}

// newLogs answers nil if the topology does not tell.
func newLogs(t *wire.Topology) *logs {
	if t.GroupLogs == 0 || t.GroupLogs > maxGroups || len(t.LogOf) != int(t.GroupLogs) {
		return nil
	}
	return &logs{newTable(t), t.LogOf}
}

// shareOf is the share of what the keeper asks about a namespace.
func (c *Client) shareOf(namespace string) uint8 {
	var of uint64
	if l := c.router.logs.Load(); l != nil {
		of = l.of[l.group(namespace)]
	} else { // better told apart than not
		of = uint64(crc32.ChecksumIEEE([]byte(namespace)))
	}
	return uint8(1 + of%logShares)
}

// hurry has a call of the keeper's, which is about a namespace, go ahead of users' requests.
func (c *Client) hurry(one *call, namespace string) {
	one.urgent, one.share = true, c.shareOf(namespace)
}

// hurries has a request of the program do so. It keeps its order among the program's requests.
func (c *call) hurries() { c.urgent, c.ordered = true, true }

// promote has renewals of an owner that the program asked for before one that goes ahead go ahead as well, in the
// order in which all of them were asked for.
func (s *session) promote(before *call) {
	if before.op != wire.OpRenew || s.mu.normal.renewals[before.renews] == 0 {
		return
	}
	at := s.mu.ahead.first
	for c := s.mu.normal.first; c != nil; {
		one := c
		if c = c.next; one.op != wire.OpRenew || one.renews != before.renews {
			continue
		}
		for at != nil && at.turn < one.turn {
			at = at.next
		}
		s.mu.normal.remove(one)
		one.hurries()
		s.mu.ahead.insert(one, at)
	}
}

// most is how many calls that do not wait may be unanswered when a call is sent.
func (s *session) most(c *call) int {
	switch {
	case !c.urgent:
		return s.mu.limits.users
	case c.ordered:
		return s.mu.limits.ordered()
	default:
		return s.mu.limits.all
	}
}
