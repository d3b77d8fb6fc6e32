package wire

import "encoding/binary"

// frameHead is the length prefix of a frame, in bytes.
const frameHead = 4

// beginFrame reserves a frame's length prefix, endFrame fills it in.
func beginFrame(dst []byte) ([]byte, int) {
	return append(dst, 0, 0, 0, 0), len(dst)
}

func endFrame(dst []byte, from int) []byte {
	binary.BigEndian.PutUint32(dst[from:], uint32(len(dst)-from-frameHead))
	return dst
}

// AppendRequest appends one whole frame that asks req under id, and tells what is settled.
func AppendRequest(dst []byte, id uint64, req *Request) []byte {
	dst, from := beginFrame(dst)
	spec := &specs[req.Op]
	n := req.argCount(spec)
	dst = AppendArray(dst, 2+n)
	if req.Settled != 0 {
		dst = AppendArray(dst, 2)
	}
	dst = AppendUint(dst, id)
	if req.Settled != 0 {
		dst = AppendUint(dst, req.Settled)
	}
	dst = AppendUint(dst, uint64(req.Op))
	dst = req.appendArgs(dst, spec, n)
	return endFrame(dst, from)
}

// AppendArgs appends the encoded arguments of req, as DecodeArgs reads them,
// and answers their count. Trailing defaults are left out.
func AppendArgs(dst []byte, req *Request) (_ []byte, nargs int) {
	spec := &specs[req.Op]
	n := req.argCount(spec)
	return req.appendArgs(dst, spec, n), n
}

// argCount is the number of arguments up to the last that is not its default.
func (req *Request) argCount(spec *Spec) int {
	n := len(spec.Args)
	for n > 0 && !req.has(spec.Args[n-1].slot) {
		n--
	}
	return n
}

func (req *Request) appendArgs(dst []byte, spec *Spec, n int) []byte {
	for _, f := range spec.Args[:n] {
		dst = req.append(dst, f.slot)
	}
	return dst
}

// has says that the argument in a slot is not its default.
func (req *Request) has(s slot) bool {
	switch s {
	case sOwner:
		return req.Owner != ""
	case sBlocker:
		return req.Blocker != ""
	case sPath:
		return req.Path != ""
	case sNamespace:
		return req.Namespace != ""
	case sKey:
		return req.Key != ""
	case sTTL:
		return req.TTLMillis != 0
	case sQueueTTL:
		return req.QueueTTLMillis != 0
	case sGrace:
		return req.GraceMillis != 0
	case sToken:
		return req.Token != 0
	case sFlags:
		return req.Flags != 0
	case sReason:
		return req.Reason != 0
	case sAlgorithm:
		return req.Algorithm != 0
	case sDepth:
		return req.Depth != 0
	case sPage:
		return req.Page != 0
	case sTarget:
		return req.Target != 0
	case sAttempt:
		return req.Attempt != 0
	case sKinds:
		return req.Kinds != 0
	case sDelWait:
		return req.DelWait
	case sWatch:
		return req.Watch
	case sExplicit:
		return req.Explicit
	case sDetail:
		return req.Detail != ""
	case sNode:
		return req.Node != ""
	case sDrain:
		return req.Drain != 0
	case sCursor:
		return len(req.Cursor) > 0
	case sMeta:
		return len(req.Meta) > 0
	case sLocks:
		return len(req.Locks) > 0
	case sReleases:
		return len(req.Releases) > 0
	case sDomains:
		return len(req.Domains) > 0
	case sPaths:
		return len(req.Paths) > 0
	case sPositions:
		return len(req.Positions) > 0
	case sHello:
		return req.Hello != nil
	}
	panic("wire: slot is no argument")
}

