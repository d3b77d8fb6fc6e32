package wire

import (
	"fmt"
	"math"
)

// DecodeRequest decodes the payload of one frame: an array [id, op, args…], where the id may
// be an array [id, settled].
//
// id is the request's id whenever it could be read, so that an error can be
// answered to it; it is 0 when the payload is no request at all, and then the
// stream cannot be trusted any further. body answers the encoded arguments, as a
// replicated entry carries them, and nargs their count.
func DecodeRequest(payload []byte, req *Request) (id uint64, body []byte, nargs int, err *Error) {
	r := NewReader(payload)
	// More arguments than the payload can have are the request's fault, not the stream's.
	n := r.arrayHead()
	id, settled := r.requestID()
	op := r.Uint()
	if r.err != nil || n < 2 || id == 0 || id > MaxRequestID {
		return 0, nil, 0, Errorf(InvalidArgument,
			"frame: want a msgpack array [id, op, arguments…] with an id from 1 to 2^53-1")
	}
	body, nargs = r.Rest(), int(n-2)
	if op >= numOps || specs[op].Name == "" || specs[op].Kind == KindInternal {
		return id, body, nargs, Errorf(Unimplemented, "op %d: not known to this server", op)
	}
	rest, err := decodeArgs(Op(op), body, nargs, req)
	if err != nil {
		return id, body, nargs, err
	}
	switch {
	case len(rest) != 0:
		return id, body, nargs, Errorf(InvalidArgument, "frame: %d bytes follow the request", len(rest))
	case settled > id:
		return id, body, nargs, Errorf(InvalidArgument,
			"settled: %d is above the request's own id %d, which is not answered yet", settled, id)
	}
	req.Settled = settled
	return id, body, nargs, nil
}

// requestID reads an id, or an array of it and of the id below which all are settled.
func (r *Reader) requestID() (id, settled uint64) {
	if !r.atArray() {
		return r.Uint(), 0
	}
	for i := range r.Array() {
		switch i {
		case 0:
			id = r.Uint()
		case 1:
			settled = r.Uint()
		default:
			r.Skip()
		}
	}
	return id, settled
}

// DecodeArgs decodes nargs arguments of op from body into req. Missing trailing
// arguments and nil are their defaults; arguments after the known ones are
// skipped.
func DecodeArgs(op Op, body []byte, nargs int, req *Request) *Error {
	_, err := decodeArgs(op, body, nargs, req)
	return err
}

// decodeArgs answers the bytes after the arguments.
func decodeArgs(op Op, body []byte, nargs int, req *Request) ([]byte, *Error) {
	spec, ok := op.Spec()
	if !ok {
		return nil, Errorf(Unimplemented, "op %d: not known to this server", op)
	}
	req.Reset()
	req.Op = op
	r := NewReader(body)
	for i := range nargs {
		if i >= len(spec.Args) {
			r.Skip()
			if r.err != nil {
				return nil, Errorf(InvalidArgument, "argument %d of %s: %v", i+1, spec.Name, r.err)
			}
			continue
		}
		if req.read(spec.Args[i].slot, &r); r.err != nil {
			return nil, Errorf(InvalidArgument, "%s: %v", spec.Args[i].Name, r.err)
		}
	}
	return r.Rest(), nil
}

