package naive

import (
	"slices"
	"strconv"
	"strings"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/wire"
)

// claim notes a keyed request that goes to several groups, before it is carried out in any.
func (m *Model) claim(cmd *engine.Command) wire.Result {
	req := cmd.Req
	scope := wire.Op(req.Target).String() + " " + req.Key
	at := slices.IndexFunc(m.kept, func(k nKept) bool { return k.scope == scope })
	until := m.now + int64(m.cfg.KeptMillis)
	known := at >= 0 && m.kept[at].hashed() == req.Attempt
	joins := req.Kinds == engine.ClaimBegins || req.Kinds == engine.ClaimGoesOn
	switch {
	case joins && req.Token != 0 && (!known || m.kept[at].token != req.Token && m.kept[at].status != wire.StatusOK):
		return wire.Result{Code: wire.Forgotten}
	case req.Kinds == engine.ClaimDone && at < 0:
		m.kept = append(m.kept, nKept{
			scope: scope, hash: req.Attempt, status: wire.StatusOK, token: req.Token, deadline: until,
			of: cmd.Caller.Session,
		})
		return wire.Result{}
	case req.Kinds == engine.ClaimDone:
		k := &m.kept[at]
		switch {
		case known && k.status == wire.StatusOK:
			return wire.Result{}
		case !known || k.token != req.Token || k.attempt != req.GraceMillis:
			return wire.Result{Status: wire.StatusQueued}
		}
		k.status, k.deadline = wire.StatusOK, until
		return wire.Result{}
	case req.Kinds != engine.ClaimBegins && !known:
		return wire.Result{}
	case req.Kinds == engine.ClaimDrops:
		if m.kept[at].token == req.Token {
			m.kept = slices.Delete(m.kept, at, at+1)
		}
		return wire.Result{}
	case req.Kinds == engine.ClaimYields:
		if k := &m.kept[at]; k.owned.ID != 0 && k.owned == cmd.Caller {
			k.ends = m.now
		}
		return wire.Result{}
	case at >= 0 && !known:
		return wire.Result{Code: wire.InvalidArgument}
	case at < 0 && !m.roomForKey(cmd):
		return wire.Result{Code: wire.ResourceExhausted}
	case at < 0:
		at = len(m.kept)
		m.kept = append(m.kept, nKept{
			scope: scope, hash: req.Attempt, status: wire.StatusQueued, token: m.now, deadline: until,
			plan: string(req.Cursor),
			of:   cmd.Caller.Session, attempt: 1, ends: m.now + turn(0, req), version: cmd.Version,
			owned: asks(cmd.Caller),
		})
	case m.kept[at].status == wire.StatusQueued && wire.Op(req.Target) != wire.OpRenew:
		k := &m.kept[at]
		if cmd.Version < k.version {
			return wire.Result{Code: wire.Unavailable, Position: engine.Moved, Count: k.version}
		}
		k.turn = max(k.turn, min(2*int64(req.GraceMillis), 120_000))
		if same := k.owned.ID != 0 && k.owned == cmd.Caller; k.ends > m.now && !same {
			return wire.Result{Status: wire.StatusQueued, Token: k.token}
		}
		k.deadline, k.attempt, k.ends = until, k.attempt+1, m.now+turn(k.turn, req)
		k.version, k.owned = cmd.Version, asks(cmd.Caller)
	}
	k := &m.kept[at]
	return wire.Result{Status: k.status, Token: k.token, Count: k.attempt, List: &wire.List{Cursor: []byte(k.plan)}}
}

// turn is how long a claim is an attempt's.
func turn(known int64, req *wire.Request) int64 {
	if left := int64(req.TTLMillis); left > 0 {
		return min(max(known, 500), left)
	}
	return max(known, 500)
}

// partAgain answers a part of a claimed request that was carried out: to the latest attempt so far.
func (m *Model) partAgain(cmd *engine.Command, k *nKept) wire.Result {
	if attemptOf(cmd.Req) < k.attempt {
		return wire.Result{Code: wire.Unavailable, Position: engine.Superseded}
	}
	k.attempt, k.deadline = attemptOf(cmd.Req), m.now+int64(m.cfg.KeptMillis)
	return wire.Result{}
}

// repeatPart is partAgain of a part that its session remembers.
func (m *Model) repeatPart(cmd *engine.Command) wire.Result {
	switch at := m.keptAt(cmd); {
	case !strings.Contains(cmd.Req.Key, "\x00"):
	case at >= 0:
		return m.partAgain(cmd, &m.kept[at])
	case !m.roomForKey(cmd):
		return wire.Result{Code: wire.Unavailable}
	default:
		m.kept = append(m.kept, nKept{
			scope: scopeOf(cmd), req: *cmd.Req, deadline: m.now + int64(m.cfg.KeptMillis), by: asks(cmd.Caller),
			of: cmd.Caller.Session, attempt: attemptOf(cmd.Req),
		})
	}
	return wire.Result{}
}

// attemptOf is which attempt of a claimed request asks for a part of it: the last piece of its key, if that has four.
func attemptOf(req *wire.Request) (attempt uint64) {
	if all := strings.Split(req.Key, "\x00"); len(all) == 4 {
		attempt, _ = strconv.ParseUint(all[3], 10, 64)
	}
	return attempt
}
