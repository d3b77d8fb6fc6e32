package replica

import (
	"encoding/binary"
	"strings"

	"github.com/zeebo/xxh3"

	"github.com/pathlockd/pathlockd/groups/codec"
	"github.com/pathlockd/pathlockd/wire"
)

// answered is the answer to one request.
type answered struct {
	id     uint64
	sub    uint64 // which part of the request, when it was carried out in several; see WholeSub
	hash   uint32 // of what was asked, 0: not known
	op     wire.Op
	status wire.Status
	code   wire.Code   // of a refusal
	reason wire.Reason // of an acquire that got nothing
	end    ending      // of an acquire that waited
	token  int64       // of an acquire; of a release the acquire that it names (session.tookBack)
	marks  marks
}

// WholeSub is a bit of a part's number. It says that with this part all of its request is carried out,
// and is no part of its name: in a repeat another part may be the last.
const WholeSub = 1 << 62

// is says that it is the answer to a part.
func (a *answered) is(sub uint64) bool { return a.sub&^WholeSub == sub&^WholeSub }

// SubOf is the part of a release that is about the paths in a namespace.
func SubOf(ns string) uint64 { return xxh3.HashString(ns)>>2 | 1<<63 }

// ending is how a wait was over, 0 of what did not wait.
type ending byte

const (
	_ ending = iota
	// ended: it was granted, or ended by somebody or by time. A repeat is answered the same.
	ended
	// left: its connection was gone. A repeat waits again.
	left
)

// result is the answer as a result, to be brought up to date by the engine.
func (a *answered) result() (res wire.Result) {
	if res.Status = a.status; a.op != wire.OpRelease {
		res.Token = a.token
	}
	return res
}

// nothing says that the request changed nothing. It may be carried out anew as long as
// its session has asked nothing since: after that, it would be out of order.
func (a *answered) nothing() bool {
	return a.code != wire.OK || a.op == wire.OpAcquire && a.status != wire.StatusOK && a.status != wire.StatusQueued
}

// stands says that a repeat is not carried out anew.
func (a *answered) stands(highest uint64) bool {
	switch a.end {
	case ended:
		return true
	case left:
		return false
	}
	return !a.nothing() || a.id < highest
}

// another says that what is asked under the id now is not what was asked first, as far as that
// is known.
func (a *answered) another(op wire.Op, hash uint32) bool {
	return a.op != op || a.hash != 0 && hash != 0 && a.hash != hash
}

// again is the answer to a repeat of a request that changed nothing. Who was in its way
// is not kept.
func (a *answered) again(req *wire.Request) (res wire.Result) {
	if a.code != wire.OK && a.end == ended {
		err := wire.Errorf(a.code, "%v: its wait was ended when it was asked first", a.op)
		if a.code == wire.DeadlineExceeded { // nothing in the log answers that but time
			err = err.By(wire.CauseWaitOver)
		}
		res.Fail(err)
		return res
	}
	if a.code != wire.OK {
		res.Fail(wire.Errorf(a.code, "%v: was refused when it was asked first; nothing was done", a.op))
		return res
	}
	res.Status, res.Reason = a.status, a.reason
	if len(req.Locks) > 0 {
		res.Path = strings.Clone(req.Locks[0].Path)
	}
	return res
}

// append appends the answer to a row.
func (a *answered) append(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, a.id)
	dst = binary.AppendUvarint(dst, a.sub)
	dst = binary.BigEndian.AppendUint32(dst, a.hash)
	dst = append(dst, byte(a.op), byte(a.status), byte(a.code), byte(a.reason), byte(a.end))
	return a.marks.append(binary.AppendVarint(dst, a.token))
}

// answered reads what append appends, or what it did before there were marks.
func readAnswered(r *codec.Reader, marked bool) (a answered) {
	a.id, a.sub = r.Uvarint(), r.Uvarint()
	if b := r.Bytes(4); b != nil {
		a.hash = binary.BigEndian.Uint32(b)
	}
	a.op, a.status, a.code = wire.Op(r.Byte()), wire.Status(r.Byte()), wire.Code(r.Byte())
	a.reason, a.end, a.token = wire.Reason(r.Byte()), ending(r.Byte()), r.Varint()
	if marked {
		a.marks = readMarks(r)
	}
	return a
}

// hashBody tells requests under one id apart.
func hashBody(body []byte) uint32 { return uint32(xxh3.Hash(body)) }

// hashChange does so for policy changes: when one is done, that of what it asked is known, and not its body.
func hashChange(asked uint64) uint32 { return uint32(asked) }
