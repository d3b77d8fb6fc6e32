package wire

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"testing"
)

// least is a valid request of op with nothing in it that may be left out.
func least(op Op) *Request {
	const p = "tenant:/acme/projects/42"
	req := &Request{Op: op}
	spec, _ := op.Spec()
	for _, f := range spec.Args {
		switch f.slot {
		case sOwner:
			req.Owner = "alice"
		case sBlocker:
			req.Blocker = "bob"
		case sTTL:
			if op != OpBind {
				req.TTLMillis = 30_000
			}
		case sNamespace:
			req.Namespace = "tenant:/acme"
		case sLocks:
			req.Locks = []LockRequest{{Path: p}}
		case sReleases:
			if op == OpRelease {
				req.Releases = []ReleaseRequest{{Path: p}}
			}
		case sPath:
			if op != OpSetWaitEdge && op != OpScanLocks {
				req.Path = p
			}
		case sReason:
			if op == OpIsBlocking {
				req.Reason = ReasonWriteLocked
			}
		case sPaths:
			req.Paths = []string{p}
		case sToken:
			if op == OpAssertFencing {
				req.Token = 7
			}
		case sTarget:
			if op != OpRelease {
				req.Target = 3
			}
		case sNode:
			req.Node = "pathlockd-1"
		case sDrain:
			req.Drain = DrainLeads
		case sHello:
			req.Hello = &Hello{MinVersion: 1, MaxVersion: 1}
		}
	}
	return req
}

// with is a valid request of op, changed.
func with(op Op, change func(*Request)) *Request {
	req := least(op)
	change(req)
	return req
}

// rule is one broken rule: a request, and what it is refused with. A rule with no
// code is one that is kept.
type rule struct {
	name string
	req  *Request
	code Code
	says []string // parts of the message: field, rule and limit
}

