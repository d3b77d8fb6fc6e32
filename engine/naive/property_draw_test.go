package naive

import (
	"fmt"
	"slices"
	"strings"

	"pgregory.net/rapid"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/wire"
)

// Random steps. What is likely to matter (a hold that is there, an entry that
// waits, a token just at the fence) is drawn from the model.

// pick draws one of several; the first are a little more likely.
func pick[V any](t *rapid.T, what string, from ...V) V {
	return rapid.SampledFrom(from).Draw(t, what)
}

// oneIn is true once in n times.
func oneIn(t *rapid.T, n int, what string) bool {
	return rapid.Uint32().Draw(t, what)%uint32(n) == uint32(n)-1
}

// moves are the kinds of step, as often as they stand here.
var moves = slices.Concat(
	slices.Repeat([]func(*machine, *rapid.T) *ask{(*machine).drawAcquire}, 16),
	slices.Repeat([]func(*machine, *rapid.T) *ask{(*machine).drawRelease}, 8),
	slices.Repeat([]func(*machine, *rapid.T) *ask{(*machine).drawPoll}, 4),
	slices.Repeat([]func(*machine, *rapid.T) *ask{(*machine).drawRepeat}, 3),
	slices.Repeat([]func(*machine, *rapid.T) *ask{(*machine).drawAgain}, 3),
	slices.Repeat([]func(*machine, *rapid.T) *ask{(*machine).drawRenew}, 3),
	slices.Repeat([]func(*machine, *rapid.T) *ask{(*machine).drawCancel}, 2),
	[]func(*machine, *rapid.T) *ask{
		(*machine).drawOwner, (*machine).drawOwner, (*machine).drawEdge, (*machine).drawReleaseAll,
		(*machine).drawPolicy, (*machine).drawDisk, (*machine).drawDisk, (*machine).drawDisk, (*machine).drawMove,
		(*machine).drawDetach, (*machine).drawDetach, (*machine).drawFold, (*machine).drawFold,
	},
)

// random is one step of any kind.
func (m *machine) random(t *rapid.T) {
	draw := rapid.SampledFrom(moves).Draw(t, "move")
	if len(m.model.frozen) > 0 && oneIn(t, 4, "end of a move") {
		draw = (*machine).drawMove
	}
	cmd := draw(m, t)
	if cmd != nil {
		cmd.Version = m.model.version
		if oneIn(t, 8, "other routes") {
			cmd.Version = max(1, cmd.Version) - 1 + pick[uint64](t, "version", 0, 2)
		}
		cmd.Short = cmd.Req.Op == wire.OpAcquire && oneIn(t, 20, "short by its routes")
		if cmd.Req.Key != "" && !cmd.again {
			m.keyed = append(m.keyed, *cmd)
			m.keyed = m.keyed[max(0, len(m.keyed)-8):]
		}
	}
	m.step(t, m.drawTime(t), cmd)
}

// drawTime is how much time passes before a step: mostly none, often just until
// something ends.
func (m *machine) drawTime(t *rapid.T) int64 {
	if !oneIn(t, 5, "time passes") {
		return 0
	}
	if at, ok := m.model.nextDeadline(); ok && oneIn(t, 2, "to a deadline") {
		return max(0, at-m.clock.Now-int64(rapid.IntRange(0, 1).Draw(t, "early")))
	}
	return pick[int64](t, "ms", 1, 5, 30, 200, 2000, 60_000, engine.KeptMillis)
}

// drawPath is mostly one of a few, so that requests meet.
func (m *machine) drawPath(t *rapid.T, ns string) string {
	if oneIn(t, 5, "any path") {
		return rapid.SampledFrom(paths[ns]).Draw(t, "path")
	}
	return rapid.SampledFrom(m.hot[ns]).Draw(t, "path")
}

func drawSpace(t *rapid.T) string {
	return pick(t, "ns", "h:/a", "h:/a", "h:/a", "h:/a", "h:/a", "h:/a", "h:/a", "h:/a", "g", "g", "h:/a/n", "h:/",
		"h:/b", "h:/a-1")
}

func drawKey(t *rapid.T) string {
	if !oneIn(t, 5, "keyed") {
		return ""
	}
	return pick(t, "key", "k1", "k2", "k3", "k4", "k5", "k6", "k7", "k8")
}

