package groups

import (
	"encoding/binary"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/wire"
)

// Calls that are not one command in one group are carried out in steps, each on a
// goroutine of its own: what spans namespaces, what is about an owner wherever it
// is, listings, cycles. In each namespace such a call is linearizable; that it
// spans them is not one instant.

// maxStepped is how many calls are carried out in steps at once; over it they are
// refused.
const maxStepped = 4096

// stepped carries a call out in steps.
func (n *Node) stepped(c *wire.Call, since time.Duration) *wire.Error {
	select {
	case n.slow <- struct{}{}:
	default:
		return wire.Errorf(wire.Unavailable, "%d calls that span groups are under way, no more are taken; nothing was done, try again", maxStepped)
	}
	go func() {
		s := steps{n: n, c: c, since: since, req: new(wire.Request)}
		err := wire.DecodeArgs(c.Op, c.Body, c.NArgs, s.req)
		var res wire.Result
		if err == nil {
			res, err = s.run()
		}
		<-n.slow
		if err != nil {
			res.Fail(err)
		}
		finish(c, &res)
	}()
	return nil
}

// steps is one such call.
type steps struct {
	n     *Node
	c     *wire.Call
	req   *wire.Request // its own copy
	since time.Duration
	own   map[uint64]*machine // by log: the replicas that are up to date since caughtUp
}

func (s *steps) run() (wire.Result, *wire.Error) {
	if administers(s.c.Op) {
		return s.administer()
	}
	switch s.c.Op {
	case wire.OpRelease:
		return s.release()
	case wire.OpReleaseAll:
		return s.releaseAll()
	case wire.OpRenew, wire.OpBind:
		return s.renew()
	case wire.OpUnbind:
		return wire.Result{}, s.everywhere(&wire.Request{Op: wire.OpUnbind, Owner: s.req.Owner})
	case wire.OpForceRelease:
		return s.forceRelease()
	case wire.OpRequestRevoke:
		return s.revoke()
	case wire.OpAssertFencing:
		return s.assert()
	case wire.OpDetectCycle:
		return s.cycle()
	case wire.OpIsOwnerAlive:
		return s.alive()
	case wire.OpListLocks:
		return s.list()
	case wire.OpDumpLocks, wire.OpScanLocks:
		return s.scan()
	case wire.OpBackupOpen:
		return s.backupOpen()
	case wire.OpBackupRead:
		return s.backupRead()
	case wire.OpBackupClose:
		return s.backupClose()
	case wire.OpHealth:
		return s.n.health(), nil
	}
	return wire.Result{}, wire.Errorf(wire.Unimplemented, "op %d: not known to this server", s.c.Op)
}

// command is a request to one group, as part of a call.
type command struct {
	group uint16
	ns    string
	sub   uint64
	req   *wire.Request
}

// propose carries commands out, in their groups' logs, all at once, and answers
// their results in the same order.
func (s *steps) propose(cmds []command) []wire.Result {
	results := make([]wire.Result, len(cmds))
	var logs touched
	var wait sync.WaitGroup
	for i := range cmds {
		cmd := &cmds[i]
		if err := s.n.admit(cmd.group); err != nil {
			results[i].Fail(err)
			continue
		}
		body, nargs := wire.AppendArgs(nil, cmd.req)
		wait.Add(1)
		p := &part{
			group: cmd.group, op: cmd.req.Op, nargs: nargs, body: body, nsLen: len(cmd.ns),
			version: s.n.routes.Load().Version, session: s.c.Session, id: s.c.ID, sub: cmd.sub | 1<<63,
			bound: s.c.Bound, grace: s.c.Grace, since: s.since, counted: true,
		}
		p.done = func(_ *part, res *wire.Result) {
			results[i] = *res
			wait.Done()
		}
		l := s.n.logOf(cmd.group)
		l.push(p)
		logs.add(l)
	}
	logs.start()
	wait.Wait()
	return results
}

// all is propose for commands that must all succeed.
func (s *steps) all(cmds []command) *wire.Error {
	for _, res := range s.propose(cmds) {
		if err := res.Err(); err != nil {
			return err
		}
	}
	return nil
}

// everywhere sends a request to every group in which its owner has a standing.
func (s *steps) everywhere(req *wire.Request) *wire.Error {
	if err := s.caughtUp(); err != nil {
		return err
	}
	present, err := s.find(req.Owner)
	if err != nil {
		return err
	}
	var cmds []command
	for _, g := range present {
		cmds = append(cmds, command{group: g, sub: uint64(g) + 1, req: req})
	}
	return s.all(cmds)
}

