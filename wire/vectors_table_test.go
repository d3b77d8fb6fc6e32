package wire

import (
	"encoding/hex"
	"fmt"
	"math"
	"strings"
)

const (
	acme    = "tenant:/acme"
	project = "tenant:/acme/projects/42"
	hiToken = 1<<62 - 1 // what a double cannot hold
)

// sessionBytes is a session's id.
var sessionBytes = []byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}

// holderMeta is metadata with everything in it.
var holderMeta = func() []byte {
	m := Metadata{Host: "web-1", PID: 4711, StartUnixMillis: 1_767_225_600_000, BootID: "b-7",
		Command: "worker --queue=mail",
		Labels:  map[string]string{"zone": "eu", "job": "mail"}}
	b, err := m.Encode()
	if err != nil {
		panic(err)
	}
	return b
}()

// vectors makes the content of testdata/vectors.json.
func vectors() (all []vector) {
	all = append(all, canonicalRequests()...)
	all = append(all, canonicalReplies()...)
	all = append(all, canonicalPushes()...)
	all = append(all, looseRequests()...)
	all = append(all, looseReplies()...)
	all = append(all, badFrames()...)
	all = append(all, wrongTypes()...)
	all = append(all, badReplies()...)
	return append(all, brokenRules()...)
}

// fullRequests is a request of each operation in which every argument is told.
func fullRequests() map[Op]*Request {
	locks := []LockRequest{{project, ModeWrite, StateNew, 0}, {acme + "/é", ModeRead, StateNew, 0},
		{acme + "/held", ModeWrite, StateHeld, 0}, {acme + "/pool", ModeWrite, StateNew, 300}}
	releases := []ReleaseRequest{{acme + "/old", ModeWrite}, {acme + "/seen", ModeRead}}
	domains := []string{acme, "tenant:/other/x", "host"}
	positions := []Position{{1, 200, 3}, {2, 70_000, 0}, {3, math.MaxUint64, math.MaxUint32 + 1}}
	return map[Op]*Request{
		OpHello: {Hello: &Hello{MinVersion: 1, MaxVersion: 3, Session: sessionBytes, Epoch: 2,
			Client: "vectors/1.0", Features: 1 << 40, Window: 64, Meta: holderMeta, Grace: 1500}},
		OpPing: {},
		OpAcquire: {Owner: "alice", TTLMillis: 30_000, Locks: locks, Token: hiToken, Releases: releases, Key: "key-1",
			QueueTTLMillis: 604_800_000, Flags: FlagWait | FlagBulk | FlagBind, Meta: holderMeta},
		OpRelease:    {Owner: "alice", Releases: releases, DelWait: true, Key: "key-2", Token: hiToken, Target: 300},
		OpReleaseAll: {Owner: "alice", DelWait: true, Key: "key-3", Domains: domains},
		OpRenew: {Owner: "alice", TTLMillis: 604_800_000, Domains: domains, Key: "key-4",
			Flags: FlagBind | FlagExtend},
		OpForceRelease:  {Owner: "bob", Key: "key-5"},
		OpAssertFencing: {Owner: "alice", Token: 1 << 53, Paths: []string{project, acme + "/x"}},
		OpDetectCycle:   {Owner: "alice", Depth: math.MaxUint32},
		OpIsBlocking:    {Path: project, Blocker: "bob", Reason: ReasonSemaphoreFull},
		OpIncrToken:     {Key: "key-6"},
		OpSetWaitEdge: {Owner: "alice", Blocker: "bob", TTLMillis: 1, Path: project, Reason: ReasonQueued,
			Key: "key-7"},
		OpClearWaitEdge: {Owner: "alice", Key: "key-8"},
		OpIsOwnerAlive:  {Owner: "alice", Domains: domains},
		OpRequestRevoke: {Owner: "bob"},
		OpSetPolicy:     {Namespace: acme, Algorithm: Semaphore, Key: "key-9"},
		OpGetPolicy:     {Namespace: "tenant"},
		OpDeletePolicy:  {Namespace: acme, Key: "key-10"},
		OpInspectPath:   {Path: project},
		OpListLocks:     {Owner: "alice", Domains: domains, Cursor: []byte{2, 1, 'h'}, Page: 100},
		OpDumpLocks:     {Cursor: []byte{1, 0, 255, 'k'}, Page: 512},
		OpSubscribe:     {Owner: "alice", Kinds: AllEvents, Positions: positions},
		OpUnsubscribe:   {Target: 9},
		OpHealth:        {},
		OpCancel:        {Target: MaxRequestID},
		OpDescribe:      {Path: project, Page: 1024},
		OpTopology:      {Watch: true},
		OpScanLocks:     {Path: acme, Cursor: []byte{1, 2, 3}, Page: 10},
		OpBind:          {Owner: "alice", GraceMillis: 1500, TTLMillis: 30_000},
		OpUnbind:        {Owner: "alice"},

		OpClusterStatus:   {},
		OpClusterTransfer: {Target: SystemLog, Node: "pathlockd-2"},
		OpNodeDrain:       {Node: "pathlockd-1", Drain: DrainReplicas},
		OpNodeResume:      {Node: "pathlockd-1"},
		OpNodeRemove:      {Node: "pathlockd-1", Explicit: true},

		OpBackupOpen:  {Target: 17, Explicit: true},
		OpBackupRead:  {Target: 5, Cursor: []byte{0, 0, 16, 0}},
		OpBackupClose: {Target: 5},
	}
}