func drawTTL(t *rapid.T) uint64 { return pick[uint64](t, "ttl", 50_000, 1_000_000, 1000, 100, 20) }

// bound ties a command to a connection, sometimes.
func (m *machine) bound(t *rapid.T, cmd *ask) *ask {
	cmd.Caller.Session = engine.Session{byte(rapid.IntRange(1, 2).Draw(t, "session"))}
	cmd.Epoch = uint64(rapid.IntRange(1, 3).Draw(t, "epoch"))
	if oneIn(t, 3, "bound") {
		cmd.Bound, cmd.Grace = true, pick[int64](t, "grace", 10, 500, 0)
	}
	return cmd
}

// drawFold folds fences: mostly of a namespace, sometimes of more, up to some fence there
// is or to what the group may not have minted yet.
func (m *machine) drawFold(t *rapid.T) *ask {
	token := m.model.counter - pick[int64](t, "below the counter", 3, 0, 10, -1)
	if len(m.model.fences) > 0 && oneIn(t, 2, "up to a fence") {
		token = rapid.SampledFrom(m.model.fences).Draw(t, "fence").token
	}
	scope := pick(t, "scope", "h:/a", "h:/a", "h:/a", "g", "h", "")
	ns := scope
	if scope != "g" && wire.PathHandler(scope) == scope {
		ns = ""
	}
	return newAsk(&wire.Request{Op: wire.OpFold, Namespace: scope, Token: max(token, 0)}, ns)
}

func (m *machine) drawAcquire(t *rapid.T) *ask {
	ns := drawSpace(t)
	req := &wire.Request{Op: wire.OpAcquire, Owner: pick(t, "owner", owners...), Key: drawKey(t), TTLMillis: drawTTL(t)}
	for range pick(t, "locks", 1, 2, 3, 2, 1, 1, 0) {
		req.Locks = append(req.Locks, m.drawLock(t, req.Owner, ns))
	}
	req.Token = m.drawToken(t, ns, req.Locks)
	req.Releases = m.drawReleases(t, req.Owner, ns, 6)
	req.Releases = append(req.Releases, drawLong(t, ns)...)
	m.drawWaiting(t, req)
	cmd := m.bound(t, newAsk(req, ns))
	cmd.Meta = drawMeta(t)
	m.calls++
	cmd.Caller.ID = m.calls
	return cmd
}

// drawLock is one path of an acquire: mostly new, else mostly one that is held.
func (m *machine) drawLock(t *rapid.T, owner, ns string) wire.LockRequest {
	l := wire.LockRequest{Path: m.drawPath(t, ns)}
	if alg, _ := m.model.algorithm(ns); alg == wire.Semaphore {
		l.Permits = pick[uint32](t, "permits", 2, 2, 2, 2, 2, 2, 2, 2, 1, 3, 0)
	}
	if oneIn(t, 3, "read") {
		l.Mode = wire.ModeRead
	}
	if alg, _ := m.model.algorithm(ns); !alg.AllowsReads() && !oneIn(t, 8, "refused read") {
		l.Mode = wire.ModeWrite
	}
	if !oneIn(t, 5, "held") {
		return l
	}
	l.State = wire.StateHeld
	var own []nHold
	for _, h := range m.model.holds {
		if h.owner == owner && h.ns == ns {
			own = append(own, h)
		}
	}
	if len(own) > 0 && !oneIn(t, 8, "held by nobody") {
		h := rapid.SampledFrom(own).Draw(t, "hold")
		l.Path, l.Mode = h.path, h.mode
	}
	return l
}

// drawToken is the caller's own token: mostly none, else about the fence of one of
// the paths or about the counter.
func (m *machine) drawToken(t *rapid.T, ns string, locks []wire.LockRequest) int64 {
	if !oneIn(t, 4, "token") {
		return 0
	}
	near := pick[int64](t, "near", 0, 1, -1, 4)
	if len(locks) > 0 && !oneIn(t, 3, "counter") {
		fence, _ := m.model.fence(ns, rapid.SampledFrom(locks).Draw(t, "fence of").Path)
		return fence + near
	}
	if oneIn(t, 12, "far") {
		return max(wire.FreeToken, m.model.counter+wire.TokenStride) + min(near, 1)
	}
	return m.model.counter + near
}