// append appends the argument in a slot.
func (req *Request) append(dst []byte, s slot) []byte {
	switch s {
	case sOwner:
		return AppendStr(dst, req.Owner)
	case sBlocker:
		return AppendStr(dst, req.Blocker)
	case sPath:
		return AppendStr(dst, req.Path)
	case sNamespace:
		return AppendStr(dst, req.Namespace)
	case sKey:
		return AppendStr(dst, req.Key)
	case sTTL:
		return AppendUint(dst, req.TTLMillis)
	case sQueueTTL:
		return AppendUint(dst, req.QueueTTLMillis)
	case sGrace:
		return AppendUint(dst, req.GraceMillis)
	case sToken:
		return AppendInt(dst, req.Token)
	case sFlags:
		return AppendUint(dst, uint64(req.Flags))
	case sReason:
		return AppendUint(dst, uint64(req.Reason))
	case sAlgorithm:
		return AppendUint(dst, uint64(req.Algorithm))
	case sDepth:
		return AppendUint(dst, uint64(req.Depth))
	case sPage:
		return AppendUint(dst, uint64(req.Page))
	case sTarget:
		return AppendUint(dst, req.Target)
	case sAttempt:
		return AppendUint(dst, req.Attempt)
	case sKinds:
		return AppendUint(dst, req.Kinds)
	case sDelWait:
		return AppendBool(dst, req.DelWait)
	case sWatch:
		return AppendBool(dst, req.Watch)
	case sExplicit:
		return AppendBool(dst, req.Explicit)
	case sDetail:
		return AppendStr(dst, req.Detail)
	case sNode:
		return AppendStr(dst, req.Node)
	case sDrain:
		return AppendUint(dst, uint64(req.Drain))
	case sCursor:
		return AppendBin(dst, req.Cursor)
	case sMeta:
		return appendRaw(dst, req.Meta)
	case sLocks:
		dst = AppendArray(dst, len(req.Locks))
		for i := range req.Locks {
			dst = appendLockRequest(dst, &req.Locks[i])
		}
		return dst
	case sReleases:
		dst = AppendArray(dst, len(req.Releases))
		for _, l := range req.Releases {
			if l.Mode == ModeWrite {
				dst = AppendStr(AppendArray(dst, 1), l.Path)
			} else {
				dst = AppendUint(AppendStr(AppendArray(dst, 2), l.Path), uint64(l.Mode))
			}
		}
		return dst
	case sDomains:
		return appendStrs(dst, req.Domains)
	case sPaths:
		return appendStrs(dst, req.Paths)
	case sPositions:
		return appendPositions(dst, req.Positions)
	case sHello:
		return appendHello(dst, req.Hello)
	}
	panic("wire: slot is no argument")
}

func appendLockRequest(dst []byte, l *LockRequest) []byte {
	n := 1
	switch {
	case l.Permits != 0:
		n = 4
	case l.State != 0:
		n = 3
	case l.Mode != 0:
		n = 2
	}
	dst = AppendStr(AppendArray(dst, n), l.Path)
	if n > 1 {
		dst = AppendUint(dst, uint64(l.Mode))
	}
	if n > 2 {
		dst = AppendUint(dst, uint64(l.State))
	}
	if n > 3 {
		dst = AppendUint(dst, uint64(l.Permits))
	}
	return dst
}

// appendRaw appends an encoded value, nil when there is none.
func appendRaw(dst, raw []byte) []byte {
	if len(raw) == 0 {
		return AppendNil(dst)
	}
	return append(dst, raw...)
}

func appendStrs(dst []byte, s []string) []byte {
	dst = AppendArray(dst, len(s))
	for _, v := range s {
		dst = AppendStr(dst, v)
	}
	return dst
}

func appendPosition(dst []byte, p Position) []byte {
	dst = AppendUint(AppendArray(dst, 3), p.Log)
	return AppendUint(AppendUint(dst, p.Index), p.Ordinal)
}

func appendPositions(dst []byte, ps []Position) []byte {
	dst = AppendArray(dst, len(ps))
	for _, p := range ps {
		dst = appendPosition(dst, p)
	}
	return dst
}

func appendHello(dst []byte, h *Hello) []byte {
	if h == nil {
		return AppendNil(dst)
	}
	dst = AppendArray(dst, 10)
	dst = AppendUint(dst, h.MinVersion)
	dst = AppendUint(dst, h.MaxVersion)
	dst = AppendBin(dst, h.Session)
	dst = AppendUint(dst, h.Epoch)
	dst = AppendStr(dst, h.Credential)
	dst = AppendStr(dst, h.Client)
	dst = AppendUint(dst, h.Features)
	dst = AppendUint(dst, h.Window)
	dst = appendRaw(dst, h.Meta)
	return AppendUint(dst, h.Grace)
}