func requestVector(name string, id uint64, req *Request) vector {
	return vector{Name: name, Direction: "request", Op: req.Op.String(), ID: id, Settled: req.Settled, Canonical: true,
		Hex: hex.EncodeToString(AppendRequest(nil, id, req)), Fields: requestFields(req)}
}

func canonicalRequests() (all []vector) {
	full := fullRequests()
	for i, op := range Ops() {
		req := full[op]
		req.Op = op
		all = append(all, requestVector(op.String()+": everything told", uint64(i)+1, req))
		if spec, _ := op.Spec(); len(spec.Args) > 0 {
			all = append(all, requestVector(op.String()+": only what it needs", 300+uint64(i), least(op)))
		}
	}
	for _, id := range []uint64{1, 127, 128, 255, 256, 65_535, 65_536, math.MaxUint32, math.MaxUint32 + 1,
		MaxRequestID} {
		all = append(all, requestVector(fmt.Sprintf("ping: id %d", id), id, &Request{Op: OpPing}))
	}
	for _, n := range []int{31, 32, 255, 256} {
		all = append(all, requestVector(fmt.Sprintf("request_revoke: owner_id of %d bytes", n), 5,
			&Request{Op: OpRequestRevoke, Owner: strings.Repeat("o", n)}))
	}
	for _, n := range []int{15, 16} {
		all = append(all, requestVector(fmt.Sprintf("is_owner_alive: %d domains", n), 5,
			&Request{Op: OpIsOwnerAlive, Owner: "alice", Domains: repeat("h", n)}))
	}
	for _, settled := range []uint64{1, 4, 5} {
		all = append(all, requestVector(fmt.Sprintf("renew: all below %d is settled", settled), 5,
			with(OpRenew, func(r *Request) { r.Settled = settled })))
	}
	return append(all,
		requestVector("request_revoke: the highest id is settled below", MaxRequestID,
			&Request{Op: OpRequestRevoke, Owner: "bob", Settled: MaxRequestID}),
		requestVector("hello: wants to be told of its leases", 1, &Request{Op: OpHello,
			Hello: &Hello{MinVersion: 1, MaxVersion: 1, Epoch: 1, Client: "vectors/1.0", Features: FeatureLeases}}),
		requestVector("hello: wants redirects", 1, &Request{Op: OpHello,
			Hello: &Hello{MinVersion: 1, MaxVersion: 1, Epoch: 1, Client: "vectors/1.0", Features: FeatureRedirect}}),
		requestVector("acquire: a default between two told", 5, with(OpAcquire, func(r *Request) { r.Key = "k" })),
		requestVector("acquire: no requests", 5, with(OpAcquire, func(r *Request) { r.Locks = nil })),
		requestVector("acquire: a negative token asks for a new one", 5,
			with(OpAcquire, func(r *Request) { r.Token = -1 })),
		requestVector("acquire: the lowest token", 5, with(OpAcquire, func(r *Request) { r.Token = math.MinInt64 })),
		requestVector("assert_fencing: no paths, no token", 5, &Request{Op: OpAssertFencing, Owner: "alice"}),
		requestVector("subscribe: empty cursor", 5, &Request{Op: OpSubscribe, Owner: "alice", Kinds: DefaultEvents}),
	)
}