// home sends a request to the group that looks after its owner.
func (s *steps) home(req *wire.Request) *wire.Error {
	g := engine.HomeOf(req.Owner, s.n.cfg.GroupCount)
	return s.all([]command{{group: g, sub: 1 << 32, req: req}})
}

// release gives back paths of several namespaces, or the owner's wait edge with
// them.
func (s *steps) release() (res wire.Result, err *wire.Error) {
	for {
		var cmds []command
		at := make(map[string]int)
		r := s.n.routes.Load()
		for _, rel := range s.req.Releases {
			ns := r.Resolve(rel.Path)
			i, ok := at[ns]
			if !ok {
				i = len(cmds)
				at[ns] = i
				cmds = append(cmds, command{
					group: s.n.groupOf(ns), ns: ns, sub: xxh3.HashString(ns) >> 1,
					req: &wire.Request{Op: wire.OpRelease, Owner: s.req.Owner, Key: s.req.Key},
				})
			}
			cmds[i].req.Releases = append(cmds[i].req.Releases, rel)
		}
		results := s.propose(cmds)
		if s.moved(results) {
			continue
		}
		for i := range results {
			if err := results[i].Err(); err != nil {
				return res, err
			}
		}
		break
	}
	if s.req.DelWait {
		err = s.home(&wire.Request{Op: wire.OpClearWaitEdge, Owner: s.req.Owner, Key: s.req.Key})
	}
	return res, err
}

// moved says that a routing change overtook the call, which should be tried again:
// it has waited a little for the new routes.
func (s *steps) moved(results []wire.Result) bool {
	for i := range results {
		if results[i].Code == wire.Unavailable && results[i].Position == engine.Moved &&
			s.n.clock.Mono()-s.since < s.n.cfg.RequestTimeout {
			time.Sleep(5 * time.Millisecond)
			return true
		}
	}
	return false
}

// domain is one of a request's domains, resolved.
type domain struct {
	asked string // as the client wrote it
	name  string // as engine takes it: a namespace, or a handler and a colon
}

// domains resolves the domains of the request, each as a path would be. A bare
// handler means all its namespaces.
func (s *steps) domains() (ds []domain) {
	r := s.n.routes.Load()
	for _, d := range s.req.Domains {
		if strings.IndexByte(d, ':') < 0 {
			ds = append(ds, domain{d, d + ":"})
		} else {
			ds = append(ds, domain{d, r.Resolve(d)})
		}
	}
	return ds
}

// byGroup says which of the domains concern which of the groups: a namespace its
// own, a handler every one in which the owner has a standing.
func (s *steps) byGroup(ds []domain, present []uint16) map[uint16][]string {
	by := make(map[uint16][]string)
	for _, d := range ds {
		if !strings.HasSuffix(d.name, ":") {
			g := s.n.groupOf(d.name)
			by[g] = append(by[g], d.name)
			continue
		}
		for _, g := range present {
			by[g] = append(by[g], d.name)
		}
	}
	return by
}

// releaseAll gives everything of an owner back, or everything in the domains.
func (s *steps) releaseAll() (res wire.Result, err *wire.Error) {
	if err := s.caughtUp(); err != nil {
		return res, err
	}
	present, err := s.find(s.req.Owner)
	if err != nil {
		return res, err
	}
	by := s.byGroup(s.domains(), present)
	var cmds []command
	for _, g := range present {
		if len(s.req.Domains) > 0 && by[g] == nil {
			continue
		}
		req := &wire.Request{Op: wire.OpReleaseAll, Owner: s.req.Owner, Key: s.req.Key, Domains: by[g]}
		cmds = append(cmds, command{group: g, sub: uint64(g) + 1, req: req})
	}
	if err := s.all(cmds); err != nil {
		return res, err
	}
	if s.req.DelWait {
		err = s.home(&wire.Request{Op: wire.OpClearWaitEdge, Owner: s.req.Owner, Key: s.req.Key})
	}
	return res, err
}

