package engine

import (
	"github.com/pathlockd/pathlockd/wire"
)

// scriptCommands is every command of the scripts.
var scriptCommands map[string]func(*script, *scriptLine)

func init() { // repeat and waiting look others up
	scriptCommands = map[string]func(*script, *scriptLine){
		"acquire":     (*script).acquire,
		"release":     (*script).release,
		"release-all": (*script).releaseAll,
		"renew":       (*script).renew,
		"kill":        (*script).kill,
		"revoke":      (*script).revoke,
		"set-edge":    (*script).setEdge,
		"clear-edge":  (*script).clearEdge,

		"bind":    (*script).bind,
		"unbind":  (*script).unbind,
		"detach":  (*script).detach,
		"cancel":  (*script).cancel,
		"repeat":  (*script).repeat,
		"waiting": (*script).waiting,

		"policy": (*script).policy,
		"freeze": (*script).freeze,
		"thaw":   (*script).thaw,
		"open":   (*script).open,
		"leave":  (*script).leave,
		"root":   (*script).root,
		"unroot": (*script).unroot,
		"group":  func(s *script, l *scriptLine) { s.enter(s.word(l, 0)) },

		"tick":       (*script).tick,
		"step":       (*script).step,
		"restart":    (*script).restartAll,
		"checkpoint": (*script).checkpoint,

		"moved":      (*script).moved,
		"get-policy": (*script).getPolicy,
		"alive":      (*script).alive,
		"waits":      (*script).waits,
		"assert":     (*script).assert,
		"inspect":    (*script).inspect,
		"list":       (*script).list,
		"dump":       (*script).dump,
		"scan":       (*script).scan,
		"describe":   (*script).describe,
		"edge":       (*script).edge,
		"blocking":   (*script).blocking,
		"state":      (*script).state,
	}
}

// acquire OWNER PATH… [noqueue] [wait=CALL] id= ttl= token= queue= release=PATH… meta=
func (s *script) acquire(l *scriptLine) {
	cmd := s.acquireCommand(l)
	res, out := s.at.apply(s.clock, cmd)
	s.answers[l.text] = res
	s.tell(cmd.Req.Owner, acquireText(&res), out)
}

func (s *script) acquireCommand(l *scriptLine) *Command {
	req := &wire.Request{Op: wire.OpAcquire, TTLMillis: s.millis(l.opt("ttl", scriptTTL.String()))}
	if l.flag("noqueue") {
		req.Flags |= wire.FlagNoQueue
	}
	req.Owner = s.word(l, 0)
	req.Token = int64(s.number(l.opt("token", "0")))
	req.QueueTTLMillis = s.millis(l.opt("queue", "0s"))
	req.Meta = s.metadata(l.opt("meta", ""))
	ns := ""
	within := func(path string) {
		at := s.routes.Resolve(path)
		if ns != "" && ns != at {
			s.fail("the router would refuse paths of %s and %s in one acquire", ns, at)
		}
		ns = at
	}
	for _, w := range l.words[1:] {
		req.Locks = append(req.Locks, s.lock(w))
		within(req.Locks[len(req.Locks)-1].Path)
	}
	for _, w := range l.opts["release"] {
		req.Releases = append(req.Releases, s.released(w))
		within(req.Releases[len(req.Releases)-1].Path)
	}
	cmd := s.command(l, req, ns)
	if call := l.opt("wait", ""); call != "" {
		req.Flags |= wire.FlagWait
		cmd.Caller.ID = uint64(s.number(call))
	}
	if id := l.opt("id", ""); id != "" {
		cmd.Caller.ID = uint64(s.number(id))
	}
	return cmd
}

// metadata is holder metadata of a process on a host of that name.
func (s *script) metadata(host string) []byte {
	if host == "" {
		return nil
	}
	b, err := (&wire.Metadata{Host: host}).Encode()
	if err != nil {
		s.fail("%v", err)
	}
	return b
}