// rules is every row of contract.md section 2 that can be checked on the request
// alone, on both sides of each limit, and what the native protocol adds to them.
func rules() (all []rule) {
	add := func(name string, req *Request, says ...string) {
		r := rule{name: name, req: req, says: says}
		if len(says) > 0 {
			r.code = InvalidArgument
		}
		all = append(all, r)
	}
	for _, op := range Ops() {
		add(op.String()+": nothing but what it needs", least(op))
		spec, _ := op.Spec()
		for _, f := range spec.Args {
			what := fmt.Sprintf("%v: %s", op, f.Name)
			switch f.slot {
			case sOwner:
				ruleID(add, what, f.Name, func(v string) *Request { return with(op, func(r *Request) { r.Owner = v }) })
			case sBlocker:
				ruleID(add, what, f.Name, func(v string) *Request {
					return with(op,
						func(r *Request) { r.Blocker = v })
				})
			case sKey:
				set := func(v string) *Request { return with(op, func(r *Request) { r.Key = v }) }
				add(what+" of 1024 bytes", set(strings.Repeat("k", 1024)))
				add(what+" of 1025 bytes", set(strings.Repeat("k", 1025)), f.Name, "1025 bytes", "at most 1024")
				add(what+" with NUL", set("a\x00b"), f.Name, "NUL")
				add(what+" not UTF-8", set("a\xff"), f.Name, "UTF-8")
			case sTTL:
				set := func(v uint64) *Request { return with(op, func(r *Request) { r.TTLMillis = v }) }
				if op == OpBind {
					add(what+" 0 renews nothing", set(0))
				} else {
					add(what+" 0", set(0), "ttl_ms 0", "from 1 to 604800000")
				}
				add(what+" at least", set(1))
				add(what+" at most", set(604_800_000))
				add(what+" above", set(604_800_001), "ttl_ms 604800001", "from 1 to 604800000")
				add(what+" far above", set(math.MaxUint64), "ttl_ms 18446744073709551615", "from 1 to 604800000")
			case sQueueTTL:
				set := func(v uint64) *Request { return with(op, func(r *Request) { r.QueueTTLMillis = v }) }
				add(what+" at most", set(604_800_000))
				add(what+" above", set(604_800_001), "queue_ttl_ms 604800001", "at most 604800000")
			case sGrace:
				set := func(v uint64) *Request { return with(op, func(r *Request) { r.GraceMillis = v }) }
				add(what+" 0", set(0))
				add(what+" at most", set(604_800_000))
				add(what+" above", set(604_800_001), "grace_ms 604800001", "at most 604800000")
			case sPath:
				set := func(v string) *Request {
					return with(op, func(r *Request) {
						if r.Path = v; op == OpSetWaitEdge {
							r.Reason = ReasonWriteLocked
						}
					})
				}
				add(what+" of 4096 bytes", set(longPath(4096)))
				add(what+" of 4097 bytes", set(longPath(4097)), f.Name, "4097 bytes", "at most 4096")
				add(what+" with a trailing slash", set("tenant:/acme/"), f.Name, "must not end with a slash")
				if op == OpScanLocks {
					add(what+" is a handler", set("tenant"))
				} else {
					add(what+" is a handler", set("tenant"), f.Name, "handler and a colon")
				}
				if op != OpScanLocks && op != OpSetWaitEdge {
					add(what+" empty", set(""), f.Name, "must not be empty")
				}
			case sNamespace:
				set := func(v string) *Request { return with(op, func(r *Request) { r.Namespace = v }) }
				add(what+" is a handler", set("tenant"))
				add(what+" is a handler's root", set("tenant:/"))
				add(what+" empty", set(""), f.Name, "must not be empty")
				add(what+" with a slash and no colon", set("tenant/acme"), f.Name, "slash but no colon")
				add(what+" is a handler of 1024 bytes", set(strings.Repeat("h", 1024)))
				add(what+" is a handler of 1025 bytes", set(strings.Repeat("h", 1025)), f.Name, "1025 bytes",
					"at most 1024")
				add(what+" with NUL", set("ten\x00ant"), f.Name, "NUL")
				add(what+" with 0x1F", set("ten\x1fant"), f.Name, "0x1F")
				add(what+" not UTF-8", set("\xc3"), f.Name, "UTF-8")
				add(what+" with an empty segment", set("tenant://acme"), f.Name, "empty segment")
			case sNode:
				set := func(v string) *Request { return with(op, func(r *Request) { r.Node = v }) }
				add(what+" of 255 bytes", set(strings.Repeat("n", 254)+"0"))
				add(what+" of 256 bytes", set(strings.Repeat("n", 255)+"0"), f.Name, "256 bytes", "at most 255")
				add(what+" of every character", set("aZ0._-9"))
				add(what+" empty", set(""), f.Name, "must not be empty", "1 to 255 letters")
				for _, bad := range []string{"pathlockd", "node 1", "a/1", "a#1", "a\x001", "é1", "a\xff1",
					"1\n1", "0-"} {
					add(fmt.Sprintf("%s %q", what, bad), set(bad), f.Name, Quote(bad),
						"letters, digits, dots, dashes or underscores that end in a digit")
				}
			case sDrain:
				set := func(v Drain) *Request { return with(op, func(r *Request) { r.Drain = v }) }
				add(what+" leads", set(DrainLeads))
				add(what+" replicas", set(DrainReplicas))
				for _, bad := range []Drain{DrainNone, DrainRemoved, 255} {
					add(fmt.Sprintf("%s %d", what, bad), set(bad), fmt.Sprintf("mode %d", bad),
						"1 (leads) or 2 (replicas)")
				}
			case sTarget:
				if op == OpClusterTransfer || op == OpBackupOpen {
					set := func(v uint64) *Request { return with(op, func(r *Request) { r.Target = v }) }
					add(what+" 1, the system log", set(SystemLog))
					add(what+" 0", set(0), "log 0", "from 1")
				}
			case sDomains:
				set := func(v ...string) *Request { return with(op, func(r *Request) { r.Domains = v }) }
				add(what+" are namespaces, paths and handlers",
					set("tenant:/acme", "tenant:/acme/projects/42", "tenant"))
				add(what+" 1024", set(repeat("h", 1024)...))
				add(what+" 1025", set(repeat("h", 1025)...), "domains", "1025 entries", "at most 1024")
				add(what+" one bad", set("tenant", "tenant/acme"), "domains", `"tenant/acme"`, "slash but no colon")
				add(what+" one empty", set("tenant", ""), "domains", "must not be empty")
			case sPaths:
				set := func(v ...string) *Request { return with(op, func(r *Request) { r.Paths = v }) }
				add(what+" 1024", set(repeat("h:/", 1024)...))
				add(what+" 1025", set(repeat("h:/", 1025)...), "paths", "1025 entries", "at most 1024")
				add(what+" one bad", set("h:/a", "h:/a/../b"), "paths", `"h:/a/../b"`, `segment ".."`)
				add(what+" one a handler", set("h"), "paths", "handler and a colon")
			case sLocks:
				ruleLocks(add, what, func(r *Request, n int) {
					r.Locks = make([]LockRequest, n)
					for i := range r.Locks {
						r.Locks[i].Path = "h:/a"
					}
				})
			case sReleases:
				set := func(v ...ReleaseRequest) *Request { return with(op, func(r *Request) { r.Releases = v }) }
				add(what+" read", set(ReleaseRequest{"h:/a", ModeRead}))
				add(what+" mode 2", set(ReleaseRequest{"h:/a", 2}), f.Name+": mode 2", "0 to 1")
				add(what+" mode 255", set(ReleaseRequest{"h:/a", 255}), f.Name+": mode 255", "0 to 1")
				add(what+" one bad", set(ReleaseRequest{"h:/a", 0}, ReleaseRequest{"h:/./a", 0}), f.Name, `"h:/./a"`,
					`segment "."`)
				if op == OpRelease {
					add(what+" 1024", set(repeat(ReleaseRequest{"h:/", 0}, 1024)...))
					add(what+" 1025", set(repeat(ReleaseRequest{"h:/", 0}, 1025)...), "requests", "1025 paths",
						"at most 1024")
					add(what+" none", set())
				}
			case sAlgorithm:
				for v := range Algorithm(5) {
					add(fmt.Sprintf("%s %d", what, v), with(op, func(r *Request) { r.Algorithm = v }))
				}
				add(what+" 5", with(op, func(r *Request) { r.Algorithm = 5 }), "algorithm 5", "0 to 4")
				add(what+" 255", with(op, func(r *Request) { r.Algorithm = 255 }), "algorithm 255", "0 to 4")
			case sMeta:
				ruleMetadata(add, what, f.Name,
					func(b []byte) *Request { return with(op, func(r *Request) { r.Meta = b }) })
			case sCursor:
				set := func(n int) *Request { return with(op, func(r *Request) { r.Cursor = make([]byte, n) }) }
				add(what+" of 8192 bytes", set(8192))
				add(what+" of 8193 bytes", set(8193), "cursor", "8193 bytes", "at most 8192")
			case sPage, sDepth:
				add(what+" huge", with(op, func(r *Request) { r.Page, r.Depth = math.MaxUint32, math.MaxUint32 }))
			}
		}
	}
	ruleTokens(add)
	ruleReasons(add)
	ruleFlags(add)
	ruleSubscribe(add)
	ruleHello(add)
	for i := range all {
		if strings.HasPrefix(all[i].name, "hello: speaks only") {
			all[i].code = FailedPrecondition
		}
		if all[i].name == "hello: a credential" {
			all[i].code = Unauthenticated
		}
	}
	return all
}