// fullResults is an answer of each operation in which every field is told.
func fullResults() map[Op]*Result {
	locks := []LockInfo{
		{Owner: "alice", Path: project, HasFence: true, Fence: hiToken, SinceUnixMillis: 1_767_225_600_000,
			ExpiresInMillis: 29_000, Algorithm: PointRW, Meta: holderMeta},
		{Owner: "bob", Path: acme + "/pool", Mode: ModeRead, Algorithm: Semaphore, Permits: math.MaxUint32},
	}
	waiters := []WaiterInfo{
		{Owner: "carol", Path: project, Token: hiToken, SinceUnixMillis: 1_767_225_600_000, ExpiresInMillis: 60_000,
			Position: 1, Open: true, Meta: holderMeta},
		{Owner: "dave", Path: acme, Mode: ModeRead, Position: 2, Permits: 3},
	}
	return map[Op]*Result{
		OpHello: {List: &List{Welcome: &Welcome{Version: 1, NodeID: "pathlockd-0", ClusterID: "3f0c",
			Session: sessionBytes,
			Epoch:   2, Features: FeatureRedirect, ServerVersion: "1.2.3",
			Limits: Limits{FrameBytes: MaxFrameBytes, InFlight: 256, Waiting: 16_384, Subscriptions: 256,
				BoundOwners: 1024, RepeatMillis: 60_000, Answers: 1024,
				UnreadBytes: 1 << 20, UnreadMillis: 30_000, RequestMillis: 30_000, GroupInFlight: 1024}}}},
		OpPing: {},
		OpAcquire: {Status: StatusConflict, Path: project, Owner: "bob", Reason: ReasonStaleFencingToken,
			Token:   hiToken,
			Current: hiToken - 1, Namespace: acme, Position: 2},
		OpRelease: {}, OpReleaseAll: {},
		OpRenew:         {Status: RenewLost, Path: acme, Reason: ReasonMissingAlive, Flag: true},
		OpForceRelease:  {},
		OpAssertFencing: {Status: AssertFail, Path: project, Reason: ReasonStaleOwner},
		OpDetectCycle:   {Cycle: CycleTruncated, List: &List{Names: []string{"alice", "bob"}}},
		OpIsBlocking:    {Flag: true},
		OpIncrToken:     {Token: math.MaxInt64},
		OpSetWaitEdge:   {}, OpClearWaitEdge: {},
		OpIsOwnerAlive:  {Flag: true},
		OpRequestRevoke: {}, OpSetPolicy: {},
		OpGetPolicy:    {Algorithm: Semaphore, Flag: true},
		OpDeletePolicy: {},
		OpInspectPath: {Owner: "alice", Flag: true, Token: hiToken,
			List: &List{Names: []string{"bob", "carol"}, Names2: []string{"dave"}}},
		OpListLocks:   {Flag: true, Done: true, List: &List{Infos: locks, Cursor: []byte{2, 0, 'h'}}},
		OpDumpLocks:   {Done: true, List: &List{Infos: locks, Cursor: []byte{1, 0, 7}}},
		OpSubscribe:   {Count: 1, List: &List{Positions: []Position{{1, 200, 3}, {2, math.MaxUint64, 0}}}},
		OpUnsubscribe: {},
		OpHealth:      {Flag: true, Message: "ready"},
		OpCancel:      {},
		OpDescribe: {Namespace: acme, Algorithm: PointWrite, Flag: true, Token: hiToken, Count: 70_000,
			List: &List{Infos: locks, Covering: locks[:1], Waiters: waiters, Count2: 3, Count3: 4}},
		OpTopology: {List: &List{Topology: &Topology{Version: 7, Self: "pathlockd-0", GroupLogs: 256,
			Nodes:   []NodeAddr{{"pathlockd-0", "10.0.0.1:50050"}, {"pathlockd-1", "10.0.0.2:50050"}},
			Leaders: []string{"pathlockd-0", "", "pathlockd-1"},
			LogOf:   []uint64{0, 1, 2, 0}, Segments: 1, Roots: []string{"host", "tenant:/acme/projects"}}}},
		OpScanLocks: {Done: true, List: &List{Infos: locks[1:], Cursor: []byte{1, 0, 8, 'k'}}},
		OpBind:      {Status: RenewLost, Path: acme, Reason: ReasonMissingAlive, Flag: true},
		OpUnbind:    {},

		OpClusterStatus:   {Message: `{"cluster_id":"3f0c","healthy":true}`},
		OpClusterTransfer: {},
		OpNodeDrain:       {Message: "every log will have 1 voter"},
		OpNodeResume:      {},
		OpNodeRemove:      {Message: "it is still alive"},

		OpBackupOpen: {List: &List{Backup: &Backup{ID: 5, Log: 17, AppliedIndex: math.MaxUint64,
			UnixMillis: 1_767_225_600_000,
			Changes:    3, ClusterID: "3f0c", GroupCount: 256, LogCount: 16, PrefixSegments: 1, Algorithm: PointRW,
			Replication: 3}}},
		OpBackupRead:  {Done: true, List: &List{Rows: []byte{1, 3, 'g', 0}, Cursor: []byte{0, 0, 16, 4}}},
		OpBackupClose: {},
	}
}

func replyVector(name string, id uint64, op Op, res *Result) vector {
	v := vector{Name: name, Direction: "reply", Op: op.String(), ID: id, Canonical: true,
		Hex: hex.EncodeToString(AppendReply(nil, id, op, res)), Code: res.Code, Message: res.Message, Cause: res.Cause}
	if res.Code == OK {
		v.Message, v.Fields = "", resultFields(op, res)
	}
	return v
}

func canonicalReplies() (all []vector) {
	full := fullResults()
	for i, op := range Ops() {
		all = append(all, replyVector("reply of "+op.String()+": everything told", uint64(i)+1, op, full[op]))
		if spec, _ := op.Spec(); len(spec.Results) > 0 && op != OpHello {
			all = append(all, replyVector("reply of "+op.String()+": all defaults", 300+uint64(i), op, &Result{}))
		}
	}
	for code, name := range codeNames {
		if code != 0 {
			all = append(all, replyVector("refusal: "+name, 5, OpAcquire,
				&Result{Code: Code(code), Message: name + ": why"}))
		}
	}
	return append(all,
		replyVector("refusal: FORGOTTEN", 5, OpAcquire,
			&Result{Code: Forgotten, Message: "the answer is not kept any more"}),
		replyVector("refusal: REDIRECT", 5, OpAcquire, &Result{Code: Redirect, Message: "pathlockd-1"}),
		replyVector("refusal: a wait's time was over", 5, OpAcquire, &Result{Code: DeadlineExceeded, Message: "waited",
			Cause: CauseWaitOver}),
		replyVector("refusal: a hello with an old epoch", 5, OpHello,
			&Result{Code: FailedPrecondition, Message: "epoch", Cause: CauseEpoch}),
		replyVector("refusal: no message", MaxRequestID, OpAcquire, &Result{Code: Unavailable}),
		replyVector("reply of acquire: OK", 5, OpAcquire, &Result{Token: 1, Namespace: acme}),
		replyVector("reply of acquire: OK, token of 64 bits", 5, OpAcquire, &Result{Token: hiToken, Namespace: acme}),
		replyVector("reply of acquire: OK, token that a double cannot hold", 5, OpAcquire,
			&Result{Token: 1<<53 + 1, Namespace: acme}),
		replyVector("reply of acquire: QUEUED", 5, OpAcquire, &Result{Status: StatusQueued, Path: project, Owner: "bob",
			Reason: ReasonWriteLocked, Token: 9, Namespace: acme, Position: 1}),
		replyVector("reply of acquire: LOST", 5, OpAcquire, &Result{Status: StatusLost, Path: project,
			Reason: ReasonMissingWrite}),
		replyVector("reply of acquire: wrong permits", 5, OpAcquire, &Result{Status: StatusConflict, Path: project,
			Owner: "3", Reason: ReasonInvalidPermits}),
	)
}