// read reads one argument into its slot.
func (req *Request) read(s slot, r *Reader) {
	switch s {
	case sOwner:
		req.Owner = r.Str()
	case sBlocker:
		req.Blocker = r.Str()
	case sPath:
		req.Path = r.Str()
	case sNamespace:
		req.Namespace = r.Str()
	case sKey:
		req.Key = r.Str()
	case sTTL:
		req.TTLMillis = r.Uint()
	case sQueueTTL:
		req.QueueTTLMillis = r.Uint()
	case sGrace:
		req.GraceMillis = r.Uint()
	case sToken:
		req.Token = r.Int()
	case sFlags:
		req.Flags = Flags(r.Uint())
	case sReason:
		req.Reason = Reason(r.enum())
	case sAlgorithm:
		req.Algorithm = Algorithm(r.enum())
	case sDepth:
		req.Depth = r.uint32()
	case sPage:
		req.Page = r.uint32()
	case sTarget:
		req.Target = r.Uint()
	case sAttempt:
		req.Attempt = r.Uint()
	case sKinds:
		req.Kinds = r.Uint()
	case sDelWait:
		req.DelWait = r.Bool()
	case sWatch:
		req.Watch = r.Bool()
	case sExplicit:
		req.Explicit = r.Bool()
	case sDetail:
		req.Detail = r.Str()
	case sNode:
		req.Node = r.Str()
	case sDrain:
		req.Drain = Drain(r.enum())
	case sCursor:
		req.Cursor = r.Bin()
	case sMeta:
		req.Meta = r.raw()
	case sLocks:
		for n := r.atMost(MaxBulkPaths); n > 0 && r.err == nil; n-- {
			req.Locks = append(req.Locks, r.lockRequest())
		}
	case sReleases:
		for n := r.atMost(MaxBulkPaths); n > 0 && r.err == nil; n-- {
			req.Releases = append(req.Releases, r.releaseRequest())
		}
	case sDomains:
		req.Domains = r.strs(req.Domains, r.atMost(MaxDomains))
	case sPaths:
		req.Paths = r.strs(req.Paths, r.atMost(MaxPaths))
	case sPositions:
		req.Positions = r.positions(req.Positions, r.atMost(MaxPositions))
	case sHello:
		req.Hello = r.hello()
	default:
		panic("wire: slot is no argument")
	}
}

// enum reads an enum's number; one that does not fit is kept out of range.
func (r *Reader) enum() uint8 { return uint8(min(r.Uint(), math.MaxUint8)) }

func (r *Reader) uint32() uint32 {
	v := r.Uint()
	if v > math.MaxUint32 {
		r.fail(fmt.Errorf("%w: %d, must be at most %d", errRange, v, uint32(math.MaxUint32)))
		return 0
	}
	return uint32(v)
}

// permits is uint32, and says in a list what is wrong.
func (r *Reader) permits() uint32 {
	sound := r.err == nil
	v := r.uint32()
	if sound && r.err != nil {
		r.err = fmt.Errorf("permits: %w", r.err)
	}
	return v
}

// raw answers the next value's encoding, empty for nil.
func (r *Reader) raw() []byte {
	from := r.pos
	r.Skip()
	if r.err != nil || r.pos == from+1 && r.buf[from] == tNil {
		return nil
	}
	return r.buf[from:r.pos:r.pos]
}

// atMost reads the header of a request's list. An element may be one byte on the
// wire and fifty in memory, so a list that Validate would refuse for its length is
// refused before it is read.
func (r *Reader) atMost(most int) int {
	n := r.Array()
	if n > most {
		r.fail(fmt.Errorf("has %d entries, at most %d are allowed", n, most))
		return 0
	}
	return n
}

// strs appends n strings.
func (r *Reader) strs(dst []string, n int) []string {
	for ; n > 0 && r.err == nil; n-- {
		dst = append(dst, r.Str())
	}
	return dst
}

// positions appends n positions.
func (r *Reader) positions(dst []Position, n int) []Position {
	for ; n > 0 && r.err == nil; n-- {
		dst = append(dst, r.position())
	}
	return dst
}

// fields reads a positional array: read is called with each known position, and
// what lies beyond is skipped.
func (r *Reader) fields(known int, read func(i int)) {
	for i, n := 0, r.Array(); i < n && r.err == nil; i++ {
		if i < known {
			read(i)
		} else {
			r.Skip()
		}
	}
}

func (r *Reader) lockRequest() (l LockRequest) {
	n := r.Array()
	for i := 0; i < n && r.err == nil; i++ {
		switch i {
		case 0:
			l.Path = r.Str()
		case 1:
			l.Mode = Mode(r.enum())
		case 2:
			l.State = LockState(r.enum())
		case 3:
			l.Permits = r.permits()
		default:
			r.Skip()
		}
	}
	return l
}