type addRule func(name string, req *Request, says ...string)

func ruleID(add addRule, what, field string, set func(string) *Request) {
	add(what+" of 1 byte", set("a"))
	add(what+" of 1024 bytes", set(strings.Repeat("a", 1024)))
	add(what+" of 1025 bytes", set(strings.Repeat("a", 1025)), field, "1025 bytes", "at most 1024")
	add(what+" empty", set(""), field, "must not be empty", "1 to 1024 bytes")
	add(what+" with NUL", set("a\x00b"), field, `"a\x00b"`, "NUL")
	add(what+" with 0x1F", set("a\x1fb"))
	add(what+" not UTF-8", set("\xff\xfe"), field, "UTF-8")
}

func ruleLocks(add addRule, what string, set func(r *Request, n int)) {
	acquire := func(change func(*Request)) *Request { return with(OpAcquire, change) }
	add(what+" none", acquire(func(r *Request) { r.Locks = nil }))
	add(what+" read, held, with permits", acquire(func(r *Request) {
		r.Locks = []LockRequest{{"h:/a", ModeRead,
			StateHeld, math.MaxUint32}}
	}))
	add(what+" mode 2", acquire(func(r *Request) { r.Locks[0].Mode = 2 }), "requests: mode 2", "0 to 1")
	add(what+" mode 255", acquire(func(r *Request) { r.Locks[0].Mode = 255 }), "requests: mode 255", "0 to 1")
	add(what+" state 2", acquire(func(r *Request) { r.Locks[0].State = 2 }), "requests: state 2", "0 to 1")
	add(what+" path empty", acquire(func(r *Request) { r.Locks[0].Path = "" }), "requests", "must not be empty")
	add(what+" path without slash", acquire(func(r *Request) { r.Locks[0].Path = "tenant:acme" }), "requests",
		`"tenant:acme"`, "slash right after the first colon")
	add(what+" 1024", acquire(func(r *Request) { set(r, 1024) }))
	add(what+" 1025", acquire(func(r *Request) { set(r, 1025) }), "requests and release_requests", "1025 paths",
		"at most 1024")
	add(what+" and releases 1024 together", acquire(func(r *Request) {
		set(r, 1000)
		r.Releases = repeat(ReleaseRequest{"h:/a", 0}, 24)
	}))
	add(what+" and releases 1025 together", acquire(func(r *Request) {
		set(r, 1000)
		r.Releases = repeat(ReleaseRequest{"h:/a", 0}, 25)
	}), "requests and release_requests", "1025 paths", "at most 1024")
	add(what+" none and 1025 releases", acquire(func(r *Request) {
		r.Locks, r.Releases = nil, repeat(ReleaseRequest{"h:/a", 0}, 1025)
	}), "requests and release_requests", "1025 paths", "at most 1024")
	add(what+" 65536 in bulk", acquire(func(r *Request) { set(r, 65_536); r.Flags = FlagBulk }))
	add(what+" and releases 65537 in bulk", acquire(func(r *Request) {
		set(r, 65_536)
		r.Flags, r.Releases = FlagBulk, repeat(ReleaseRequest{"h:/a", 0}, 1)
	}), "requests and release_requests", "65537 paths", "at most 65536")
}