func pushVector(name string, p push) vector {
	return vector{Name: name, Direction: "push", Kind: pushNames[p.kind], Canonical: true,
		Hex: hex.EncodeToString(p.frame()), Fields: p.fields()}
}

func canonicalPushes() []vector {
	at := Position{2, 70_000, 3}
	return []vector{
		pushVector("push queued", push{kind: PushQueued,
			queued: Queued{ID: 7, Result: Result{Status: StatusQueued, Path: project,
				Owner: "bob", Reason: ReasonWriteLocked, Token: hiToken, Namespace: acme, Position: 3}}}),
		pushVector("push event: GRANT", push{kind: PushEvent, event: Event{1, 2, EventGrant, "alice", project, acme,
			hiToken, at}}),
		pushVector("push event: KILLED, everywhere",
			push{kind: PushEvent, event: Event{1, 3, EventKilled, "alice", "", "", 0, at}}),
		pushVector("push event: EXPIRED", push{kind: PushEvent, event: Event{1, 4, EventExpired, "alice", "", acme, 0,
			Position{0, math.MaxUint64, 0}}}),
		pushVector("push progress", push{kind: PushProgress, progress: Progress{1, []Position{at, {3, 4, 5}}}}),
		pushVector("push gap: no positions", push{kind: PushGap, progress: Progress{Subscription: 1}}),
		pushVector("push topology", push{kind: PushTopology, topology: fullResults()[OpTopology].List.Topology}),
		pushVector("push topology: empty", push{kind: PushTopology, topology: new(Topology)}),
		pushVector("push lease: KILLED", push{kind: PushLease, lease: LeaseEvent{EventKilled, "alice", acme,
			[]uint64{1, AcquireMark([SessionBytes]byte(sessionBytes), 5), math.MaxUint64}}}),
		pushVector("push lease: EXPIRED, no acquires",
			push{kind: PushLease, lease: LeaseEvent{EventExpired, "alice", acme, nil}}),
		pushVector("push lease: REVOKE", push{kind: PushLease, lease: LeaseEvent{EventRevoke, "alice", acme,
			[]uint64{1}}}),
		pushVector("push lease: some were missed", push{kind: PushLease}),
		pushVector("push goodbye", push{kind: PushGoodbye,
			goodbye: &Error{Code: Unavailable, Message: "the server stops"}}),
	}
}

// packed writes msgpack by hand: strings of hexadecimal, and Go strings in quotes
// as fixstr.
func packed(parts ...string) []byte {
	var b []byte
	for _, part := range parts {
		if s, ok := strings.CutPrefix(part, `"`); ok {
			b = AppendStr(b, strings.TrimSuffix(s, `"`))
			continue
		}
		raw, err := hex.DecodeString(strings.ReplaceAll(part, " ", ""))
		if err != nil {
			panic(fmt.Sprintf("packed %q: %v", part, err))
		}
		b = append(b, raw...)
	}
	return b
}

// nested is n arrays in one another.
func nested(n int) string { return strings.Repeat("91", n-1) + "90" }