// renew renews an owner's leases everywhere, or in the domains; and ties them to
// the connection, for Bind.
func (s *steps) renew() (res wire.Result, err *wire.Error) {
	if err := s.caughtUp(); err != nil {
		return res, err
	}
	present, err := s.find(s.req.Owner)
	if err != nil {
		return res, err
	}
	ds := s.domains()
	by := s.byGroup(ds, present)
	alive, err := s.aliveIn(present, by)
	if err != nil {
		return res, err
	}
	var cmds []command
	for _, g := range present {
		names := by[g]
		live := slices.DeleteFunc(slices.Clone(names), func(d string) bool { return !alive[groupDomain{g, d}] })
		if len(ds) > 0 && len(live) == 0 {
			continue
		}
		req := &wire.Request{Op: s.c.Op, Owner: s.req.Owner, TTLMillis: s.req.TTLMillis, GraceMillis: s.req.GraceMillis, Key: s.req.Key, Domains: live}
		if s.c.Op == wire.OpBind {
			req.Key, req.Domains = "", nil
		}
		cmds = append(cmds, command{group: g, sub: uint64(g) + 1, req: req})
	}
	renewed := false
	var lost *wire.Result
	for _, r := range s.propose(cmds) {
		if err := r.Err(); err != nil {
			return res, err
		}
		if r.Status != wire.StatusOK {
			lost = &r
			continue
		}
		renewed = true
		res.Flag = res.Flag || r.Flag
	}
	for _, d := range ds {
		if !slices.ContainsFunc(present, func(g uint16) bool { return alive[groupDomain{g, d.name}] }) {
			return wire.Result{Status: wire.RenewLost, Path: strings.Clone(d.asked), Reason: wire.ReasonMissingAlive}, nil
		}
	}
	switch {
	case lost != nil && len(ds) > 0:
		return *lost, nil
	case !renewed:
		return wire.Result{Status: wire.RenewLost, Reason: wire.ReasonMissingAlive}, nil
	}
	return res, nil
}

// forceRelease takes everything of an owner away, and then tells it.
func (s *steps) forceRelease() (res wire.Result, err *wire.Error) {
	err = s.everywhere(&wire.Request{Op: wire.OpForceRelease, Owner: s.req.Owner, Key: s.req.Key})
	if err == nil {
		err = s.home(&wire.Request{Op: wire.OpKillNotice, Owner: s.req.Owner, Key: s.req.Key})
	}
	return res, err
}

// revoke marks an owner's leases, and then tells it.
func (s *steps) revoke() (res wire.Result, err *wire.Error) {
	err = s.everywhere(&wire.Request{Op: wire.OpRequestRevoke, Owner: s.req.Owner})
	if err == nil {
		err = s.home(&wire.Request{Op: wire.OpRevokeNotice, Owner: s.req.Owner})
	}
	return res, err
}

// groupDomain is a domain as far as one group has to do with it.
type groupDomain struct {
	group uint16
	name  string
}

// aliveIn says for each of the groups in which of its domains the owner has a live lease.
func (s *steps) aliveIn(groups []uint16, by map[uint16][]string) (map[groupDomain]bool, *wire.Error) {
	var qs []*query
	for _, g := range groups {
		for _, d := range by[g] {
			qs = append(qs, &query{what: askAlive, group: g, owner: s.req.Owner, names: []string{d}})
		}
	}
	results, err := s.askAll(qs)
	if err != nil {
		return nil, err
	}
	alive := make(map[groupDomain]bool)
	for i, q := range qs {
		alive[groupDomain{q.group, q.names[0]}] = results[i].Flag
	}
	return alive, nil
}

// assert checks paths of several namespaces; the first that fails decides.
func (s *steps) assert() (res wire.Result, err *wire.Error) {
	for {
		if err := s.caughtUp(); err != nil || len(s.req.Paths) == 0 {
			return res, err
		}
		r := s.n.routes.Load()
		for _, path := range s.req.Paths {
			ns := r.Resolve(path)
			res = s.ask(&query{
				what: askAssert, group: s.n.groupOf(ns), version: r.Version, ns: ns, owner: s.req.Owner,
				token: s.req.Token, names: []string{path},
			})
			if res.Code != wire.OK || res.Status != wire.StatusOK {
				break
			}
		}
		if !s.moved([]wire.Result{res}) {
			return res, nil
		}
	}
}

// alive says whether the owner has a live lease in one of the domains.
func (s *steps) alive() (res wire.Result, err *wire.Error) {
	if err = s.caughtUp(); err == nil {
		res.Flag, err = s.any(askAlive, s.req.Owner, s.names())
	}
	return res, err
}

// names is the domains of the request as engine takes them.
func (s *steps) names() (names []string) {
	for _, d := range s.domains() {
		names = append(names, d.name)
	}
	return names
}

// any asks a question of the groups where an owner is, and whether one says yes.
func (s *steps) any(what asked, owner string, domains []string) (bool, *wire.Error) {
	results, err := s.askWhere(what, owner, domains)
	return slices.ContainsFunc(results, func(res wire.Result) bool { return res.Flag }), err
}

// askWhere asks a question of the groups where an owner is.
func (s *steps) askWhere(what asked, owner string, domains []string) ([]wire.Result, *wire.Error) {
	present, err := s.find(owner)
	if err != nil {
		return nil, err
	}
	qs := make([]*query, len(present))
	for i, g := range present {
		qs[i] = &query{what: what, group: g, owner: owner, names: domains}
	}
	return s.askAll(qs)
}