// AppendReply appends one whole frame that answers request id of operation op. An
// answer that no frame can carry is refused with ResourceExhausted: to the client
// its frame would be garbage, and the end of the connection.
func AppendReply(dst []byte, id uint64, op Op, res *Result) []byte {
	dst, from := beginFrame(dst)
	if res.Code != OK {
		n := 3
		if res.Cause != 0 {
			n++
		}
		dst = AppendArray(dst, n)
		dst = AppendUint(dst, id)
		dst = AppendUint(dst, uint64(res.Code))
		if dst = AppendStr(dst, res.Message); res.Cause != 0 {
			dst = AppendUint(dst, uint64(res.Cause))
		}
		return endFrame(dst, from)
	}
	spec := &specs[op]
	n := len(spec.Results)
	for n > 0 && !res.has(spec.Results[n-1].slot) {
		n--
	}
	dst = AppendArray(dst, 2+n)
	dst = AppendUint(dst, id)
	dst = AppendUint(dst, uint64(OK))
	for _, f := range spec.Results[:n] {
		dst = res.append(dst, f.slot)
	}
	if size := len(dst) - from - frameHead; size > MaxFrameBytes {
		var refusal Result
		refusal.Fail(Errorf(ResourceExhausted,
			"the answer of %s takes %d bytes, a frame has at most %d: ask for fewer entries", spec.Name, size,
			MaxFrameBytes))
		return AppendReply(dst[:from], id, op, &refusal)
	}
	return endFrame(dst, from)
}

var noList = new(List)

// lists answers the result's List, an empty one when it has none.
func (res *Result) lists() *List {
	if res.List == nil {
		return noList
	}
	return res.List
}

// has says that the result in a slot is not its default.
func (res *Result) has(s slot) bool {
	switch s {
	case sStatus:
		return res.Status != 0
	case sReason:
		return res.Reason != 0
	case sAlgorithm:
		return res.Algorithm != 0
	case sCycle:
		return res.Cycle != 0
	case sFlag:
		return res.Flag
	case sDone:
		return res.Done
	case sText:
		return res.Message != ""
	case sPath:
		return res.Path != ""
	case sOwner:
		return res.Owner != ""
	case sNamespace:
		return res.Namespace != ""
	case sToken:
		return res.Token != 0
	case sCurrent:
		return res.Current != 0
	case sPosition:
		return res.Position != 0
	case sCount:
		return res.Count != 0
	case sCount2:
		return res.lists().Count2 != 0
	case sCount3:
		return res.lists().Count3 != 0
	case sNames:
		return len(res.lists().Names) > 0
	case sNames2:
		return len(res.lists().Names2) > 0
	case sCursor:
		return len(res.lists().Cursor) > 0
	case sPositions:
		return len(res.lists().Positions) > 0
	case sInfos:
		return len(res.lists().Infos) > 0
	case sCovering:
		return len(res.lists().Covering) > 0
	case sWaiters:
		return len(res.lists().Waiters) > 0
	case sWelcome:
		return res.lists().Welcome != nil
	case sTopology:
		return res.lists().Topology != nil
	case sBackup:
		return res.lists().Backup != nil
	case sRows:
		return len(res.lists().Rows) > 0
	case sCause:
		return res.Cause != 0
	}
	panic("wire: slot is no result")
}

// append appends the result in a slot.
func (res *Result) append(dst []byte, s slot) []byte {
	switch s {
	case sStatus:
		return AppendUint(dst, uint64(res.Status))
	case sReason:
		return AppendUint(dst, uint64(res.Reason))
	case sAlgorithm:
		return AppendUint(dst, uint64(res.Algorithm))
	case sCycle:
		return AppendUint(dst, uint64(res.Cycle))
	case sFlag:
		return AppendBool(dst, res.Flag)
	case sDone:
		return AppendBool(dst, res.Done)
	case sText:
		return AppendStr(dst, res.Message)
	case sPath:
		return AppendStr(dst, res.Path)
	case sOwner:
		return AppendStr(dst, res.Owner)
	case sNamespace:
		return AppendStr(dst, res.Namespace)
	case sToken:
		return AppendInt(dst, res.Token)
	case sCurrent:
		return AppendInt(dst, res.Current)
	case sPosition:
		return AppendUint(dst, res.Position)
	case sCount:
		return AppendUint(dst, res.Count)
	case sCount2:
		return AppendUint(dst, res.lists().Count2)
	case sCount3:
		return AppendUint(dst, res.lists().Count3)
	case sNames:
		return appendStrs(dst, res.lists().Names)
	case sNames2:
		return appendStrs(dst, res.lists().Names2)
	case sCursor:
		return AppendBin(dst, res.lists().Cursor)
	case sPositions:
		return appendPositions(dst, res.lists().Positions)
	case sInfos:
		return appendLockInfos(dst, res.lists().Infos)
	case sCovering:
		return appendLockInfos(dst, res.lists().Covering)
	case sWaiters:
		ws := res.lists().Waiters
		dst = AppendArray(dst, len(ws))
		for i := range ws {
			dst = appendWaiterInfo(dst, &ws[i])
		}
		return dst
	case sWelcome:
		return appendWelcome(dst, res.lists().Welcome)
	case sTopology:
		return appendTopology(dst, res.lists().Topology)
	case sBackup:
		return appendBackup(dst, res.lists().Backup)
	case sRows:
		return AppendBin(dst, res.lists().Rows)
	case sCause:
		return AppendUint(dst, uint64(res.Cause))
	}
	panic("wire: slot is no result")
}