// looseRequests are requests as our encoder would not write them.
func looseRequests() (all []vector) {
	add := func(name string, id uint64, req *Request, parts ...string) {
		all = append(all, vector{Name: name, Direction: "request", Op: req.Op.String(), ID: id, Settled: req.Settled,
			Hex: hex.EncodeToString(framed(packed(parts...))), Fields: requestFields(req)})
	}
	lock := func(change func(*Request)) *Request {
		return with(OpAcquire, func(r *Request) {
			r.TTLMillis, r.Locks = 1000, []LockRequest{{Path: "h:/a"}}
			if change != nil {
				change(r)
			}
		})
	}
	add("acquire: trailing defaults told", 7, lock(nil),
		"9b 07 03", `"alice"`, "cd 03e8", "91 94", `"h:/a"`, "00 00 00", "00 90 a0 00 00 c0")
	add("acquire: nil for every default", 7, lock(nil),
		"9b 07 03", `"alice"`, "cd 03e8", "91 94", `"h:/a"`, "c0 c0 c0", "c0 c0 c0 c0 c0 c0")
	add("acquire: nil for requests", 7, lock(func(r *Request) { r.Locks = nil }),
		"95 07 03", `"alice"`, "cd 03e8", "c0")
	add("acquire: unknown trailing arguments of every type", 7, lock(func(r *Request) { r.Flags = FlagNoQueue }),
		"dc 0016 07 03", `"alice"`, "cd 03e8", "91 91", `"h:/a"`, "00 90 a0 00 02 c0",
		"01", "a3 616263", "c4 02 0102", "c2", "ca 3f800000", "cb 3ff0000000000000", "d4 01 02", "c7 02 05 0102",
		"82 a1 61 92 01 02 c0 80", "df 00000000", nested(16))
	add("acquire: unknown trailing members of elements", 7, lock(func(r *Request) {
		r.Releases = []ReleaseRequest{{"h:/b", ModeRead}}
	}), "97 07 03", `"alice"`, "cd 03e8", "91 98", `"h:/a"`, "00 00 00", `"later"`, nested(16), "c0", "00",
		"00 91 94", `"h:/b"`, "01", "81 01 02", "c3")
	add("acquire: all integers in eight bytes", 7, lock(func(r *Request) {
		r.Locks = []LockRequest{{"h:/a", ModeRead, StateHeld, 5}}
		r.Token, r.QueueTTLMillis, r.Flags = 9, 10, FlagBind
	}), "dd 0000000a", "cf 0000000000000007", "d3 0000000000000003", `"alice"`, "d3 00000000000003e8",
		"dd 00000001 dc 0004", `"h:/a"`, "cf 0000000000000001", "d3 0000000000000001", "d3 0000000000000005",
		"cf 0000000000000009", "dc 0000", "a0", "cf 000000000000000a", "d3 0000000000000008")
	add("acquire: integers of every width", 7, lock(func(r *Request) {
		r.Locks = []LockRequest{{"h:/a", ModeRead, StateHeld, 5}}
		r.Token, r.QueueTTLMillis, r.Flags = -3, 10, FlagBind
	}), "9a", "cc 07", "d0 03", `"alice"`, "d2 000003e8",
		"91 94", `"h:/a"`, "d1 0001", "ce 00000001", "cd 0005", "d1 fffd", "90", "a0", "d2 0000000a", "d0 08")
	add("assert_fencing: a token above 2^53 as a signed integer", 7,
		&Request{Op: OpAssertFencing, Owner: "alice", Token: 1<<53 + 1, Paths: []string{"h:/a"}},
		"95 07 08", `"alice"`, "d3 0020000000000001", "91", `"h:/a"`)
	add("acquire: binary for strings", 7, lock(func(r *Request) { r.Key = "k" }),
		"98 07 03", "c4 05 616c696365", "cd 03e8", "91 91 c5 0004 683a2f61", "00 90 c6 00000001 6b")
	add("acquire: long forms of strings", 7, lock(func(r *Request) { r.Key = "k" }),
		"98 07 03", "d9 05 616c696365", "cd 03e8", "91 91 da 0004 683a2f61", "00 90 db 00000001 6b")
	add("dump_locks: a string for binary", 7, &Request{Op: OpDumpLocks, Cursor: []byte("abc")},
		"93 07 15 a3 616263")
	add("hello: session as a string", 7, with(OpHello, func(r *Request) {
		r.Hello = &Hello{MinVersion: 1, MaxVersion: 1, Session: []byte("0123456789abcdef"), Epoch: 1}
	}), "93 07 01 94 01 01", `"0123456789abcdef"`, "01")
	add("hello: nil and unknown members", 7, with(OpHello, func(r *Request) {
		r.Hello = &Hello{MinVersion: 1, MaxVersion: 1, Client: "c"}
	}), "93 07 01 9c 01 01 c0 c0 c0", `"c"`, "c0 c0 c0 c0", "a1 78", "81 c0 c0")
	add("hello: metadata without its tail", 7, with(OpHello, func(r *Request) {
		r.Hello = &Hello{MinVersion: 1, MaxVersion: 1, Meta: packed("92", `"web-1"`, "07")}
	}), "93 07 01 99 01 01 c0 c0 c0 c0 c0 c0 92", `"web-1"`, "07")
	add("acquire: metadata with nil, unknown members and a wide map", 7, lock(func(r *Request) {
		r.Meta = packed("98", `"web-1"`, "d3 0000000000000007 c0 c0 c4 01 63 df 00000001", `"a"`, `"b"`,
			"c0", nested(15))
	}), "9b 07 03", `"alice"`, "cd 03e8", "91 91", `"h:/a"`, "c0 c0 c0 c0 c0",
		"98", `"web-1"`, "d3 0000000000000007 c0 c0 c4 01 63 df 00000001", `"a"`, `"b"`, "c0", nested(15))
	add("release: an empty list", 7, &Request{Op: OpRelease, Owner: "alice"}, "94 07 04", `"alice"`, "90")
	add("release: a list of the widest form", 7,
		&Request{Op: OpRelease, Owner: "alice", Releases: []ReleaseRequest{{"h:/a", 0}}},
		"94 07 04", `"alice"`, "dd 00000001 dd 00000002", `"h:/a"`, "00")
	add("ping: an id alone in an array", 7, &Request{Op: OpPing}, "92 91 07 02")
	add("ping: nil for what is settled", 7, &Request{Op: OpPing}, "92 92 07 c0 02")
	add("ping: more beside the id than is known", 7, &Request{Op: OpPing, Settled: 3}, "92 95 07 03 a3 616263",
		nested(3), "c0", "02")
	add("ping: with arguments", 7, &Request{Op: OpPing}, "94 07 02 01", nested(16))
	add("subscribe: positions without their tails", 7, &Request{Op: OpSubscribe, Owner: "alice",
		Positions: []Position{{}, {1, 0, 0}, {2, 3, 0}, {}}},
		"95 07 16", `"alice"`, "00", "94 90 91 01 92 02 03 c0")
	return all
}

