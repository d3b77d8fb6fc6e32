package wire

// Op is the number of an operation of the native protocol.
type Op uint8

// Operations. Numbers are part of the protocol and never reused.
const (
	OpHello         Op = 1
	OpPing          Op = 2
	OpAcquire       Op = 3
	OpRelease       Op = 4
	OpReleaseAll    Op = 5
	OpRenew         Op = 6
	OpForceRelease  Op = 7
	OpAssertFencing Op = 8
	OpDetectCycle   Op = 9
	OpIsBlocking    Op = 10
	OpIncrToken     Op = 11
	OpSetWaitEdge   Op = 12
	OpClearWaitEdge Op = 13
	OpIsOwnerAlive  Op = 14
	OpRequestRevoke Op = 15
	OpSetPolicy     Op = 16
	OpGetPolicy     Op = 17
	OpDeletePolicy  Op = 18
	OpInspectPath   Op = 19
	OpListLocks     Op = 20
	OpDumpLocks     Op = 21
	OpSubscribe     Op = 22
	OpUnsubscribe   Op = 23
	OpHealth        Op = 24
	OpCancel        Op = 25
	OpDescribe      Op = 26
	OpTopology      Op = 27
	OpScanLocks     Op = 28
	OpBind          Op = 29
	OpUnbind        Op = 30

	// Administration of the cluster: natively alone.
	OpClusterStatus   Op = 50
	OpClusterTransfer Op = 51
	OpNodeDrain       Op = 52
	OpNodeResume      Op = 53
	OpNodeRemove      Op = 54
	OpMarkNode        Op = 55 // stands only in the system log: what an operator wants of a node

	// Backups: natively alone.
	OpBackupOpen  Op = 60
	OpBackupRead  Op = 61
	OpBackupClose Op = 62

	// Operations that stand only in replicated entries and on links between
	// nodes. From a client they are unknown.
	OpCancelWait   Op = 64 // end, or shorten to a grace, the wait of a session's request
	OpDetach       Op = 65 // a connection closed: shrink the leases tied to it to their grace
	OpSetRow       Op = 66 // set or delete a namespace's policy in its group
	OpFreeze       Op = 67 // routing change: check the gate, let nothing in
	OpThaw         Op = 68 // routing change undone
	OpOpen         Op = 69 // routing change: take a subtree over
	OpLeave        Op = 70 // routing change: the subtree is gone from here
	OpRouteCommit  Op = 71 // system group: the change is decided
	OpRouteFinish  Op = 72 // system group: the change is done, or refused
	OpRevokeNotice Op = 73 // tell an owner that it is asked to let go
	OpKillNotice   Op = 74 // drop an owner's wait edge and tell it that it was killed

	OpRouteBegin Op = 75 // system group: an attempt to carry a change out, which ends those before it
	OpFold       Op = 76 // fences that were not used for long: a floor takes their place

	OpClaim Op = 77 // a keyed request that goes to several groups begins, is done, or came to nothing

	// a session goes on on a connection: what it asked on earlier ones is refused from now on; or all of a request is
	// carried out
	OpResume Op = 78

	numOps = 79
)

// Kind is what an operation does to the state.
type Kind uint8

// Kinds of operation.
const (
	KindConnection Kind = iota // is about the connection it came on
	KindRead                   // reads, linearizably; may be repeated at will
	KindWrite                  // goes through a replicated log
	KindInternal               // likewise, but no client may ask it
)

// Spec is one operation's row in the table of operations: everything that is
// the same for all of them is driven by it.
type Spec struct {
	Name    string // as in PROTOCOL.md: lower_snake
	Kind    Kind
	Args    []Field // positional arguments after [id, op]
	Results []Field // positional results after [id, 0]
}

// Field is one position of an operation's arguments or results.
type Field struct {
	slot slot
	Name string // the contract's name for it, used in messages
}

// slot is the place in Request or Result that a field is read into.
type slot uint8

const (
	sOwner slot = iota
	sBlocker
	sPath
	sNamespace
	sKey
	sTTL
	sQueueTTL
	sToken
	sFlags
	sReason
	sAlgorithm
	sDepth
	sPage
	sLocks
	sReleases
	sDomains
	sPaths
	sCursor
	sMeta
	sTarget
	sAttempt
	sKinds
	sPositions
	sDelWait
	sGrace
	sHello
	sWatch
	sExplicit
	sDetail
	sNode
	sDrain

	// results only
	sStatus
	sCurrent
	sPosition
	sFlag
	sCycle
	sNames
	sNames2
	sInfos
	sCovering
	sWaiters
	sCount
	sCount2
	sCount3
	sDone
	sText
	sWelcome
	sTopology
	sBackup
	sRows
	sCause
)