func ruleMetadata(add addRule, what, field string, set func([]byte) *Request) {
	sized := func(n int) []byte { // one string that makes the whole n bytes
		b := AppendArray(nil, 1)
		return AppendStr(b, strings.Repeat("x", n-len(b)-3))
	}
	add(what+" of 4096 bytes", set(sized(4096)))
	add(what+" of 4097 bytes", set(sized(4097)), field, "4097 bytes", "at most 4096")
	shape := "want [host, pid, start_unix_ms, boot_id, command, {label: value}]"
	add(what+" is no array", set([]byte{0x07}), field, shape, "want an array")
	add(what+": host is a number", set([]byte{0x91, 0x07}), field, shape, "want a string")
	add(what+": pid is a string", set([]byte{0x92, 0xa1, 'h', 0xa1, '7'}), field, shape, "want an integer")
	add(what+": labels are an array", set([]byte{0x96, 0xc0, 0xc0, 0xc0, 0xc0, 0xc0, 0x91, 0x01}), field, shape,
		"want a map")
	add(what+": a label is a number", set([]byte{0x96, 0xc0, 0xc0, 0xc0, 0xc0, 0xc0, 0x81, 0xa1, 'a', 0x01}), field,
		shape, "want a string")
	add(what+": host is not UTF-8", set([]byte{0x91, 0xa1, 0xff}), field, shape, "UTF-8")
	add(what+": a label is not UTF-8", set([]byte{0x96, 0xc0, 0xc0, 0xc0, 0xc0, 0xc0, 0x81, 0xa1, 'a', 0xa1, 0xff}),
		field, shape, "UTF-8")
	add(what+" empty", set([]byte{0x90}))
	add(what+" with more than we know", set([]byte{0x97, 0xc0, 0xc0, 0xc0, 0xc0, 0xc0, 0xc0, 0x93, 1, 2, 3}))
}