// looseReplies are replies and pushes as our encoder would not write them.
func looseReplies() (all []vector) {
	add := func(name string, op Op, res *Result, parts ...string) {
		v := replyVector(name, 7, op, res)
		v.Hex, v.Canonical = hex.EncodeToString(framed(packed(parts...))), false
		all = append(all, v)
	}
	add("reply of acquire: defaults told", OpAcquire, &Result{}, "9a 07 00 00 a0 a0 00 00 00 a0 00")
	add("reply of acquire: nil for every default", OpAcquire, &Result{}, "9a 07 c0 c0 c0 c0 c0 c0 c0 c0 c0")
	add("reply of acquire: unknown trailing fields", OpAcquire, &Result{Token: 9, Namespace: "h:/a"},
		"9d 07 00 00 a0 a0 00 09 00", `"h:/a"`, "00 a1 78", nested(16), "c7 02 05 0102")
	add("reply of acquire: wide integers, binary for strings", OpAcquire, &Result{Status: StatusQueued, Path: "h:/a",
		Owner:  "bob",
		Reason: ReasonWriteLocked, Token: -1, Namespace: "h:/a", Position: 1},
		"dc 000a d3 0000000000000007 cf 0000000000000000 cc 03 c4 04 683a2f61 d9 03 626f62 cd 0002 d3 "+
			"ffffffffffffffff c0 c5 0004 683a2f61 ce 00000001")
	add("reply of list_owner_locks: locks without their tails", OpListLocks,
		&Result{Flag: true, List: &List{Infos: []LockInfo{
			{Owner: "alice", Path: "h:/a"}, {}}}}, "94 07 00 c3 92 92", `"alice"`, `"h:/a"`, "90")
	add("reply of hello: unknown limits", OpHello,
		&Result{List: &List{Welcome: &Welcome{Version: 1, Limits: Limits{FrameBytes: 1, InFlight: 2}}}},
		"93 07 00 99 01 a0 a0 c4 00 00 00 dc 0012 01 02 00 00 00 00 00 00 00 00 00 00 00 00 00 00 07 08 a0 07")
	add("refusal: unknown trailing fields", OpAcquire, &Result{Code: InvalidArgument, Message: "m"},
		"96 07 03 a1 6d 00 01", nested(16))
	add("refusal: nothing but a code", OpAcquire, &Result{Code: Internal}, "92 07 0d")

	push := func(name string, p push, parts ...string) {
		v := pushVector(name, p)
		v.Hex, v.Canonical = hex.EncodeToString(framed(packed(parts...))), false
		all = append(all, v)
	}
	push("push queued: without its tail", pushOf(PushQueued), "92 00 01")
	push("push event: without its tail", pushOf(PushEvent), "92 00 02")
	push("push event: unknown trailing fields",
		pushOfEvent(Event{1, 2, EventGrant, "a", "h:/a", "h:/a", 3, Position{1, 2, 3}}),
		"9c 00 02 01 02 03 a1 61", `"h:/a"`, `"h:/a"`, "03 94 01 02 03 04", "81 a1 61 01", "c3")
	push("push event: a kind of a newer server", pushOfEvent(Event{Subscription: 1, Number: 2, Kind: 99}),
		"95 00 02 01 02 63")
	push("push progress: without its tail", pushOf(PushProgress), "92 00 03")
	push("push gap: unknown trailing fields", pushOf(PushGap), "96 00 04 00 90 01 02")
	push("push topology: without its tail", pushOf(PushTopology), "92 00 05")
	push("push lease: without its tail", pushOf(PushLease), "92 00 07")
	push("push lease: unknown trailing fields", pushOfLease(LeaseEvent{EventKilled, "a", "h:/a", []uint64{7}}),
		"98 00 07 01 a1 61", `"h:/a"`, "91 cd 0007", "81 a1 61 01", "c3")
	push("push lease: a kind of a newer server", pushOfLease(LeaseEvent{Kind: 99}), "93 00 07 63")
	push("push lease: nil for what it names", pushOfLease(LeaseEvent{Kind: EventKilled}), "96 00 07 01 c0 c0 c0")
	push("push goodbye: without its tail", pushOf(PushGoodbye), "92 00 06")
	push("push goodbye: unknown trailing fields", pushOf(PushGoodbye), "96 00 06 c0 c0", nested(16), "01")
	return all
}

func pushOf(kind PushKind) push {
	return push{kind: kind, topology: new(Topology), goodbye: new(Error)}
}

func pushOfEvent(e Event) push { return push{kind: PushEvent, event: e} }

func pushOfLease(e LeaseEvent) push { return push{kind: PushLease, lease: e} }

