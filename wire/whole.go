package wire

import "errors"

// wholeSlots is every place in a Result, in the order of their bits. Bits are never used
// again for another.
var wholeSlots = [...]slot{
	sStatus, sReason, sAlgorithm, sCycle, sFlag, sDone, sText, sPath, sOwner, sNamespace, sToken, sCurrent,
	sPosition, sCount, sCount2, sCount3, sNames, sNames2, sCursor, sPositions, sInfos, sCovering, sWaiters,
	sCause,
}

// hasList says in a whole result's bits that it has a List, be that empty.
const hasList = 1 << 62

var errWhole = errors.New("a result with fields that this version does not know")

// AppendWhole appends a result with all its fields, whatever its operation: between nodes
// results tell more than clients are told. A Welcome and a Topology are of one connection
// and stay out.
//
//	whole = code bits field…      the field of each bit set, the lowest first
func AppendWhole(dst []byte, res *Result) []byte {
	bits := uint64(0)
	for i, s := range wholeSlots {
		if res.has(s) {
			bits |= 1 << i
		}
	}
	if res.List != nil {
		bits |= hasList
	}
	dst = AppendUint(AppendUint(dst, uint64(res.Code)), bits)
	for i, s := range wholeSlots {
		if bits&(1<<i) != 0 {
			dst = res.append(dst, s)
		}
	}
	return dst
}

// DecodeWhole is the inverse of AppendWhole. Strings alias the reader's buffer.
func (res *Result) DecodeWhole(r *Reader) error {
	*res = Result{Code: Code(r.enum())}
	bits := r.Uint()
	if bits&hasList != 0 {
		res.List = new(List)
	}
	for i, s := range wholeSlots {
		if bits&(1<<i) != 0 {
			res.read(s, r)
		}
	}
	if bits&^(hasList|1<<len(wholeSlots)-1) != 0 {
		r.fail(errWhole)
	}
	return r.err
}