func ruleTokens(add addRule) {
	acquire := func(v int64) *Request { return with(OpAcquire, func(r *Request) { r.Token = v }) }
	add("acquire: fencing_token negative", acquire(math.MinInt64))
	add("acquire: fencing_token at most", acquire(1<<62-1))
	add("acquire: fencing_token above", acquire(1<<62), "fencing_token 4611686018427387904", "below 2^62")
	assert := func(v int64, paths ...string) *Request {
		return with(OpAssertFencing, func(r *Request) { r.Token, r.Paths = v, paths })
	}
	add("assert_fencing: fencing_token 1", assert(1, "h:/a"))
	add("assert_fencing: fencing_token that nobody can hold", assert(math.MaxInt64, "h:/a"))
	add("assert_fencing: fencing_token 0", assert(0, "h:/a"), "fencing_token 0", "above 0")
	add("assert_fencing: fencing_token negative", assert(-1, "h:/a"), "fencing_token -1", "above 0")
	add("assert_fencing: fencing_token 0 without paths", assert(0))
	add("assert_fencing: fencing_token negative without paths", assert(-5))
}

func ruleReasons(add addRule) {
	blocking := func(v Reason) *Request { return with(OpIsBlocking, func(r *Request) { r.Reason = v }) }
	edge := func(p string, v Reason) *Request {
		return with(OpSetWaitEdge, func(r *Request) { r.Path, r.Reason = p, v })
	}
	for v := range Reason(len(reasonNames) + 1) {
		name := fmt.Sprintf("is_blocking: reason %d", v)
		if v >= 1 && v <= 5 || v == 9 {
			add(name, blocking(v))
		} else {
			add(name, blocking(v), fmt.Sprintf("reason %d", v), "1 to 5 or 9")
		}
		name = fmt.Sprintf("set_wait_edge: reason %d", v)
		switch {
		case v == 0:
			add(name+" with a path", edge("h:/a", v), "conflict_path and reason", "both or neither")
			add(name+" without a path", edge("", v))
			continue
		case v >= 1 && v <= 5 || v == 9 || v == 17:
			add(name, edge("h:/a", v))
		default:
			add(name, edge("h:/a", v), fmt.Sprintf("reason %d", v), "1 to 5, 9 or 17")
		}
		add(name+" without a path", edge("", v), "conflict_path and reason", "both or neither")
	}
	add("is_blocking: reason 255", blocking(255), "reason 255", "1 to 5 or 9")
}