var (
	owner     = Field{sOwner, "owner_id"}
	key       = Field{sKey, "idempotency_key"}
	ttl       = Field{sTTL, "ttl_ms"}
	domains   = Field{sDomains, "domains"}
	delWait   = Field{sDelWait, "del_wait_key"}
	namespace = Field{sNamespace, "namespace"}
	path      = Field{sPath, "path"}
	cursor    = Field{sCursor, "cursor"}
	page      = Field{sPage, "owner_page"}
	token     = Field{sToken, "fencing_token"}
	releases  = Field{sReleases, "release_requests"}
	meta      = Field{sMeta, "metadata"}
	status    = Field{sStatus, "status"}
	reason    = Field{sReason, "reason"}
	target    = Field{sTarget, "target"}
	attempt   = Field{sAttempt, "attempt"}
	algorithm = Field{sAlgorithm, "algorithm"}
	explicit  = Field{sExplicit, "explicit"}
	flags     = Field{sFlags, "flags"}
	node      = Field{sNode, "node"}
	drain     = Field{sDrain, "mode"}
)

// specs is the table of operations, by number.
var specs = [numOps]Spec{
	OpHello: {"hello", KindConnection, []Field{{sHello, "hello"}}, []Field{{sWelcome, "welcome"}}},
	OpPing:  {"ping", KindConnection, nil, nil},
	OpAcquire: {"acquire", KindWrite,
		[]Field{owner, ttl, {sLocks, "requests"}, token, releases, key, {sQueueTTL, "queue_ttl_ms"},
			flags, meta},
		[]Field{status, {sPath, "path"}, {sOwner, "owner"}, reason, token,
			{sCurrent, "current_fencing_token"}, namespace, {sPosition, "position"}}},
	OpRelease: {"release", KindWrite,
		[]Field{owner, {sReleases, "requests"}, delWait, key, token, {sTarget, "granted_by"}}, nil},
	OpReleaseAll: {"release_all", KindWrite, []Field{owner, delWait, key, domains}, nil},
	OpRenew: {"renew", KindWrite, []Field{owner, ttl, domains, key, flags},
		[]Field{status, path, reason, {sFlag, "revoke_requested"}}},
	OpForceRelease: {"force_release", KindWrite, []Field{{sOwner, "victim_id"}, key}, nil},
	OpAssertFencing: {"assert_fencing", KindRead, []Field{owner, token, {sPaths, "paths"}},
		[]Field{status, path, reason}},
	OpDetectCycle: {"detect_cycle", KindRead, []Field{{sOwner, "start_owner_id"}, {sDepth, "max_depth"}},
		[]Field{{sCycle, "kind"}, {sNames, "chain"}}},
	OpIsBlocking: {"is_blocking", KindRead,
		[]Field{{sPath, "conflict_path"}, {sBlocker, "conflict_owner"}, reason},
		[]Field{{sFlag, "blocking"}}},
	OpIncrToken: {"incr_fencing_token", KindWrite, []Field{key}, []Field{{sToken, "token"}}},
	OpSetWaitEdge: {"set_wait_edge", KindWrite,
		[]Field{owner, {sBlocker, "conflict_owner"}, ttl, {sPath, "conflict_path"}, reason, key}, nil},
	OpClearWaitEdge: {"clear_wait_edge", KindWrite, []Field{owner, key}, nil},
	OpIsOwnerAlive:  {"is_owner_alive", KindRead, []Field{owner, domains}, []Field{{sFlag, "alive"}}},
	OpRequestRevoke: {"request_revoke", KindWrite, []Field{owner}, nil},
	OpSetPolicy: {"set_namespace_policy", KindWrite,
		[]Field{namespace, algorithm, key}, nil},
	OpGetPolicy: {"get_namespace_policy", KindRead, []Field{namespace},
		[]Field{algorithm, {sFlag, "explicit"}}},
	OpDeletePolicy: {"delete_namespace_policy", KindWrite, []Field{namespace, key}, nil},
	OpInspectPath: {"inspect_path", KindRead, []Field{path},
		[]Field{{sOwner, "write_owner"}, {sNames, "read_owners"}, {sFlag, "has_fence"},
			{sToken, "fence"}, {sNames2, "semaphore_owners"}}},
	OpListLocks: {"list_owner_locks", KindRead, []Field{owner, domains, cursor, page},
		[]Field{{sFlag, "alive"}, {sInfos, "locks"}, {sCursor, "next_cursor"}, {sDone, "done"}}},
	OpDumpLocks: {"dump_locks", KindRead, []Field{cursor, page},
		[]Field{{sInfos, "entries"}, {sCursor, "next_cursor"}, {sDone, "done"}}},
	OpSubscribe: {"subscribe", KindConnection,
		[]Field{owner, {sKinds, "kinds"}, {sPositions, "cursor"}},
		[]Field{{sCount, "subscription"}, {sPositions, "cursor"}}},
	OpUnsubscribe: {"unsubscribe", KindConnection, []Field{{sTarget, "subscription"}}, nil},
	OpHealth:      {"health", KindRead, nil, []Field{{sFlag, "ok"}, {sText, "detail"}}},
	OpCancel:      {"cancel", KindConnection, []Field{{sTarget, "request_id"}}, nil},
	OpDescribe: {"describe", KindRead, []Field{path, {sPage, "max_waiters"}},
		[]Field{namespace, algorithm, {sFlag, "has_fence"}, {sToken, "fence"},
			{sInfos, "holders"}, {sCovering, "covering"}, {sWaiters, "waiters"},
			{sCount, "waiters_total"}, {sCount2, "writes_below"}, {sCount3, "reads_below"}}},
	OpTopology: {"topology", KindConnection, []Field{{sWatch, "watch"}}, []Field{{sTopology, "topology"}}},
	OpScanLocks: {"scan_locks", KindRead, []Field{{sPath, "prefix"}, cursor, page},
		[]Field{{sInfos, "entries"}, {sCursor, "next_cursor"}, {sDone, "done"}}},
	OpBind: {"bind", KindConnection, []Field{owner, {sGrace, "grace_ms"}, ttl},
		[]Field{status, path, reason, {sFlag, "revoke_requested"}}},
	OpUnbind: {"unbind", KindConnection, []Field{owner}, nil},

	OpClusterStatus:   {"cluster_status", KindRead, nil, []Field{{sText, "document"}}},
	OpClusterTransfer: {"cluster_transfer", KindWrite, []Field{{sTarget, "log"}, node}, nil},
	OpNodeDrain:       {"node_drain", KindWrite, []Field{node, drain}, []Field{{sText, "note"}}},
	OpNodeResume:      {"node_resume", KindWrite, []Field{node}, nil},
	OpNodeRemove:      {"node_remove", KindWrite, []Field{node, {sExplicit, "force"}}, []Field{{sText, "note"}}},
	OpMarkNode:        {"mark_node", KindInternal, []Field{node, drain}, nil},

	OpBackupOpen: {"backup_open", KindRead, []Field{{sTarget, "log"}, {sExplicit, "local"}},
		[]Field{{sBackup, "backup"}}},
	OpBackupRead: {"backup_read", KindRead, []Field{{sTarget, "backup_id"}, cursor},
		[]Field{{sRows, "rows"}, {sCursor, "next_cursor"}, {sDone, "done"}}},
	OpBackupClose: {"backup_close", KindRead, []Field{{sTarget, "backup_id"}}, nil},

	OpCancelWait: {"cancel_wait", KindInternal, []Field{target, {sGrace, "grace_ms"}, explicit, {sKinds, "grace"}},
		nil},
	OpDetach: {"detach", KindInternal, nil, nil},
	OpSetRow: {"set_row", KindInternal, []Field{namespace, algorithm, explicit, attempt}, nil},
	OpFreeze: {"freeze", KindInternal, []Field{namespace, attempt, target}, []Field{status, token, path,
		{sOwner, "owner"}}},
	OpThaw: {"thaw", KindInternal, []Field{namespace, attempt}, nil},
	OpOpen: {"open", KindInternal, []Field{namespace, target, token, algorithm, explicit, attempt,
		{sCursor, "answers"}}, nil},
	OpLeave:       {"leave", KindInternal, []Field{namespace, target, attempt}, nil},
	OpRouteCommit: {"route_commit", KindInternal, []Field{target, attempt}, nil},
	OpRouteFinish: {"route_finish", KindInternal, []Field{target, {sDetail, "refusal"}, attempt}, nil},
	OpRouteBegin:  {"route_begin", KindInternal, []Field{attempt, {sExplicit, "freezes"}}, nil},
	OpResume:      {"resume", KindInternal, nil, nil},
	OpClaim: {"claim", KindInternal,
		[]Field{key, target, {sAttempt, "hash"}, {sKinds, "step"}, cursor, token, {sGrace, "attempt"}, {sTTL, "left"}},
		[]Field{status, token, {sCursor, "next_cursor"}, {sCount, "attempt"}}},
	OpFold:         {"fold", KindInternal, []Field{namespace, token}, nil},
	OpRevokeNotice: {"revoke_notice", KindInternal, []Field{owner}, nil},
	OpKillNotice:   {"kill_notice", KindInternal, []Field{owner, key}, nil},
}

// Spec answers op's row, and whether there is one.
func (op Op) Spec() (*Spec, bool) {
	if op >= numOps || specs[op].Name == "" {
		return nil, false
	}
	return &specs[op], true
}

// String is the operation's name.
func (op Op) String() string {
	if s, ok := op.Spec(); ok {
		return s.Name
	}
	return enumName(nil, uint64(op), "OP")
}

// Ops lists every operation a client may ask, in the order of their numbers.
func Ops() []Op {
	var all []Op
	for op := Op(1); op < numOps; op++ {
		if specs[op].Name != "" && specs[op].Kind != KindInternal {
			all = append(all, op)
		}
	}
	return all
}