// drawReleases are paths to let go, mostly held ones; with a chance of one in n.
func (m *machine) drawReleases(t *rapid.T, owner, ns string, n int) (rs []wire.ReleaseRequest) {
	if !oneIn(t, n, "releases") {
		return nil
	}
	for range rapid.IntRange(1, 2).Draw(t, "released") {
		l := m.drawLock(t, owner, ns)
		rs = append(rs, wire.ReleaseRequest{Path: l.Path, Mode: l.Mode})
	}
	return rs
}

// drawLong is, now and then, the longest paths, of no lock: they take what room there is in the
// queue.
func drawLong(t *rapid.T, ns string) []wire.ReleaseRequest {
	if !oneIn(t, 12, "long") {
		return nil
	}
	path := strings.TrimSuffix(paths[ns][0], "/") + "/"
	path += strings.Repeat("y", wire.MaxPathBytes-len(path))
	return slices.Repeat([]wire.ReleaseRequest{{Path: path}}, rapid.IntRange(1, 6).Draw(t, "longs"))
}

// drawWaiting is how long a request waits, and how.
func (m *machine) drawWaiting(t *rapid.T, req *wire.Request) {
	req.QueueTTLMillis = pick[uint64](t, "queue_ttl", 0, 1_000_000, 2000, 200, 10)
	switch rapid.Uint32().Draw(t, "flags") % 8 {
	case 4, 5, 6:
		req.Flags = wire.FlagWait
	case 7:
		req.Flags = wire.FlagNoQueue
	}
}

// drawMeta is what an acquire says about its holder.
func drawMeta(t *rapid.T) []byte {
	host := pick(t, "meta", "", "", "a", "b")
	if host == "" {
		return nil
	}
	meta, err := (&wire.Metadata{Host: host}).Encode()
	if err != nil {
		t.Fatal(err)
	}
	return meta
}

// drawPoll asks again for what an entry waits for, in another order.
func (m *machine) drawPoll(t *rapid.T) *ask {
	if len(m.model.waiters) == 0 {
		return m.drawAcquire(t)
	}
	w := rapid.SampledFrom(m.model.waiters).Draw(t, "waiter")
	req := &wire.Request{Op: wire.OpAcquire, Owner: w.owner, Key: drawKey(t), TTLMillis: drawTTL(t)}
	req.Releases = slices.Clip(w.releases)
	req.Locks = rapid.Permutation(w.locks).Draw(t, "again")
	req.Token = m.drawToken(t, w.ns, req.Locks)
	req.Releases = append(req.Releases, drawLong(t, w.ns)...)
	m.drawWaiting(t, req)
	cmd := m.bound(t, newAsk(req, w.ns))
	cmd.Meta = drawMeta(t)
	m.calls++
	cmd.Caller.ID = m.calls
	return cmd
}

// drawRepeat asks again with a key what was asked with it, or something else.
func (m *machine) drawRepeat(t *rapid.T) *ask {
	if len(m.keyed) == 0 {
		return m.drawAcquire(t)
	}
	cmd := m.keyed[rapid.IntRange(0, len(m.keyed)-1).Draw(t, "repeat")]
	if oneIn(t, 10, "another request") {
		req := *cmd.Req
		req.Owner = pick(t, "owner", owners...)
		cmd.Req = &req
	}
	m.calls++
	cmd.Caller.ID = m.calls
	return &cmd
}

// drawAgain is a request that a session asks a second time, on a later connection
// perhaps; or another one under the id of one that waits.
func (m *machine) drawAgain(t *rapid.T) *ask {
	if len(m.asked) == 0 {
		return m.drawAcquire(t)
	}
	cmd := m.asked[rapid.IntRange(0, len(m.asked)-1).Draw(t, "again")]
	cmd.again = true
	cmd.Epoch += uint64(rapid.IntRange(0, 1).Draw(t, "later"))
	waits := slices.ContainsFunc(m.model.waiters, func(w nWaiter) bool { return w.open && w.caller == cmd.Caller })
	if waits && oneIn(t, 4, "another") {
		other := m.drawAcquire(t)
		cmd.Req, cmd.NS, cmd.Meta = other.Req, other.NS, other.Meta
	}
	return &cmd
}