// badFrames are what is no request, or none the server knows.
func badFrames() (all []vector) {
	frame := func(name, answer string, code Code, says string, bytes []byte) {
		all = append(all, vector{Name: name, Direction: "request", Hex: hex.EncodeToString(bytes),
			Reject: &reject{answer, code, says}})
	}
	frame("frame: nothing", "wait", OK, "", nil)
	frame("frame: half a length", "wait", OK, "", packed("0000"))
	frame("frame: half a payload", "wait", OK, "", packed("00000003 92 01"))
	frame("frame: length 0", "goodbye", InvalidArgument, "length 0", packed("00000000"))
	frame("frame: longer than the limit", "goodbye", InvalidArgument, "longer than the limit", packed("00410001 92"))
	frame("frame: the longest length there is", "goodbye", InvalidArgument, "longer than the limit", packed("ffffffff"))
	frame("frame: the longest allowed, unfinished", "wait", OK, "", packed("00410000 92"))

	shape := "want a msgpack array [id, op, arguments…] with an id from 1 to 2^53-1"
	for _, b := range []struct{ name, bytes string }{
		{"an integer", "07"}, {"a string", "a3 616263"}, {"nil", "c0"}, {"a map", "82 01 02 03 04"}, {"0xc1", "c1"},
		{"an extension", "d4 01 02"}, {"an empty array", "90"}, {"an id alone", "91 07"},
		{"id 0", "92 00 02"}, {"id nil", "92 c0 02"}, {"id negative", "92 ff 02"}, {"id a string", "92 a1 37 02"},
		{"id a float", "92 cb 401c000000000000 02"}, {"id true", "92 c3 02"},
		{"id 2^53", "92 cf 0020000000000000 02"}, {"id 2^64-1", "92 cf ffffffffffffffff 02"},
		{"op a string", "92 07 a4 70696e67"}, {"op negative", "92 07 ff"}, {"op a float", "92 07 ca 40000000"},
		{"op 0xc1", "92 07 c1"}, {"id 0xc1", "92 c1 02"},
		{"an array of four with one element", "94 07"}, {"an id cut short", "92 cf 00000000"},
		{"no id in an array", "92 90 02"}, {"id 0 in an array", "92 92 00 00 02"},
		{"an id in two arrays", "92 91 91 07 02"},
		{"settled a string", "92 92 07 a1 37 02"}, {"settled negative", "92 92 07 ff 02"},
		{"an array of an id that promises more than there is", "92 dd 00ffffff 07 02"},
		{"an array header cut short", "dc 00"},
	} {
		frame("payload: "+b.name, "goodbye", InvalidArgument, shape, framed(packed(b.bytes)))
	}
	for _, op := range []uint64{0, 31, 49, 55, 63, 64, 74, 75, 255, 256, 259, math.MaxUint64} {
		frame(fmt.Sprintf("op %d", op), "reply", Unimplemented, fmt.Sprintf("op %d", op),
			framed(AppendUint(packed("92 07"), op)))
	}
	frame("op nil", "reply", Unimplemented, "op 0", framed(packed("92 07 c0")))

	bad := func(name, says string, parts ...string) {
		frame(name, "reply", InvalidArgument, says, framed(packed(parts...)))
	}
	bad("ping: its own id is settled", "settled: 8 is above", "92 92 07 08 02")
	bad("ping: four thousand millions of arguments, and none is there", "past the end", "dd ffffffff 07 02")
	bad("release: nine arguments, and one is there", "requests: ", "9b 07 04", `"alice"`)
	bad("acquire: one argument too few", "ttl_ms: ", "94 07 03", `"alice"`)
	bad("ping: a byte after the array", "1 bytes follow", "92 07 02 00")
	bad("ping: a second request in the frame", "3 bytes follow", "92 07 02 92 08 02")
	bad("ping: 17 arrays in one another", "nested deeper than 16", "93 07 02", nested(17))
	bad("ping: 17 maps in one another", "nested deeper than 16", "93 07 02", strings.Repeat("81 01", 16)+"80")
	bad("ping: 17 arrays in one another, cut short", "past the end", "93 07 02", strings.Repeat("91", 17))
	bad("ping: an unknown argument is 0xc1", "0xc1", "93 07 02 c1")
	bad("ping: an unknown argument holds 0xc1", "0xc1", "93 07 02 92 01 c1")
	bad("ping: an unknown string is cut short", "past the end", "93 07 02 a5 61")
	bad("ping: an unknown extension is cut short", "past the end", "93 07 02 c7 05 01 02")
	bad("ping: an unknown extension of four thousand millions of bytes", "past the end", "93 07 02 c9 ffffffff 01 02")
	bad("ping: an unknown array promises more than there is", "past the end", "93 07 02 dd 00ffffff 01")
	bad("ping: an unknown map promises more than there is", "past the end", "93 07 02 df ffffffff 01")
	bad("acquire: 17 arrays in a lock", "requests: ", "95 07 03", `"alice"`, "01 91 95", `"h:/a"`,
		"00 00 00", nested(17))
	bad("acquire: owner_id cut short", "owner_id: ", "93 07 03 a5 61 6c")
	bad("acquire: ttl_ms cut short", "ttl_ms: ", "94 07 03", `"alice"`, "cd 03")
	bad("acquire: requests promises more than there is", "requests: ", "95 07 03", `"alice"`,
		"01 dd 00010000 91", `"h:/a"`)
	bad("acquire: owner_id is 0xc1", "owner_id: ", "93 07 03 c1")
	bad("acquire: requests are 0xc1", "requests: ", "95 07 03", `"alice"`, "01 91 c1")
	bad("acquire: ttl_ms is a float", "ttl_ms: ", "94 07 03", `"alice"`, "cb 408f400000000000")
	bad("acquire: ttl_ms is negative", "ttl_ms: ", "94 07 03", `"alice"`, "d1 fc18")
	bad("acquire: fencing_token does not fit", "fencing_token: ", "96 07 03", `"alice"`, "01 90 cf 8000000000000000")
	bad("acquire: permits do not fit", "requests: permits: msgpack: integer out of range: 4294967296, must be at "+
		"most 4294967295", "95 07 03", `"alice"`, "01 91 94", `"h:/a"`, "00 00 cf 0000000100000000")
	bad("acquire: permits are negative", "requests: ", "95 07 03", `"alice"`, "01 91 94", `"h:/a"`, "00 00 ff")
	bad("acquire: mode 256", "requests: mode 255", "95 07 03", `"alice"`, "01 91 92", `"h:/a"`, "cd 0100")
	bad("acquire: state 2^64-1", "requests: state 255", "95 07 03", `"alice"`, "01 91 93", `"h:/a"`,
		"00 cf ffffffffffffffff")
	bad("acquire: a lock is nil", "requests", "95 07 03", `"alice"`, "01 91 c0")
	bad("acquire: a lock is a string", "requests: ", "95 07 03", `"alice"`, "01 91", `"h:/a"`)
	bad("set_namespace_policy: algorithm 260", "algorithm 255", "94 07 10", `"h:/a"`, "cd 0104")
	bad("detect_cycle: max_depth does not fit",
		"max_depth: msgpack: integer out of range: 4294967296, must be at most 4294967295", "94 07 09", `"alice"`,
		"cf 0000000100000000")
	bad("dump_locks: owner_page does not fit", "owner_page: ", "94 07 15 c0 cf 0000000100000000")
	bad("release_all: 1025 domains of one byte", "domains: has 1025 entries", "96 07 05", `"alice"`, "c2 a0", "dc 0401",
		strings.Repeat("c0", 1025))
	bad("subscribe: 1025 positions of one byte", "cursor: has 1025 entries", "95 07 16", `"alice"`, "00", "dc 0401",
		strings.Repeat("c0", 1025))
	return all
}

