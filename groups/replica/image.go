package replica

import (
	"maps"

	"github.com/pathlockd/pathlockd/engine"
)

// How sessions get to disk while commands go on.
//
// A checkpoint is of one instant of the log, and there may be tens of thousands of sessions
// that changed. To encode them all takes hundreds of milliseconds, for which no command may
// wait. So an image of them is taken at once, as nothing but the list of those that changed;
// their rows are encoded afterwards, a few at a time; and a session that changes before its
// turn has come is encoded by who changes it, first.

// sessionsAtOnce is how many sessions are encoded under one hold of the machine's lock.
const sessionsAtOnce = 32

// sessionImage is the sessions that came to differ from their rows before an instant.
type sessionImage struct {
	generation uint64
	left       []*Session // not encoded yet, but for those that changed since
	rows       map[engine.Session][]byte
	gone       []engine.Session // before that; a session of that name may have come since
}

// changes is said before a session is changed.
func (t *sessions) changes(s *Session) {
	if s.changed == t.generation || engine.Planted == engine.PlantSessionRows && len(s.ring) > 1 {
		return
	}
	if s.changed != 0 { // in the generation of the image, and not encoded yet
		t.image.rows[s.id] = s.row()
	}
	s.changed = t.generation
	t.changed = append(t.changed, s)
}

// take begins an image. The one before must be whole.
func (t *sessions) take() *sessionImage {
	t.image = &sessionImage{generation: t.generation, left: t.changed, rows: make(map[engine.Session][]byte),
		gone: t.gone}
	t.changed, t.gone = nil, nil
	t.generation++
	return t.image
}

// encode goes on with an image and says whether it is whole.
func (im *sessionImage) encode() bool {
	n := min(len(im.left), sessionsAtOnce)
	for i, s := range im.left[:n] {
		if s.changed == im.generation {
			if !s.gone {
				im.rows[s.id] = s.row()
			}
			s.changed = 0
		}
		im.left[i] = nil
	}
	im.left = im.left[n:]
	return len(im.left) == 0
}

// whole makes an image whole, a few sessions at a time.
func (m *Machine) whole(im *sessionImage) {
	for done := im == nil; !done; {
		m.mu.Lock()
		done = im.encode()
		m.mu.Unlock()
	}
}

// owing answers the rows of sessions that are to be written with an image, which it makes
// whole, and with those before it.
func (m *Machine) owing(im *sessionImage) map[engine.Session][]byte {
	m.whole(im)
	all := make(map[engine.Session][]byte)
	for _, before := range m.owed {
		before.over(all)
	}
	im.over(all)
	return all
}

// over lays an image over rows: nil for a row that is gone.
func (im *sessionImage) over(rows map[engine.Session][]byte) {
	for _, id := range im.gone {
		rows[id] = nil
	}
	maps.Copy(rows, im.rows)
}