// drawRelease lets go of what somebody holds, or of anything.
func (m *machine) drawRelease(t *rapid.T) *ask {
	req := &wire.Request{Op: wire.OpRelease, Owner: pick(t, "owner", owners...), Key: drawKey(t)}
	ns := drawSpace(t)
	if len(m.model.holds) > 0 && !oneIn(t, 8, "anything") {
		h := rapid.SampledFrom(m.model.holds).Draw(t, "hold")
		req.Owner, ns = h.owner, h.ns
		req.Releases = append(req.Releases, wire.ReleaseRequest{Path: h.path, Mode: h.mode})
	}
	req.Releases = append(req.Releases, m.drawReleases(t, req.Owner, ns, 3)...)
	cmd := newAsk(req, ns)
	switch {
	case oneIn(t, 4, "by token"):
		req.Token = rapid.Int64Range(0, m.model.counter).Draw(t, "token")
	case oneIn(t, 3, "by request"):
		cmd.Caller.Session = engine.Session{byte(rapid.IntRange(1, 2).Draw(t, "session"))}
		req.Target = max(m.calls-min(m.calls, rapid.Uint64Range(0, 6).Draw(t, "ago")), 1)
		if len(m.model.holds) > 0 && oneIn(t, 2, "of the hold") {
			if all := rapid.SampledFrom(m.model.holds).Draw(t, "taken").by; len(all) > 0 {
				by := rapid.SampledFrom(all).Draw(t, "by")
				cmd.Caller.Session, req.Target = by.Session, by.ID
			}
		}
		if oneIn(t, 3, "and by token") {
			req.Token = rapid.Int64Range(0, m.model.counter).Draw(t, "token")
		}
	}
	return cmd
}

func drawDomains(t *rapid.T) []string {
	return pick(t, "domains", nil, []string{"h:/a"}, []string{"h:"}, []string{"g:", "h:/a/n"}, []string{"h:/a", "g:"},
		[]string{"h:/"})
}

func (m *machine) drawReleaseAll(t *rapid.T) *ask {
	return newAsk(&wire.Request{
		Op: wire.OpReleaseAll, Owner: pick(t, "owner", owners...), Key: drawKey(t), Domains: drawDomains(t),
	}, "")
}

func (m *machine) drawRenew(t *rapid.T) *ask {
	req := &wire.Request{Op: wire.OpRenew, Owner: pick(t, "owner", owners...), Key: drawKey(t), TTLMillis: drawTTL(t),
		Domains: drawDomains(t)}
	req.Flags = pick(t, "flags", 0, wire.FlagExtend)
	return m.bound(t, newAsk(req, ""))
}

// drawCancel ends the wait of an open call, or of none.
func (m *machine) drawCancel(t *rapid.T) *ask {
	cmd := m.bound(t, newAsk(&wire.Request{Op: wire.OpCancelWait, Target: 1}, ""))
	cmd.Req.GraceMillis = pick[uint64](t, "grace", 0, 500, 0, 10)
	open := slices.DeleteFunc(slices.Clone(m.model.waiters), func(w nWaiter) bool { return !w.open })
	if len(open) > 0 {
		w := rapid.SampledFrom(open).Draw(t, "call")
		cmd.Caller.Session, cmd.Req.Target = w.caller.Session, w.caller.ID
		if !oneIn(t, 4, "any connection") {
			cmd.Epoch = w.epoch
		}
	}
	return cmd
}

// drawDetach closes a connection that a lease is tied to, or is to be, or the one before it.
func (m *machine) drawDetach(t *rapid.T) *ask {
	cmd := m.bound(t, newAsk(&wire.Request{Op: wire.OpDetach}, ""))
	var ties []*nBind
	for _, l := range m.model.leases {
		ties = append(ties, l.bind)
	}
	for _, w := range m.model.waiters {
		ties = append(ties, w.bind)
	}
	ties = slices.DeleteFunc(ties, func(b *nBind) bool { return b == nil })
	if len(ties) > 0 {
		b := rapid.SampledFrom(ties).Draw(t, "tied")
		cmd.Caller.Session, cmd.Epoch = b.session, b.epoch-uint64(rapid.IntRange(0, 1).Draw(t, "earlier"))
	}
	return cmd
}