func (r *Reader) releaseRequest() (l ReleaseRequest) {
	n := r.Array()
	for i := 0; i < n && r.err == nil; i++ {
		switch i {
		case 0:
			l.Path = r.Str()
		case 1:
			l.Mode = Mode(r.enum())
		default:
			r.Skip()
		}
	}
	return l
}

func (r *Reader) position() (p Position) {
	r.fields(3, func(i int) { *[]*uint64{&p.Log, &p.Index, &p.Ordinal}[i] = r.Uint() })
	return p
}

func (r *Reader) hello() *Hello {
	h := new(Hello)
	r.fields(10, func(i int) {
		switch i {
		case 0:
			h.MinVersion = r.Uint()
		case 1:
			h.MaxVersion = r.Uint()
		case 2:
			h.Session = r.Bin()
		case 3:
			h.Epoch = r.Uint()
		case 4:
			h.Credential = r.Str()
		case 5:
			h.Client = r.Str()
		case 6:
			h.Features = r.Uint()
		case 7:
			h.Window = r.Uint()
		case 8:
			h.Meta = r.raw()
		case 9:
			h.Grace = r.Uint()
		}
	})
	return h
}

// DecodeReply reads the head of a server's frame: the id of the request it
// answers and its code, or 0 and the kind of a push. The rest is read by
// Result.Decode or by one of the push decoders. A code or kind that does not fit
// its type is 255, which none is.
func DecodeReply(payload []byte) (id, codeOrKind uint64, r Reader, fields int, err error) {
	r = NewReader(payload)
	n := r.Array()
	id, codeOrKind = r.Uint(), uint64(r.enum())
	if r.err == nil && n < 2 {
		r.fail(errNotArray)
	}
	return id, codeOrKind, r, n - 2, r.err
}

// Decode reads the fields of a reply to op: its results when code is OK, else
// its message. Its strings alias the reader's buffer.
func (res *Result) Decode(op Op, code Code, r *Reader, fields int) error {
	*res = Result{Code: code}
	if code != OK {
		if fields > 0 {
			res.Message = r.Str()
		}
		if fields > 1 {
			res.Cause = Cause(r.enum())
		}
		return r.err
	}
	spec, ok := op.Spec()
	if !ok {
		return Errorf(Unimplemented, "op %d", op)
	}
	for i := range fields {
		if i < len(spec.Results) {
			res.read(spec.Results[i].slot, r)
		} else {
			r.Skip()
		}
	}
	return r.err
}

// list answers the result's List, made when first needed.
func (res *Result) list() *List {
	if res.List == nil {
		res.List = new(List)
	}
	return res.List
}

// read reads one result into its slot.
func (res *Result) read(s slot, r *Reader) {
	switch s {
	case sStatus:
		res.Status = Status(r.enum())
	case sReason:
		res.Reason = Reason(r.enum())
	case sAlgorithm:
		res.Algorithm = Algorithm(r.enum())
	case sCycle:
		res.Cycle = CycleKind(r.enum())
	case sFlag:
		res.Flag = r.Bool()
	case sDone:
		res.Done = r.Bool()
	case sText:
		res.Message = r.Str()
	case sPath:
		res.Path = r.Str()
	case sOwner:
		res.Owner = r.Str()
	case sNamespace:
		res.Namespace = r.Str()
	case sToken:
		res.Token = r.Int()
	case sCurrent:
		res.Current = r.Int()
	case sPosition:
		res.Position = r.Uint()
	case sCount:
		res.Count = r.Uint()
	case sCount2:
		res.list().Count2 = r.Uint()
	case sCount3:
		res.list().Count3 = r.Uint()
	case sNames:
		l := res.list()
		l.Names = r.strs(l.Names, r.Array())
	case sNames2:
		l := res.list()
		l.Names2 = r.strs(l.Names2, r.Array())
	case sCursor:
		res.list().Cursor = r.Bin()
	case sPositions:
		l := res.list()
		l.Positions = r.positions(l.Positions, r.Array())
	case sInfos:
		l := res.list()
		l.Infos = r.lockInfos(l.Infos)
	case sCovering:
		l := res.list()
		l.Covering = r.lockInfos(l.Covering)
	case sWaiters:
		l := res.list()
		for n := r.Array(); n > 0 && r.err == nil; n-- {
			l.Waiters = append(l.Waiters, r.waiterInfo())
		}
	case sWelcome:
		res.list().Welcome = r.welcome()
	case sTopology:
		res.list().Topology = r.topology()
	case sBackup:
		res.list().Backup = r.backup()
	case sRows:
		res.list().Rows = r.Bin()
	case sCause:
		res.Cause = Cause(r.enum())
	default:
		panic("wire: slot is no result")
	}
}