// wrongTypes is every argument of every operation as something it is not.
func wrongTypes() (all []vector) {
	for _, op := range Ops() {
		spec, _ := op.Spec()
		for i, f := range spec.Args {
			wrong, what := "07", "an integer"
			switch slotTypes[f.slot] {
			case "uint", "token":
				wrong, what = "a1 37", "a string"
			case "bool":
				wrong, what = "01", "an integer"
			}
			payload := AppendUint(AppendUint(AppendArray(nil, 3+i), 7), uint64(op))
			req := least(op)
			for _, before := range spec.Args[:i] {
				payload = req.append(payload, before.slot)
			}
			payload = append(payload, packed(wrong)...)
			all = append(all, vector{Name: fmt.Sprintf("%v: %s is %s", op, f.Name, what), Direction: "request",
				Hex: hex.EncodeToString(framed(payload)), Reject: &reject{"reply", InvalidArgument, f.Name + ": "}})
		}
	}
	return all
}

// badReplies are what a client must not believe.
func badReplies() (all []vector) {
	add := func(name string, op Op, parts ...string) {
		v := vector{Name: name, Direction: "reply", Hex: hex.EncodeToString(framed(packed(parts...))),
			Reject: &reject{Answer: "close"}}
		if op != 0 {
			v.Op = op.String()
		}
		all = append(all, v)
	}
	add("reply: no array", 0, "07")
	add("reply: an id alone", 0, "91 07")
	add("reply: id is a string", 0, "92 a1 37 00")
	add("reply: id is negative", 0, "92 ff 00")
	add("reply: code is a string", 0, "92 07 a1 30")
	add("reply: cut short", 0, "94 07 00")
	add("reply of acquire: status is a string", OpAcquire, "93 07 00 a1 30")
	add("reply of acquire: status is negative", OpAcquire, "93 07 00 ff")
	add("reply of acquire: fencing_token does not fit", OpAcquire, "97 07 00 00 a0 a0 00 cf 8000000000000000")
	add("reply of acquire: path is an integer", OpAcquire, "94 07 00 00 07")
	add("reply of list_owner_locks: locks promise more than there is", OpListLocks, "94 07 00 c3 dd 00ffffff")
	add("reply of list_owner_locks: a lock is an integer", OpListLocks, "94 07 00 c3 91 07")
	add("reply of ping: 17 arrays in one another", OpPing, "93 07 00", nested(17))
	add("reply of hello: welcome is a string", OpHello, "93 07 00 a1 78")
	add("refusal: message is an integer", OpPing, "93 07 03 07")

	push := func(name, answer string, parts ...string) {
		all = append(all, vector{Name: name, Direction: "push", Hex: hex.EncodeToString(framed(packed(parts...))),
			Reject: &reject{Answer: answer}})
	}
	push("push: kind is a string", "close", "92 00 a1 31")
	push("push: a kind of a newer server", "ignore", "94 00 63 01 81 01 02")
	push("push: a kind that does not fit", "ignore", "93 00 cd 0102 01")
	push("push: kind 0", "ignore", "92 00 00")
	push("push event: subscription is negative", "close", "93 00 02 ff")
	push("push event: position is an integer", "close", "9a 00 02 01 02 03 a0 a0 a0 00 07")
	push("push progress: cursor is a string", "close", "94 00 03 01 a1 78")
	push("push lease: kind is a string", "close", "93 00 07 a1 31")
	push("push lease: owner is an integer", "close", "94 00 07 01 02")
	push("push lease: acquires is an integer", "close", "96 00 07 01 a0 a0 07")
	push("push lease: an acquire is negative", "close", "96 00 07 01 a0 a0 91 ff")
	push("push lease: acquires cut short", "close", "96 00 07 01 a0 a0 92 01")
	push("push goodbye: cut short", "close", "94 00 06 03")
	return all
}

// Long requests stand once for each rule, and the longest not at all, so that the
// file can be read.
const (
	longVectorBytes = 300
	mostVectorBytes = 10 << 10
)

// brokenRules are the rules of Validate, broken by one request each.
func brokenRules() (all []vector) {
	told := make(map[string]bool)
	for _, r := range rules() {
		if r.code == OK {
			continue
		}
		frame := AppendRequest(nil, 7, r.req)
		if what := strings.Join(r.says, " "); len(frame) > longVectorBytes {
			if told[what] || len(frame) > mostVectorBytes {
				continue
			}
			told[what] = true
		}
		all = append(all, vector{Name: "rule: " + r.name, Direction: "request", Hex: hex.EncodeToString(frame),
			Reject: &reject{"reply", r.code, strings.Trim(r.says[0], `"`)}})
	}
	return all
}