func ruleFlags(add addRule) {
	for _, op := range []Op{OpAcquire, OpRenew} {
		for _, bit := range []int{0, 1, 2, 3, 4, 5, 31, 32, 63} {
			f := Flags(1) << bit
			name := fmt.Sprintf("%v: flags %d", op, f)
			req := with(op, func(r *Request) { r.Flags = f })
			switch {
			case op == OpRenew && (f == FlagBind || f == FlagExtend), op == OpAcquire && f <= FlagBind:
				add(name, req)
			case op == OpRenew:
				add(name, req, fmt.Sprintf("flags %#x", uint64(f)), "0x18")
			default:
				add(name, req, fmt.Sprintf("flags %#x", uint64(f)), "0xf")
			}
		}
	}
	add("acquire: flags that agree", with(OpAcquire, func(r *Request) { r.Flags = FlagWait | FlagBulk | FlagBind }))
	add("acquire: flags that exclude each other",
		with(OpAcquire, func(r *Request) { r.Flags = FlagWait | FlagNoQueue }), "flags", "exclude each other")
}

func ruleSubscribe(add addRule) {
	kinds := func(v uint64) *Request { return with(OpSubscribe, func(r *Request) { r.Kinds = v }) }
	add("subscribe: kinds all", kinds(30))
	add("subscribe: kinds of no event", kinds(1), "kinds 0x1", "0x1e")
	add("subscribe: kinds unknown", kinds(32), "kinds 0x20", "0x1e")
	at := func(n int) *Request { return with(OpSubscribe, func(r *Request) { r.Positions = make([]Position, n) }) }
	add("subscribe: cursor of 1024 positions", at(1024))
	add("subscribe: cursor of 1025 positions", at(1025), "cursor", "1025 entries", "at most 1024")
}

func ruleHello(add addRule) {
	hello := func(change func(*Hello)) *Request {
		return with(OpHello, func(r *Request) { change(r.Hello) })
	}
	add("hello: missing", &Request{Op: OpHello}, "hello", "missing")
	add("hello: speaks 0 to 9", hello(func(h *Hello) { h.MinVersion, h.MaxVersion = 0, 9 }))
	add("hello: speaks only 2", hello(func(h *Hello) { h.MinVersion, h.MaxVersion = 2, 2 }), "versions 2 to 2",
		"this server 1 to 1")
	add("hello: speaks only 0", hello(func(h *Hello) { h.MinVersion, h.MaxVersion = 0, 0 }), "versions 0 to 0",
		"this server 1 to 1")
	for _, n := range []int{0, 1, 15, 16, 17} {
		name := fmt.Sprintf("hello: session of %d bytes", n)
		req := hello(func(h *Hello) { h.Session = bytes.Repeat([]byte{1}, n) })
		if n == 0 || n == 16 {
			add(name, req)
		} else {
			add(name, req, "hello: session", fmt.Sprintf("%d bytes", n), "must be 16 or empty")
		}
	}
	add("hello: session all zero", hello(func(h *Hello) { h.Session = make([]byte, SessionBytes) }),
		"hello: session", "all zero")
	add("hello: client of 1024 bytes", hello(func(h *Hello) { h.Client = strings.Repeat("c", 1024) }))
	add("hello: client of 1025 bytes", hello(func(h *Hello) { h.Client = strings.Repeat("c", 1025) }), "hello: client",
		"1025 bytes", "at most 1024")
	add("hello: client not UTF-8", hello(func(h *Hello) { h.Client = "\xff" }), "hello: client", "UTF-8")
	add("hello: grace_ms at most", hello(func(h *Hello) { h.Grace = 604_800_000 }))
	add("hello: grace_ms above", hello(func(h *Hello) { h.Grace = 604_800_001 }), "hello: grace_ms 604800001",
		"at most 604800000")
	add("hello: window and features huge", hello(func(h *Hello) {
		h.Window, h.Features, h.Epoch = math.MaxUint64,
			math.MaxUint64, math.MaxUint64
	}))
	add("hello: a credential", hello(func(h *Hello) { h.Credential = "secret" }), "hello: credential", "must be empty")
	ruleMetadata(add, "hello: metadata", "hello: metadata",
		func(b []byte) *Request { return hello(func(h *Hello) { h.Meta = b }) })
}