// release OWNER PATH… [del_wait_key] key= token= by=, namespace by namespace as the router
// does
func (s *script) release(l *scriptLine) {
	edge := l.flag("del_wait_key")
	owner := s.word(l, 0)
	var spaces []string
	paths := make(map[string][]wire.ReleaseRequest)
	for _, w := range l.words[1:] {
		r := s.released(w)
		ns := s.routes.Resolve(r.Path)
		if paths[ns] == nil {
			spaces = append(spaces, ns)
		}
		paths[ns] = append(paths[ns], r)
	}
	var res wire.Result
	var all Output
	for _, ns := range spaces {
		one, out := s.apply(l, &wire.Request{
			Op: wire.OpRelease, Owner: owner, Releases: paths[ns],
			Token: int64(s.number(l.opt("token", "0"))), Target: uint64(s.number(l.opt("by", "0"))),
		}, ns)
		all.Events, all.Answers = append(all.Events, out.Events...), append(all.Answers, out.Answers...)
		if res.Code == wire.OK {
			res = one
		}
	}
	s.dropEdge(owner, edge)
	s.tell(owner, emptyText(&res), &all)
}

// dropEdge is what the router sends after a release that names del_wait_key.
func (s *script) dropEdge(owner string, del bool) {
	if del {
		req := &wire.Request{Op: wire.OpClearWaitEdge, Owner: owner}
		s.at.apply(s.clock, &Command{Req: req})
	}
}

// release-all OWNER [NAMESPACE…] [del_wait_key] key=
func (s *script) releaseAll(l *scriptLine) {
	edge := l.flag("del_wait_key")
	owner := s.word(l, 0)
	res, out := s.apply(l, &wire.Request{Op: wire.OpReleaseAll, Owner: owner, Domains: s.domains(l.words[1:])}, "")
	s.tell(owner, emptyText(&res), out)
	s.dropEdge(owner, edge)
}

// renew OWNER [NAMESPACE…] [extend] ttl= grace= session= epoch= key=
func (s *script) renew(l *scriptLine) {
	cmd := s.renewCommand(l)
	res, out := s.at.apply(s.clock, cmd)
	s.answers[l.text] = res
	s.tell(cmd.Req.Owner, renewText(&res), out)
}

func (s *script) renewCommand(l *scriptLine) *Command {
	req := &wire.Request{Op: wire.OpRenew}
	if l.flag("extend") {
		req.Flags |= wire.FlagExtend
	}
	req.Owner, req.Domains = s.word(l, 0), s.domains(l.words[1:])
	req.TTLMillis = s.millis(l.opt("ttl", scriptTTL.String()))
	return s.command(l, req, "")
}

// kill OWNER key=, the two steps that the router makes of a ForceRelease
func (s *script) kill(l *scriptLine) {
	owner := s.word(l, 0)
	res, out := s.apply(l, &wire.Request{Op: wire.OpForceRelease, Owner: owner}, "")
	s.tell(owner, emptyText(&res), out)
	_, out = s.at.apply(s.clock, &Command{Req: &wire.Request{Op: wire.OpKillNotice, Owner: owner}})
	s.tellEvents(out)
}

// revoke OWNER, the two steps that the router makes of a RequestRevoke
func (s *script) revoke(l *scriptLine) {
	s.plain(l, &wire.Request{Op: wire.OpRequestRevoke, Owner: s.word(l, 0)})
	_, out := s.at.apply(s.clock, &Command{Req: &wire.Request{Op: wire.OpRevokeNotice, Owner: s.word(l, 0)}})
	s.tellEvents(out)
}

// set-edge OWNER BLOCKER [PATH REASON] ttl= key=
func (s *script) setEdge(l *scriptLine) {
	req := &wire.Request{Op: wire.OpSetWaitEdge, Owner: s.word(l, 0), Blocker: s.word(l, 1)}
	if len(l.words) > 2 {
		req.Path, req.Reason = l.words[2], s.reason(s.word(l, 3))
	}
	req.TTLMillis = s.millis(l.opt("ttl", scriptTTL.String()))
	s.plain(l, req)
}

// clear-edge OWNER key=
func (s *script) clearEdge(l *scriptLine) {
	s.plain(l, &wire.Request{Op: wire.OpClearWaitEdge, Owner: s.word(l, 0)})
}

// plain is a request whose answer says nothing.
func (s *script) plain(l *scriptLine, req *wire.Request) {
	res, out := s.apply(l, req, "")
	s.tell(req.Owner, emptyText(&res), out)
}
