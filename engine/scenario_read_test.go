package engine

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/pathlockd/pathlockd/wire"
)

// read asks the group and writes what it answers.
func (s *script) read(who string, f func(v *View) string) {
	fmt.Fprintln(&s.say, strings.Replace(who+": "+s.at.read(f), ": \n", ":\n", 1))
}

// moved PATH version=: whether a read of it must be resolved anew
func (s *script) moved(l *scriptLine) {
	path := s.word(l, 0)
	version := s.number(l.opt("version", strconv.Itoa(int(s.routes.Version))))
	s.read(path, func(v *View) string {
		if res, moved := v.Moved(s.routes.Resolve(path), path, uint64(version)); moved {
			return refusal(&res)
		}
		return "is here"
	})
}

// get-policy NAMESPACE
func (s *script) getPolicy(l *scriptLine) {
	s.read(s.word(l, 0), func(v *View) string {
		alg, chosen := v.Policy(l.words[0])
		return fmt.Sprintf("%v explicit=%v", alg, chosen)
	})
}

// alive OWNER [NAMESPACE…]
func (s *script) alive(l *scriptLine) {
	s.read(s.word(l, 0), func(v *View) string {
		return fmt.Sprintf("alive=%v", v.Alive(l.words[0], s.domains(l.words[1:])))
	})
}

// waits OWNER
func (s *script) waits(l *scriptLine) {
	s.read(s.word(l, 0), func(v *View) string { return fmt.Sprintf("waits=%v", v.Waits(l.words[0])) })
}

// assert OWNER TOKEN PATH…
func (s *script) assert(l *scriptLine) {
	owner, token := s.word(l, 0), int64(s.number(s.word(l, 1)))
	s.read(owner, func(v *View) string {
		for _, p := range l.words[2:] {
			if res := v.Assert(owner, s.routes.Resolve(p), p, token); res.Status != wire.StatusOK {
				return "FAIL" + reasonText(res.Reason) + fields(res.Path, "", 0, 0, "", 0)
			}
		}
		return "OK"
	})
}

// inspect PATH
func (s *script) inspect(l *scriptLine) {
	path := s.word(l, 0)
	s.read(path, func(v *View) string {
		res := v.Inspect(s.routes.Resolve(path), path)
		var b strings.Builder
		b.WriteString("write=" + orNone(res.Owner))
		if n := res.List.Names; len(n) > 0 {
			b.WriteString(" read=" + strings.Join(n, ","))
		}
		if n := res.List.Names2; len(n) > 0 {
			b.WriteString(" permit=" + strings.Join(n, ","))
		}
		if res.Flag {
			fmt.Fprintf(&b, " fence=%d", res.Token)
		}
		return b.String()
	})
}

// list OWNER [NAMESPACE…]
func (s *script) list(l *scriptLine) {
	owner := s.word(l, 0)
	s.read(owner, func(v *View) string {
		alive, locks := v.List(owner, s.domains(l.words[1:]))
		text := fmt.Sprintf("alive=%v", alive)
		for i := range locks {
			text += lockText(&locks[i])
		}
		return text
	})
}

// dump page=, all pages
func (s *script) dump(l *scriptLine) { s.scanBelow(l, "") }

// scan NAMESPACE|PATH page=, all pages
func (s *script) scan(l *scriptLine) { s.scanBelow(l, s.word(l, 0)) }

func (s *script) scanBelow(l *scriptLine, below string) {
	page := s.number(l.opt("page", "64"))
	s.read(l.verb, func(v *View) string {
		text := ""
		for after := ""; ; {
			locks, last := v.Scan(below, after, page)
			for i := range locks {
				text += lockText(&locks[i])
			}
			if after = last; last == "" {
				return text + "\n  done"
			}
			text += "\n  next page"
		}
	})
}

// describe PATH [max=]
func (s *script) describe(l *scriptLine) {
	path := s.word(l, 0)
	s.read(path, func(v *View) string {
		res := v.Describe(s.routes.Resolve(path), path, s.number(l.opt("max", "1024")))
		text := fmt.Sprintf("ns=%s %v", res.Namespace, res.Algorithm)
		if res.Flag {
			text += fmt.Sprintf(" fence=%d", res.Token)
		}
		text += fmt.Sprintf(" waiters=%d writes_below=%d reads_below=%d", res.Count, res.List.Count2, res.List.Count3)
		for i := range res.List.Covering {
			text += strings.Replace(lockDetail(&res.List.Covering[i]), "\n ", "\n  covered by", 1)
		}
		for i := range res.List.Infos {
			text += lockDetail(&res.List.Infos[i])
		}
		for i := range res.List.Waiters {
			w := &res.List.Waiters[i]
			text += fmt.Sprintf("\n  %d. %s waits for %s %v", w.Position, w.Owner, w.Path, w.Mode)
			text += fields("", "", w.Token, 0, "", 0)
			if w.Permits > 0 {
				text += fmt.Sprintf(" permits=%d", w.Permits)
			}
			if w.Open {
				text += " open"
			}
			text += fmt.Sprintf(" since +%s for %s", span(w.SinceUnixMillis-scriptWall),
				span(int64(w.ExpiresInMillis))) +
				metaText(w.Meta)
		}
		return text
	})
}

// edge OWNER, and whether it counts (contract.md section 9)
func (s *script) edge(l *scriptLine) {
	owner := s.word(l, 0)
	s.read(owner, func(v *View) string {
		blocker, path, reason, ok := v.Edge(owner)
		if !ok {
			return "no edge"
		}
		counts := v.Alive(blocker, nil) || v.Waits(blocker)
		if path != "" {
			counts = v.Blocking(s.routes.Resolve(path), path, blocker, reason)
		}
		return fmt.Sprintf("waits for %s%s%s counts=%v", blocker, fields(path, "", 0, 0, "", 0),
			reasonText(reason), counts)
	})
}

// blocking PATH OWNER REASON
func (s *script) blocking(l *scriptLine) {
	path, owner, reason := s.word(l, 0), s.word(l, 1), s.reason(s.word(l, 2))
	s.read(path, func(v *View) string {
		return fmt.Sprintf("%v by %s: %v", reason, owner, v.Blocking(s.routes.Resolve(path), path, owner, reason))
	})
}