func appendLockInfos(dst []byte, ls []LockInfo) []byte {
	dst = AppendArray(dst, len(ls))
	for i := range ls {
		l := &ls[i]
		dst = AppendArray(dst, 10)
		dst = AppendStr(dst, l.Owner)
		dst = AppendStr(dst, l.Path)
		dst = AppendUint(dst, uint64(l.Mode))
		dst = AppendBool(dst, l.HasFence)
		dst = AppendInt(dst, l.Fence)
		dst = AppendInt(dst, l.SinceUnixMillis)
		dst = AppendUint(dst, l.ExpiresInMillis)
		dst = AppendUint(dst, uint64(l.Algorithm))
		dst = AppendUint(dst, uint64(l.Permits))
		dst = appendRaw(dst, l.Meta)
	}
	return dst
}

func appendWaiterInfo(dst []byte, w *WaiterInfo) []byte {
	dst = AppendArray(dst, 10)
	dst = AppendStr(dst, w.Owner)
	dst = AppendStr(dst, w.Path)
	dst = AppendUint(dst, uint64(w.Mode))
	dst = AppendInt(dst, w.Token)
	dst = AppendInt(dst, w.SinceUnixMillis)
	dst = AppendUint(dst, w.ExpiresInMillis)
	dst = AppendUint(dst, w.Position)
	dst = AppendBool(dst, w.Open)
	dst = AppendUint(dst, uint64(w.Permits))
	return appendRaw(dst, w.Meta)
}

func appendWelcome(dst []byte, w *Welcome) []byte {
	if w == nil {
		return AppendNil(dst)
	}
	dst = AppendArray(dst, 8)
	dst = AppendUint(dst, w.Version)
	dst = AppendStr(dst, w.NodeID)
	dst = AppendStr(dst, w.ClusterID)
	dst = AppendBin(dst, w.Session)
	dst = AppendUint(dst, w.Epoch)
	dst = AppendUint(dst, w.Features)
	dst = AppendArray(dst, 11)
	for _, v := range []uint64{w.Limits.FrameBytes, w.Limits.InFlight, w.Limits.Waiting,
		w.Limits.Subscriptions, w.Limits.BoundOwners, w.Limits.RepeatMillis, w.Limits.Answers,
		w.Limits.UnreadBytes, w.Limits.UnreadMillis, w.Limits.RequestMillis, w.Limits.GroupInFlight} {
		dst = AppendUint(dst, v)
	}
	return AppendStr(dst, w.ServerVersion)
}

func appendTopology(dst []byte, t *Topology) []byte {
	if t == nil {
		return AppendNil(dst)
	}
	dst = AppendArray(dst, 8)
	dst = AppendUint(dst, t.Version)
	dst = AppendStr(dst, t.Self)
	dst = AppendArray(dst, len(t.Nodes))
	for _, n := range t.Nodes {
		dst = AppendStr(AppendStr(AppendArray(dst, 2), n.NodeID), n.Native)
	}
	dst = AppendUint(dst, t.GroupLogs)
	dst = appendStrs(dst, t.Leaders)
	dst = AppendArray(dst, len(t.LogOf))
	for _, log := range t.LogOf {
		dst = AppendUint(dst, log)
	}
	dst = AppendUint(dst, t.Segments)
	return appendStrs(dst, t.Roots)
}
