package wire

import (
	"strings"
	"unicode/utf8"
)

// Validate says what in req breaks a rule of contract.md section 2, or nothing.
// It looks at the request alone: rules that depend on routing or on the state
// are kept by whoever knows them.
func (req *Request) Validate() *Error {
	spec, ok := req.Op.Spec()
	if !ok {
		return Errorf(Unimplemented, "op %d: not known to this server", req.Op)
	}
	for _, f := range spec.Args {
		if err := req.check(f); err != nil {
			return err
		}
	}
	return nil
}

// check checks one argument.
func (req *Request) check(f Field) *Error {
	switch f.slot {
	case sOwner:
		return checkID(f.Name, req.Owner)
	case sBlocker:
		return checkID(f.Name, req.Blocker)
	case sKey:
		return checkKey(f.Name, req.Key)
	case sTTL:
		if req.Op == OpBind && req.TTLMillis == 0 {
			return nil // binds without renewing
		}
		if req.TTLMillis < 1 || req.TTLMillis > MaxTTLMillis {
			return Errorf(InvalidArgument, "%s %d: must be from 1 to %d (7 days)", f.Name, req.TTLMillis, MaxTTLMillis)
		}
	case sQueueTTL:
		return checkMost(f.Name, req.QueueTTLMillis, MaxTTLMillis)
	case sGrace:
		return checkMost(f.Name, req.GraceMillis, MaxGraceMillis)
	case sToken:
		return req.checkToken(f.Name)
	case sFlags:
		return req.checkFlags(f.Name)
	case sReason:
		return req.checkReason(f.Name)
	case sAlgorithm:
		return checkEnum(f.Name, uint8(req.Algorithm), len(algorithmNames))
	case sPath:
		if req.Path == "" && req.Op != OpIsBlocking && req.Op != OpInspectPath && req.Op != OpDescribe {
			return nil // optional: SetWaitEdge, ScanLocks
		}
		if req.Op == OpScanLocks {
			return CheckNamespace(f.Name, req.Path)
		}
		return CheckPath(f.Name, req.Path)
	case sNamespace:
		return CheckNamespace(f.Name, req.Namespace)
	case sDomains:
		return req.checkDomains(f.Name)
	case sPaths:
		return req.checkPaths(f.Name)
	case sLocks:
		return req.checkLocks(f.Name)
	case sReleases:
		return req.checkReleases(f.Name)
	case sMeta:
		return checkMetadata(f.Name, req.Meta)
	case sKinds:
		if req.Kinds&^AllEvents != 0 {
			return Errorf(InvalidArgument, "%s %#x: knows no kinds beyond %#x", f.Name, req.Kinds, AllEvents)
		}
	case sCursor:
		if len(req.Cursor) > MaxCursorBytes {
			return Errorf(InvalidArgument, "%s: is %d bytes long, at most %d are allowed", f.Name, len(req.Cursor),
				MaxCursorBytes)
		}
	case sPositions:
		return checkCount(f.Name, len(req.Positions), MaxPositions)
	case sHello:
		return checkHello(req.Hello)
	case sNode:
		return checkNode(f.Name, req.Node)
	case sDrain:
		if req.Op == OpNodeDrain && req.Drain != DrainLeads && req.Drain != DrainReplicas {
			return Errorf(InvalidArgument, "%s %d: must be 1 (leads) or 2 (replicas)", f.Name, req.Drain)
		}
		return checkEnum(f.Name, uint8(req.Drain), len(drainNames))
	case sTarget:
		if (req.Op == OpClusterTransfer || req.Op == OpBackupOpen) && req.Target == 0 {
			return Errorf(InvalidArgument, "%s 0: must be the number of a log, from 1 (the system log)", f.Name)
		}
	}
	return nil
}

func checkID(field, id string) *Error {
	switch {
	case len(id) == 0:
		return Errorf(InvalidArgument, "%s: must not be empty (1 to %d bytes)", field, MaxOwnerBytes)
	case len(id) > MaxOwnerBytes:
		return Errorf(InvalidArgument, "%s: is %d bytes long, at most %d are allowed", field, len(id), MaxOwnerBytes)
	}
	return checkText(field, id)
}