func (r *Reader) lockInfos(dst []LockInfo) []LockInfo {
	for n := r.Array(); n > 0 && r.err == nil; n-- {
		dst = append(dst, r.lockInfo())
	}
	return dst
}

func (r *Reader) lockInfo() (l LockInfo) {
	r.fields(10, func(i int) {
		switch i {
		case 0:
			l.Owner = r.Str()
		case 1:
			l.Path = r.Str()
		case 2:
			l.Mode = Mode(r.enum())
		case 3:
			l.HasFence = r.Bool()
		case 4:
			l.Fence = r.Int()
		case 5:
			l.SinceUnixMillis = r.Int()
		case 6:
			l.ExpiresInMillis = r.Uint()
		case 7:
			l.Algorithm = Algorithm(r.enum())
		case 8:
			l.Permits = r.uint32()
		case 9:
			l.Meta = r.raw()
		}
	})
	return l
}

func (r *Reader) waiterInfo() (w WaiterInfo) {
	r.fields(10, func(i int) {
		switch i {
		case 0:
			w.Owner = r.Str()
		case 1:
			w.Path = r.Str()
		case 2:
			w.Mode = Mode(r.enum())
		case 3:
			w.Token = r.Int()
		case 4:
			w.SinceUnixMillis = r.Int()
		case 5:
			w.ExpiresInMillis = r.Uint()
		case 6:
			w.Position = r.Uint()
		case 7:
			w.Open = r.Bool()
		case 8:
			w.Permits = r.uint32()
		case 9:
			w.Meta = r.raw()
		}
	})
	return w
}

func (r *Reader) welcome() *Welcome {
	w := new(Welcome)
	r.fields(8, func(i int) {
		switch i {
		case 0:
			w.Version = r.Uint()
		case 1:
			w.NodeID = r.Str()
		case 2:
			w.ClusterID = r.Str()
		case 3:
			w.Session = r.Bin()
		case 4:
			w.Epoch = r.Uint()
		case 5:
			w.Features = r.Uint()
		case 6:
			l := &w.Limits
			r.fields(11, func(i int) {
				*[]*uint64{&l.FrameBytes, &l.InFlight, &l.Waiting, &l.Subscriptions,
					&l.BoundOwners, &l.RepeatMillis, &l.Answers,
					&l.UnreadBytes, &l.UnreadMillis, &l.RequestMillis, &l.GroupInFlight}[i] = r.Uint()
			})
		case 7:
			w.ServerVersion = r.Str()
		}
	})
	return w
}

func (r *Reader) topology() *Topology {
	t := new(Topology)
	r.fields(8, func(i int) {
		switch i {
		case 0:
			t.Version = r.Uint()
		case 1:
			t.Self = r.Str()
		case 2:
			for n := r.Array(); n > 0 && r.err == nil; n-- {
				var a NodeAddr
				r.fields(2, func(i int) { *[]*string{&a.NodeID, &a.Native}[i] = r.Str() })
				t.Nodes = append(t.Nodes, a)
			}
		case 3:
			t.GroupLogs = r.Uint()
		case 4:
			t.Leaders = r.strs(nil, r.Array())
		case 5:
			for n := r.Array(); n > 0 && r.err == nil; n-- {
				t.LogOf = append(t.LogOf, r.Uint())
			}
		case 6:
			t.Segments = r.Uint()
		case 7:
			t.Roots = r.strs(nil, r.Array())
		}
	})
	return t
}
