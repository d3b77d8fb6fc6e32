package groups

import (
	"slices"
	"strings"

	"github.com/pathlockd/pathlockd/groups/replica"
	"github.com/pathlockd/pathlockd/groups/rows"
	"github.com/pathlockd/pathlockd/wire"
)

// release gives back paths of several namespaces, or several with a key, or the owner's wait edge
// with them.
func (s *steps) release() (res wire.Result, err *wire.Error) {
	if s.req.Key != "" {
		// What its claim says of namespaces is said for good: by routes that know every one in
		// which the owner took something before it asked.
		s.only = map[uint64]bool{rows.SystemLog: true}
		if err = s.caughtUp(); err != nil {
			return res, err
		}
		if done, err := s.wasDone(); done || err != nil {
			return res, err
		}
	}
	s.routes = s.n.routes.Load()
	var names []string
	var plan []byte
	for _, rel := range s.req.Releases {
		names = append(names, s.routes.Resolve(rel.Path))
		plan = appendNS(plan, names[len(names)-1])
	}
	c, err := s.claim(plan)
	if err != nil || c.done {
		return res, s.toldOf(c, err)
	}
	var cmds []command
	at := make(map[string]int)
	for place, rel := range s.req.Releases {
		ns := names[place]
		if !c.stays(place, ns) || c.key == "" && s.gave[rel] {
			continue
		}
		i, ok := at[ns]
		if !ok {
			i = len(cmds)
			at[ns] = i
			cmds = append(cmds, command{
				group: s.n.groupOf(ns), ns: ns, sub: replica.SubOf(ns + s.tried[ns]),
				req: &wire.Request{
					Op: wire.OpRelease, Owner: s.req.Owner, Key: c.key, Token: s.req.Token, Target: s.req.Target,
				},
			})
		}
		cmds[i].req.Releases = append(cmds[i].req.Releases, rel)
	}
	results, err := s.proposed(cmds)
	for i := range results {
		if cmd := &cmds[i]; results[i].Code == wire.OK {
			s.given(cmd.ns, cmd.req.Releases)
		}
	}
	if err == nil && s.req.DelWait {
		err = s.home(&wire.Request{Op: wire.OpClearWaitEdge, Owner: s.req.Owner, Key: c.key})
	}
	return res, s.ends(c, err)
}