func checkKey(field, key string) *Error {
	if len(key) > MaxKeyBytes {
		return Errorf(InvalidArgument, "%s: is %d bytes long, at most %d are allowed", field, len(key), MaxKeyBytes)
	}
	return checkText(field, key)
}

// checkText refuses NUL, and what proto3 could not carry back.
func checkText(field, s string) *Error {
	if strings.IndexByte(s, 0) >= 0 {
		return Errorf(InvalidArgument, "%s %s: must not contain a NUL byte", field, Quote(s))
	}
	return checkUTF8(field, s)
}

// checkNode holds a node id to the rule of the configuration key node_id.
func checkNode(field, id string) *Error {
	const rule = "1 to 255 letters, digits, dots, dashes or underscores that end in a digit, such as pathlockd-0"
	switch {
	case id == "":
		return Errorf(InvalidArgument, "%s: must not be empty (%s)", field, rule)
	case len(id) > MaxNodeBytes:
		return Errorf(InvalidArgument, "%s: is %d bytes long, at most %d are allowed", field, len(id), MaxNodeBytes)
	}
	word := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-", r)
	}
	if last := id[len(id)-1]; last < '0' || last > '9' ||
		strings.ContainsFunc(id, func(r rune) bool { return !word(r) }) {
		return Errorf(InvalidArgument, "%s %s: must be %s", field, Quote(id), rule)
	}
	return nil
}

func checkUTF8(field, s string) *Error {
	if !utf8.ValidString(s) {
		return Errorf(InvalidArgument, "%s %s: is not valid UTF-8", field, Quote(s))
	}
	return nil
}

func checkMost(field string, v, most uint64) *Error {
	if v > most {
		return Errorf(InvalidArgument, "%s %d: must be at most %d", field, v, most)
	}
	return nil
}

func checkCount(field string, n, most int) *Error {
	if n > most {
		return Errorf(InvalidArgument, "%s: has %d entries, at most %d are allowed", field, n, most)
	}
	return nil
}

func checkEnum(field string, v uint8, values int) *Error {
	if int(v) >= values {
		return Errorf(InvalidArgument, "%s %d: is no known value (0 to %d)", field, v, values-1)
	}
	return nil
}

// checkMember is checkEnum for a member of a list's elements.
func checkMember(field, member string, v uint8, values int) *Error {
	if int(v) >= values {
		return checkEnum(field+": "+member, v, values)
	}
	return nil
}

func (req *Request) checkToken(field string) *Error {
	if req.Op == OpAssertFencing { // any token may be asked about: one that nobody holds fails
		if len(req.Paths) > 0 && req.Token <= 0 {
			return Errorf(InvalidArgument, "%s %d: must be above 0 when there are paths", field, req.Token)
		}
		return nil
	}
	if req.Token > MaxToken {
		return Errorf(InvalidArgument, "%s %d: must be below 2^62", field, req.Token)
	}
	return nil
}

func (req *Request) checkFlags(field string) *Error {
	known := acquireFlags
	if req.Op == OpRenew {
		known = renewFlags
	}
	if unknown := req.Flags &^ known; unknown != 0 {
		return Errorf(InvalidArgument, "%s %#x: knows no flags beyond %#x", field, uint64(req.Flags), uint64(known))
	}
	if req.Flags&(FlagWait|FlagNoQueue) == FlagWait|FlagNoQueue {
		return Errorf(InvalidArgument, "%s: to wait (1) and not to queue (2) exclude each other", field)
	}
	return nil
}

func (req *Request) checkReason(field string) *Error {
	if req.Op == OpSetWaitEdge {
		if (req.Path == "") != (req.Reason == ReasonUnspecified) {
			return Errorf(InvalidArgument, "conflict_path and reason: give both or neither")
		}
		if req.Path == "" || req.Reason == ReasonQueued {
			return nil
		}
	}
	if !req.Reason.Blocking() {
		rule := "1 to 5 or 9"
		if req.Op == OpSetWaitEdge {
			rule = "1 to 5, 9 or 17"
		}
		return Errorf(InvalidArgument, "%s %d: must be %s, a reason that names a blocking lock", field,
			req.Reason, rule)
	}
	return nil
}

func (req *Request) checkDomains(field string) *Error {
	if err := checkCount(field, len(req.Domains), MaxDomains); err != nil {
		return err
	}
	for _, d := range req.Domains {
		if err := CheckNamespace(field, d); err != nil {
			return err
		}
	}
	return nil
}

