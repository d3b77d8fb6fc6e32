package engine

import (
	"github.com/pathlockd/pathlockd/trie"
	"github.com/pathlockd/pathlockd/wire"
)

// Kept answers move with the paths that they are about (contract.md section 11): what was
// carried out in one namespace must not be carried out again in the one that the paths have
// come to. Who carries a routing change out reads them where the subtree is frozen
// (View.Carries), finds where their paths will be, and brings them along with wire.OpOpen.
//
// Parts of a release that is claimed are not brought along: what is left of it on paths that moved
// is nothing (groups/claims.go), and where they came to its part for other paths may be to come.
//
// Answers that stay behind are forgotten in their time. They say the same, and a later move
// of the subtree back overwrites them.

// Carried is a kept answer on its way from a group to another.
type Carried struct {
	Op    wire.Op
	Key   string // idempotency_key
	Path  string // the first of the request
	NS    string // that it lies in, or will
	Hash  uint64 // of the request
	Token int64
	Left  int64 // ms until it is forgotten
}

// carried says which answers are carried along: of an acquire that was granted, and of a
// release. One that is queued ends with the move, and may be asked anew.
func (k *kept) carried(key string) bool {
	if k.at == "" || k.status != wire.StatusOK {
		return false
	}
	switch wire.Op(key[0]) {
	case wire.OpAcquire:
		return true
	case wire.OpRelease:
		return !isPart(keyOfRelease(key, namespaceOf(k.at)))
	}
	return false
}

// keyOfRelease is the idempotency key in the scope of a release (scopeOf).
func keyOfRelease(scope, ns string) string { return scope[1 : len(scope)-1-len(ns)] }

// Carries answers the kept answers about paths that a routing change at root moves, from the
// one after key after on: about so many bytes of them, and where to go on, "" at the end.
func (v *View) Carries(root, after string, room int) (all []Carried, next string) {
	v.kept.AscendFrom("", trie.Class(0).Mask(), after, func(key string, k *kept) bool {
		if key == after {
			return true
		}
		if room <= 0 {
			next = after
			return false
		}
		after = key
		room -= carriedLook
		if !k.carried(key) || k.deadline <= v.now || !movesPath(&v.policies, root, namespaceOf(k.at), pathOf(k.at)) {
			return true
		}
		c := Carried{Op: wire.Op(key[0]), Key: key[1:], Path: pathOf(k.at), NS: namespaceOf(k.at), Hash: k.hash,
			Token: k.token, Left: k.deadline - v.now}
		if c.Op == wire.OpRelease {
			c.Key = keyOfRelease(key, c.NS)
		}
		room -= len(c.Key) + len(c.Path) + len(c.NS)
		all = append(all, c)
		return true
	})
	return all, next
}

// carriedLook is what looking at a kept answer counts, in bytes.
const carriedLook = 32

// AppendCarried appends kept answers as wire.OpOpen brings them.
func AppendCarried(dst []byte, all []Carried) []byte {
	dst = wire.AppendArray(dst, len(all))
	for i := range all {
		c := &all[i]
		dst = wire.AppendUint(wire.AppendArray(dst, 7), uint64(c.Op))
		dst = wire.AppendStr(wire.AppendStr(wire.AppendStr(dst, c.Key), c.Path), c.NS)
		dst = wire.AppendInt(wire.AppendInt(wire.AppendUint(dst, c.Hash), c.Token), c.Left)
	}
	return dst
}

// ReadCarried reads what AppendCarried made. The strings share its memory.
func ReadCarried(b []byte) ([]Carried, error) {
	if len(b) == 0 {
		return nil, nil
	}
	r := wire.NewReader(b)
	var all []Carried
	for n := r.Array(); n > 0 && r.Err() == nil; n-- {
		var c Carried
		for i := range r.Array() {
			switch i {
			case 0:
				c.Op = wire.Op(r.Uint())
			case 1:
				c.Key = r.Str()
			case 2:
				c.Path = r.Str()
			case 3:
				c.NS = r.Str()
			case 4:
				c.Hash = r.Uint()
			case 5:
				c.Token = r.Int()
			case 6:
				c.Left = r.Int()
			default:
				r.Skip()
			}
		}
		all = append(all, c)
	}
	return all, r.Err()
}

// bring takes over kept answers that come along with a subtree. There is always room: a move
// brings no more than another group kept. Where the key was used for something else, that
// stays, and the request that comes along is refused from now on; it is not carried out again.
func (s *State) bring(carried []byte) (res wire.Result) {
	all, err := ReadCarried(carried)
	if err != nil {
		res.Fail(wire.Errorf(wire.Internal, "engine: answers that come along: %v", err))
		return res
	}
	for i := range all {
		c := &all[i]
		key := s.scopeOf(c.Op, c.Key, c.NS)
		k := s.kept.Edit(s.w, key)
		if k != nil && k.deadline <= s.now {
			s.forget(key)
			k = nil
		}
		until := s.now + c.Left
		switch {
		case k == nil:
			k = s.keepNew(key, 0)
			k.deadline = until
		case k.hash != c.Hash:
			continue
		}
		s.follows(key, k, 0)
		k.by = ofNobody // nothing is held of what it took
		k.hash, k.status, k.token, k.at = c.Hash, wire.StatusOK, c.Token, string(appendKey(nil, c.NS, c.Path))
		k.deadline = max(k.deadline, until)
		s.deadlines.arm(k.timer, k.deadline)
	}
	return res
}
