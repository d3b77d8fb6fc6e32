package lab

import (
	"sync"

	"github.com/pathlockd/pathlockd/bench/lab/history"
)

// resource is what the locks are for: something with a version for each path, which
// checks tokens. It takes nothing from who comes with a token below the highest it has
// seen (promise 4).
type resource struct {
	rec *history.Recorder
	mu  sync.Mutex
	at  map[string]*register
}

type register struct {
	seen    int64
	version uint64
}

func newResource(rec *history.Recorder) *resource {
	return &resource{rec: rec, at: make(map[string]*register)}
}

// enter checks a token and records the access.
func (r *resource) enter(a history.Access) (*register, bool) {
	reg := r.at[a.Path]
	if reg == nil {
		reg = new(register)
		r.at[a.Path] = reg
	}
	a.Time, a.Seen = r.rec.Now(), reg.seen
	if a.Accepted = a.Token >= reg.seen; a.Accepted {
		reg.seen = a.Token
		if a.Write {
			reg.version++
		}
	}
	a.Version = reg.version
	r.rec.Access(a)
	return reg, a.Accepted
}

// read answers the version of a path.
func (r *resource) read(path, owner string, token int64) (version uint64, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	reg, ok := r.enter(history.Access{Path: path, Owner: owner, Token: token})
	return reg.version, ok
}

// write makes the next version of a path, by one who knows of base.
func (r *resource) write(path, owner string, token int64, base uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.enter(history.Access{Path: path, Owner: owner, Token: token, Write: true, Base: base})
}