func (req *Request) checkPaths(field string) *Error {
	if err := checkCount(field, len(req.Paths), MaxPaths); err != nil {
		return err
	}
	for _, p := range req.Paths {
		if err := CheckPath(field, p); err != nil {
			return err
		}
	}
	return nil
}

// checkLocks also checks the sum of paths, which the contract limits together.
func (req *Request) checkLocks(field string) *Error {
	most := MaxPaths
	if req.Flags&FlagBulk != 0 {
		most = MaxBulkPaths
	}
	if n := len(req.Locks) + len(req.Releases); n > most {
		return Errorf(InvalidArgument, "%s and release_requests: name %d paths together, at most %d are allowed",
			field, n, most)
	}
	for i := range req.Locks {
		l := &req.Locks[i]
		if err := CheckPath(field, l.Path); err != nil {
			return err
		}
		if err := checkMember(field, "mode", uint8(l.Mode), len(modeNames)); err != nil {
			return err
		}
		if err := checkMember(field, "state", uint8(l.State), len(stateNames)); err != nil {
			return err
		}
	}
	return nil
}

func (req *Request) checkReleases(field string) *Error {
	if req.Op == OpRelease && len(req.Releases) > MaxPaths {
		return Errorf(InvalidArgument, "%s: names %d paths, at most %d are allowed", field, len(req.Releases), MaxPaths)
	}
	for i := range req.Releases {
		if err := CheckPath(field, req.Releases[i].Path); err != nil {
			return err
		}
		if err := checkMember(field, "mode", uint8(req.Releases[i].Mode), len(modeNames)); err != nil {
			return err
		}
	}
	return nil
}

// checkMetadata checks shape and size, and that all text can be shown by every
// face; what it says is the client's own business.
func checkMetadata(field string, b []byte) *Error {
	if len(b) == 0 {
		return nil
	}
	if len(b) > MaxMetadataBytes {
		return Errorf(InvalidArgument, "%s: is %d bytes encoded, at most %d are allowed", field, len(b),
			MaxMetadataBytes)
	}
	r := NewReader(b)
	text := func() {
		if !utf8.ValidString(r.Str()) {
			r.fail(errNotUTF8)
		}
	}
	r.fields(6, func(i int) {
		switch i {
		case 1, 2:
			r.Int()
		case 5:
			for n := r.Map(); n > 0 && r.err == nil; n-- {
				text()
				text()
			}
		default:
			text()
		}
	})
	if r.err != nil {
		return Errorf(InvalidArgument,
			"%s: want [host, pid, start_unix_ms, boot_id, command, {label: value}]: %v", field, r.err)
	}
	return nil
}

func checkHello(h *Hello) *Error {
	switch {
	case h == nil:
		return Errorf(InvalidArgument, "hello: is missing")
	case h.MinVersion > MaxProtocol || h.MaxVersion < MinProtocol:
		return Errorf(FailedPrecondition, "hello: client speaks protocol versions %d to %d, this server %d to %d",
			h.MinVersion, h.MaxVersion, MinProtocol, MaxProtocol).By(CauseVersion)
	case len(h.Session) != 0 && len(h.Session) != SessionBytes:
		return Errorf(InvalidArgument, "hello: session: is %d bytes long, must be %d or empty", len(h.Session),
			SessionBytes)
	case len(h.Session) == SessionBytes && [SessionBytes]byte(h.Session) == [SessionBytes]byte{}:
		return Errorf(InvalidArgument, "hello: session: is all zero, which names nobody; send none to be given one")
	case len(h.Client) > MaxOwnerBytes:
		return Errorf(InvalidArgument, "hello: client: is %d bytes long, at most %d are allowed", len(h.Client),
			MaxOwnerBytes)
	case h.Credential != "":
		return Errorf(Unauthenticated, "hello: credential: must be empty: this server checks none, and so trusts none")
	}
	if err := checkUTF8("hello: client", h.Client); err != nil {
		return err
	}
	if err := checkMost("hello: grace_ms", h.Grace, MaxGraceMillis); err != nil {
		return err
	}
	return checkMetadata("hello: metadata", h.Meta)
}