// drawOwner is what is done to an owner as a whole.
func (m *machine) drawOwner(t *rapid.T) *ask {
	op := pick(t, "op", wire.OpDetach, wire.OpBind, wire.OpUnbind, wire.OpRequestRevoke, wire.OpRevokeNotice,
		wire.OpForceRelease, wire.OpKillNotice)
	cmd := m.bound(t, newAsk(&wire.Request{Op: op, Owner: pick(t, "owner", owners...)}, ""))
	switch op {
	case wire.OpBind:
		cmd.Bound = true
		cmd.Req.TTLMillis = pick[uint64](t, "ttl", 0, 100, 50_000)
	case wire.OpForceRelease:
		cmd.Req.Key = drawKey(t)
	}
	return cmd
}

func (m *machine) drawEdge(t *rapid.T) *ask {
	req := &wire.Request{Op: wire.OpClearWaitEdge, Owner: pick(t, "owner", owners...), Key: drawKey(t)}
	if !oneIn(t, 4, "clear") {
		req.Op, req.Blocker, req.TTLMillis = wire.OpSetWaitEdge, pick(t, "blocker", owners...), drawTTL(t)
		if oneIn(t, 2, "with path") {
			req.Path, req.Reason = m.drawPath(t, drawSpace(t)), rapid.SampledFrom(reasons).Draw(t, "reason")
		}
	}
	return newAsk(req, "")
}

// drawPolicy changes the algorithm of a namespace, which clears it, so that it
// must not happen too often. What is a root stays one.
func (m *machine) drawPolicy(t *rapid.T) *ask {
	req := &wire.Request{Op: wire.OpSetRow, Namespace: pick(t, "ns", "h:/", "h:/", "h:/b", "h:/a", "g", "h:/a/n"),
		Explicit: true, Attempt: m.model.attempt}
	switch {
	case oneIn(t, 3, "same"):
		req.Algorithm, _ = m.model.algorithm(req.Namespace)
	case !slices.Contains(roots, req.Namespace) && oneIn(t, 2, "delete"):
		req.Explicit = false
	default:
		req.Algorithm = wire.Algorithm(rapid.IntRange(0, int(wire.Semaphore)).Draw(t, "algorithm"))
	}
	return newAsk(req, "")
}

// drawDisk does to the one replica what makes no difference.
func (m *machine) drawDisk(t *rapid.T) *ask {
	switch op := pick(t, "disk", "checkpoint", "flush", "checkpoint and flush", "reload", "restart", "remember"); op {
	case "checkpoint":
		m.moved.checkpoint()
	case "flush":
		m.moved.flush(t, rapid.IntRange(0, 5).Draw(t, "budget"))
	case "checkpoint and flush":
		m.moved.flush(t, 0)
		m.moved.checkpoint()
		m.moved.flush(t, rapid.IntRange(0, 20).Draw(t, "budget"))
	case "reload":
		m.moved.reload(t)
	case "restart":
		m.moved.restart(t)
	case "remember":
		m.moved.remember(t)
	default:
		panic(fmt.Sprintf("no such step: %s", op))
	}
	return nil
}

// drawMove begins a routing change, or ends the one that is going on.
func (m *machine) drawMove(t *rapid.T) *ask {
	attempt := m.model.attempt + pick[uint64](t, "attempt", 0, 0, 1)
	if m.model.attempt > 0 && pick(t, "late", false, false, false, true) {
		attempt = m.model.attempt - 1
	}
	if len(m.model.frozen) > 0 {
		return newAsk(&wire.Request{
			Op: pick(t, "end", wire.OpThaw, wire.OpThaw, wire.OpLeave), Namespace: m.model.frozen[0].root,
			Attempt: attempt,
		}, "")
	}
	root := pick(t, "root", "h:/a/b", "h:/a", "h:/a/d", "h", "g", "h:/b")
	until := pick[uint64](t, "until", 0, m.model.version+1, m.model.version+2)
	return newAsk(&wire.Request{Op: wire.OpFreeze, Namespace: root, Attempt: attempt, Target: until},
		pick(t, "above", "h:/a", "g", ""))
}