// given notes that a part of a release was carried out. When a move overtakes another part, the whole is resolved
// anew; what comes to the namespace then is another part of it.
func (s *steps) given(ns string, paths []wire.ReleaseRequest) {
	if s.gave == nil {
		s.gave, s.tried = make(map[wire.ReleaseRequest]bool), make(map[string]string)
	}
	s.tried[ns] += "\x00"
	for _, p := range paths {
		s.gave[p] = true
	}
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
	s.routes = r
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
// own, a handler every one in which the owner has an ownership record.
func (s *steps) byGroup(ds []domain, present []uint16) map[uint16][]string {
	by := make(map[uint16][]string)
	for _, d := range ds {
		if !wire.IsHandler(d.name) {
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

// names is the domains of the request as engine takes them.
func (s *steps) names() (names []string) {
	for _, d := range s.domains() {
		names = append(names, d.name)
	}
	return names
}

// releaseAll gives everything of an owner back, or everything in the domains.
func (s *steps) releaseAll() (res wire.Result, err *wire.Error) {
	upToDate := s.caughtUpIn
	if s.repeats() && s.req.Key == "" {
		upToDate = s.caughtUp // what its domains were in then may be in other logs now
	}
	if err := s.resumed(upToDate); err != nil {
		return res, err
	}
	if done, err := s.wasDone(); done || err != nil {
		return res, err
	}
	present, err := s.find(s.req.Owner)
	if err != nil {
		return res, err
	}
	domains := s.domains() // before the claim: a move that comes behind it has the claim asked for again
	var plan []byte
	for _, d := range domains {
		plan = appendNS(plan, d.name)
	}
	c, err := s.claim(append(plan, groupList(present)...))
	if err != nil || c.done {
		return res, s.toldOf(c, err)
	}
	groups := groupsOfList(c.plan[min(len(domains)*nsBytes, len(c.plan)):])
	var stay []domain // what another one resolves to by now was free when it came there
	for place, d := range domains {
		if c.stays(place, d.name) {
			stay = append(stay, d)
		}
	}
	by := s.byGroup(stay, groups)
	var cmds []command
	for _, g := range groups {
		if len(s.req.Domains) > 0 && by[g] == nil {
			continue
		}
		req := &wire.Request{Op: wire.OpReleaseAll, Owner: s.req.Owner, Key: c.key, Domains: by[g]}
		cmds = append(cmds, command{group: g, sub: uint64(g) + 1, req: req})
	}
	noted := s.req.DelWait || c.key != "" // by what is asked of the owner's home, or with the end of the claim
	if len(cmds) == 1 && !noted {
		cmds[0].sub |= replica.WholeSub
		noted = true
	}
	if err := s.all(cmds); err != nil {
		return res, err
	}
	switch {
	case s.req.DelWait:
		err = s.home(&wire.Request{Op: wire.OpClearWaitEdge, Owner: s.req.Owner, Key: c.key})
	case !noted:
		err = s.whole(s.groupToTell(cmds))
	}
	return res, s.ends(c, err)
}

// groupToTell is a group that a call has to do with, and whose log is told that all of it is carried
// out: a new one must not hang on another log.
func (s *steps) groupToTell(cmds []command) uint16 {
	ds := s.domains()
	switch {
	case len(cmds) > 0:
		return cmds[0].group
	case s.n.logsOf(ds) != nil:
		return s.n.groupOf(ds[0].name)
	}
	return s.homeGroup()
}

// renew renews an owner's leases everywhere, or in the domains; and ties them to
// the connection, for Bind.
func (s *steps) renew() (res wire.Result, err *wire.Error) {
	c, err := s.claim(nil)
	if err != nil {
		return res, err
	}
	// A renewal is carried out again by each repeat: its parts need no keys.
	if res, err = s.renewed(); err == nil && res.Status != wire.StatusOK {
		err = s.drops(c)
	}
	return res, err
}

func (s *steps) renewed() (res wire.Result, err *wire.Error) {
	if err := s.caughtUpIn(); err != nil {
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
		req := &wire.Request{Op: s.c.Op, Owner: s.req.Owner, TTLMillis: s.req.TTLMillis, GraceMillis: s.req.GraceMillis,
			Domains: live}
		req.Flags = s.req.Flags & wire.FlagExtend // that it binds is said beside the request
		if s.c.Op == wire.OpBind {
			req.Domains = nil
		}
		cmds = append(cmds, command{group: g, sub: uint64(g) + 1, req: req})
	}
	renewed := false
	var lost *wire.Result
	results, err := s.proposed(cmds)
	if err != nil {
		return res, err
	}
	for _, r := range results {
		if r.Status != wire.StatusOK {
			lost = &r
			continue
		}
		renewed = true
		res.Flag = res.Flag || r.Flag
	}
	for _, d := range ds {
		if !slices.ContainsFunc(present, func(g uint16) bool { return alive[groupDomain{g, d.name}] }) {
			return wire.Result{Status: wire.RenewLost, Path: strings.Clone(d.asked), Reason: wire.ReasonMissingAlive},
				nil
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
	present, done, err := s.present()
	if done || err != nil {
		return res, err
	}
	s.routes = s.n.routes.Load() // that its attempt goes by; a refusal is of these
	c, err := s.claim(groupList(present))
	if err != nil || c.done {
		return res, s.toldOf(c, err)
	}
	if err = s.each(groupsOfList(c.plan), &wire.Request{Op: wire.OpForceRelease, Owner: s.req.Owner,
		Key: c.key}); err == nil {
		err = s.home(&wire.Request{Op: wire.OpKillNotice, Owner: s.req.Owner, Key: c.key})
	}
	return res, s.ends(c, err)
}

// revoke marks an owner's leases, and then tells it.
func (s *steps) revoke() (res wire.Result, err *wire.Error) {
	present, done, err := s.present()
	if done || err != nil {
		return res, err
	}
	if err = s.each(present, &wire.Request{Op: wire.OpRequestRevoke, Owner: s.req.Owner}); err == nil {
		err = s.home(&wire.Request{Op: wire.OpRevokeNotice, Owner: s.req.Owner})
	}
	return res, err
}

// groupDomain is a domain as far as one group has to do with it.
type groupDomain struct {
	group uint16
	name  string
}

// aliveIn says for each of the groups in which of its domains the owner has a live lease. A group
// is asked once, however many domains there are: they may be a thousand handlers, with namespaces
// in any group.
func (s *steps) aliveIn(groups []uint16, by map[uint16][]string) (map[groupDomain]bool, *wire.Error) {
	var qs []*replica.Query
	for _, g := range groups {
		if len(by[g]) > 0 {
			qs = append(qs, &replica.Query{
				What: replica.AskAlive, Group: g, Version: s.version(), Owner: s.req.Owner, Names: by[g],
			})
		}
	}
	results, err := s.askAll(qs)
	if err != nil {
		return nil, err
	}
	alive := make(map[groupDomain]bool)
	for i, q := range qs {
		if results[i].List == nil {
			continue
		}
		for _, p := range results[i].List.Positions {
			if p.Log < uint64(len(q.Names)) {
				alive[groupDomain{q.Group, q.Names[p.Log]}] = true
			}
		}
	}
	return alive, nil
}

// alive says whether the owner has a live lease in one of the domains.
func (s *steps) alive() (res wire.Result, err *wire.Error) {
	if err = s.caughtUpIn(); err == nil {
		res.Flag, err = s.any(replica.AskAlive, s.req.Owner, s.names())
	}
	return res, err
}

// toldOf notes that a call is answered by a claim that is done: its id is to tell that when the key is over. It is
// told where that claim is, and so hangs on no other log.
func (s *steps) toldOf(c claim, err *wire.Error) *wire.Error {
	if err == nil && c.done {
		err = s.whole(s.keyGroup())
	}
	return err
}