// longPath is a valid path of n bytes.
func longPath(n int) string { return "h:/" + strings.Repeat("p", n-3) }

func repeat[T any](v T, n int) []T {
	out := make([]T, n)
	for i := range out {
		out[i] = v
	}
	return out
}

// mostMessage bounds every message of a refusal, in bytes, whatever the request.
const mostMessage = 700

func TestValidate(t *testing.T) {
	names := make(map[string]bool)
	for _, r := range rules() {
		if names[r.name] {
			t.Errorf("two rules are named %q", r.name)
		}
		names[r.name] = true
		err := r.req.Validate()
		switch {
		case err == nil && r.code != OK:
			t.Errorf("%s: is accepted, want %v", r.name, r.code)
			continue
		case err == nil:
			continue
		case r.code == OK:
			t.Errorf("%s: %v, want it accepted", r.name, err)
			continue
		case err.Code != r.code:
			t.Errorf("%s: %v, want %v", r.name, err, r.code)
		}
		if len(err.Message) > mostMessage {
			t.Errorf("%s: message of %d bytes", r.name, len(err.Message))
		}
		for _, part := range r.says {
			if !strings.Contains(err.Message, part) {
				t.Errorf("%s: message %q does not say %q", r.name, err.Message, part)
			}
		}
	}
	if err := (&Request{Op: 200}).Validate(); err == nil || err.Code != Unimplemented {
		t.Errorf("unknown operation: %v", err)
	}
}

// TestMessagesAreBounded puts a megabyte into every argument in turn: what comes
// back must not be that long.
func TestMessagesAreBounded(t *testing.T) {
	for _, piece := range []string{"x", "\x00", "\x7f", "\u00ad", "\U0010ffff", "/", ":", "\xff", `"`} {
		huge := strings.Repeat(piece, 1<<20/len(piece))
		for _, op := range Ops() {
			spec, _ := op.Spec()
			for _, f := range spec.Args {
				for _, v := range []string{huge, "h:/" + huge} {
					req := least(op)
					switch f.slot {
					case sOwner:
						req.Owner = v
					case sBlocker:
						req.Blocker = v
					case sPath:
						req.Path = v
					case sNamespace:
						req.Namespace = v
					case sKey:
						req.Key = v
					case sDomains:
						req.Domains = []string{v}
					case sPaths:
						req.Paths = []string{v}
					case sLocks:
						req.Locks = []LockRequest{{Path: v}}
					case sReleases:
						req.Releases = []ReleaseRequest{{Path: v}}
					case sCursor:
						req.Cursor = []byte(v)
					case sMeta:
						req.Meta = []byte(v)
					case sNode:
						req.Node = v
					case sHello:
						req.Hello.Client, req.Hello.Session, req.Hello.Meta = v, []byte(v), []byte(v)
					default:
						continue
					}
					err := req.Validate()
					if err == nil {
						t.Errorf("%v: %s of a megabyte of %q is accepted", op, f.Name, piece)
					} else if len(err.Message) > mostMessage {
						t.Errorf("%v: %s of a megabyte of %q: message of %d bytes", op, f.Name, piece, len(err.Message))
					}
				}
			}
		}
	}
}

// TestProtocolOptional holds the page's question marks against Validate: a request
// of nothing but unmarked arguments is a good one.
func TestProtocolOptional(t *testing.T) {
	p := readPage(t)
	for _, op := range p.ops {
		req := least(Op(op.number))
		if err := req.Validate(); err != nil {
			t.Errorf("%s: %v", op.name, err)
		}
		spec, _ := Op(op.number).Spec()
		for i, f := range spec.Args {
			if op.left[i] && req.has(f.slot) {
				t.Errorf("%s: %s may be left out, says the page, but the least request has it", op.name, f.Name)
			}
		}
	}
}
