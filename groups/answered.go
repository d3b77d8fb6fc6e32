package groups

import (
	"encoding/binary"
	"strings"

	"github.com/zeebo/xxh3"

	"github.com/pathlockd/pathlockd/wire"
)

// answered is the answer to one request.
type answered struct {
	id     uint64
	sub    uint64 // which part of the request, when it was carried out in several
	hash   uint32 // of what was asked
	op     wire.Op
	status wire.Status
	code   wire.Code   // of a refusal
	reason wire.Reason // of an acquire that got nothing
	token  int64
}

// result is the answer as a result, to be brought up to date by the engine.
func (a *answered) result() wire.Result { return wire.Result{Status: a.status, Token: a.token} }

// nothing says that the request changed nothing. It may be carried out anew as long as
// its session has asked nothing since: after that, it would be out of order.
func (a *answered) nothing() bool {
	return a.code != wire.OK || a.op == wire.OpAcquire && a.status != wire.StatusOK && a.status != wire.StatusQueued
}

// again is the answer to a repeat of a request that changed nothing. Who was in its way
// is not kept.
func (a *answered) again(req *wire.Request) (res wire.Result) {
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

func (a *answered) append(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, a.id)
	dst = binary.AppendUvarint(dst, a.sub)
	dst = binary.BigEndian.AppendUint32(dst, a.hash)
	dst = append(dst, byte(a.op), byte(a.status))
	return binary.AppendVarint(dst, a.token)
}

// appendNothing appends what else is to be said of the answer at a place in the row, if
// there is.
func (a *answered) appendNothing(dst []byte, at uint64) []byte {
	if a.code == wire.OK && a.reason == 0 {
		return dst
	}
	return append(binary.AppendUvarint(dst, at), byte(a.code), byte(a.reason))
}

// hashBody tells requests under one id apart.
func hashBody(body []byte) uint32 { return uint32(xxh3.Hash(body)) }