// list answers what an owner holds, in order of paths.
func (s *steps) list() (res wire.Result, err *wire.Error) {
	if err := s.caughtUp(); err != nil {
		return res, err
	}
	results, err := s.askWhere(askList, s.req.Owner, s.names())
	res.List = new(wire.List)
	for i := range results {
		res.Flag = res.Flag || results[i].Flag
		res.List.Infos = append(res.List.Infos, results[i].List.Infos...)
	}
	slices.SortFunc(res.List.Infos, func(a, b wire.LockInfo) int {
		if c := strings.Compare(a.Path, b.Path); c != 0 {
			return c
		}
		return int(a.Mode) - int(b.Mode)
	})
	return res, err
}

// cursorFormat is the first byte of a listing's cursor, which goes on with the
// group's number and the key after which the listing goes on.
const cursorFormat = 1

// scan answers one page of held locks.
func (s *steps) scan() (res wire.Result, err *wire.Error) {
	from, after, err := decodeCursor(s.req.Cursor, s.n.cfg.GroupCount)
	if err != nil {
		return res, err
	}
	if err := s.caughtUp(); err != nil {
		return res, err
	}
	page := int(s.req.Page)
	if page == 0 {
		page = wire.DefaultDumpPage
	}
	page = min(page, wire.MaxDumpPage)
	groups, err := s.groupsOf(&query{what: askHeld, group: uint16(from)})
	if err != nil {
		return res, err
	}
	res.List = new(wire.List)
	for _, g := range groups {
		if int(g) != from {
			after = "" // it is a key of the group where the last page ended
		}
		found := s.ask(&query{what: askScan, group: g, path: s.req.Path, after: after, page: page - len(res.List.Infos)})
		if err := found.Err(); err != nil {
			return res, err
		}
		res.List.Infos = append(res.List.Infos, found.List.Infos...)
		if len(res.List.Infos) == page {
			next, last := int(g), string(found.List.Cursor)
			if last == "" {
				next++
			}
			res.List.Cursor = encodeCursor(next, last)
			return res, nil
		}
	}
	res.Done = true
	return res, nil
}

func encodeCursor(group int, key string) []byte {
	b := binary.BigEndian.AppendUint16([]byte{cursorFormat}, uint16(group))
	return append(b, key...)
}

func decodeCursor(b []byte, groups int) (group int, key string, err *wire.Error) {
	if len(b) == 0 {
		return 0, "", nil
	}
	if len(b) < 3 || b[0] != cursorFormat || int(binary.BigEndian.Uint16(b[1:])) > groups {
		return 0, "", wire.Errorf(wire.InvalidArgument, "cursor: is not one that this server gave out")
	}
	return int(binary.BigEndian.Uint16(b[1:])), string(b[3:]), nil
}

// cycle follows wait edges from an owner (contract.md section 9).
func (s *steps) cycle() (res wire.Result, err *wire.Error) {
	if err := s.caughtUp(); err != nil {
		return res, err
	}
	depth := int(min(s.req.Depth, wire.MaxCycleDepth))
	chain := []string{strings.Clone(s.req.Owner)} // an answer outlives the request's body
	res.List = new(wire.List)
	for range depth + 1 {
		next, ok, err := s.waitsFor(chain[len(chain)-1])
		if err != nil || !ok {
			return res, err
		}
		if i := slices.Index(chain, next); i >= 0 {
			res.Cycle, res.List.Names = wire.CycleFound, chain[i:]
			return res, nil
		}
		chain = append(chain, next)
	}
	res.Cycle, res.List.Names = wire.CycleTruncated, chain[:depth+1]
	return res, nil
}

// waitsFor answers whom an owner waits for, by its wait edge, if that counts: if
// what it names still blocks.
func (s *steps) waitsFor(owner string) (blocker string, ok bool, err *wire.Error) {
	e := s.ask(&query{what: askEdge, group: engine.HomeOf(owner, s.n.cfg.GroupCount), owner: owner})
	switch {
	case e.Code != wire.OK || !e.Flag:
		return "", false, e.Err()
	case e.Path == "":
		alive, err := s.any(askAlive, e.Owner, nil)
		if err == nil && !alive {
			alive, err = s.any(askWaits, e.Owner, nil)
		}
		return e.Owner, alive, err
	}
	r := s.n.routes.Load()
	ns := r.Resolve(e.Path)
	b := s.ask(&query{
		what: askBlocking, group: s.n.groupOf(ns), version: anyVersion, ns: ns, path: e.Path, owner: e.Owner, reason: e.Reason,
	})
	return e.Owner, b.Flag, b.Err()
}
