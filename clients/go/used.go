package pathlockd

import (
	"hash/maphash"
	"strings"
	"sync/atomic"
)

// usedOwners is in whose names locks were taken, and in whose names the program has sent acquires of its own. Who is in
// both may have a lease that a lock tied to a lane and that stands for more than the lock, as nobody keeps count of
// what the program's own requests hold, or for how long: that lane is not to be closed, and such a program goes by one
// from then on. The names are noted by their hashes, which are never forgotten: two that share one cost a program its
// further lanes, and no lock.
type usedOwners struct {
	locks, requests ownerSet
}

// lock notes that a lock is taken in the name of an owner that the program names.
func (u *usedOwners) lock(c *Client, owner string) { u.note(c, owner, &u.locks, &u.requests) }

// request notes that the program is about to send an acquire of its own in an owner's name.
// One that the client made up for a lock is one whose name the program was told by whatever told it.
func (u *usedOwners) request(c *Client, owner string) {
	if strings.HasPrefix(owner, c.name) {
		u.locks.add(maphash.String(ownersSeed, owner))
	}
	u.note(c, owner, &u.requests, &u.locks)
}

func (u *usedOwners) note(c *Client, owner string, one, other *ownerSet) {
	hash := maphash.String(ownersSeed, owner)
	one.add(hash)
	if other.has(hash) { // looked at behind that: of two at once one sees the other
		c.router.oneLane()
	}
}

var ownersSeed = maphash.MakeSeed()

// ownerSet is a set of hashes, by their low bits. It has one bit in half a million for each, in pages of 512 bytes that
// are made when they are needed: of a program with a thousand owners of locks, one in 500 of its other owners shares
// one.
type ownerSet [128]atomic.Pointer[ownerPage]

type ownerPage [64]atomic.Uint64

// place is where a hash stands: its page, the word in that, and the bit in that.
func (s *ownerSet) place(hash uint64) (page *atomic.Pointer[ownerPage], word, bit uint64) {
	return &s[hash>>12%128], hash >> 6 % 64, 1 << (hash % 64)
}

func (s *ownerSet) add(hash uint64) {
	at, word, bit := s.place(hash)
	page := at.Load()
	if page == nil {
		page = new(ownerPage)
		if !at.CompareAndSwap(nil, page) {
			page = at.Load()
		}
	}
	if page[word].Load()&bit == 0 {
		page[word].Or(bit)
	}
}

func (s *ownerSet) has(hash uint64) bool {
	at, word, bit := s.place(hash)
	page := at.Load()
	return page != nil && page[word].Load()&bit != 0
}
