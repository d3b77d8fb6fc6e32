package history

import (
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// Ear is what was heard of an owner, by a subscription that went on from node to node with
// its cursor.
type Ear struct {
	Owner     string        `json:"owner"`
	Namespace string        `json:"namespace"` // that the owner asks for something in
	Era       int           `json:"era,omitempty"`
	From      time.Duration `json:"from"` // it was subscribed, Forever: never
	// Whole says that it was listened until all that was to be heard had been, or was long
	// overdue.
	Whole bool    `json:"whole"`
	Heard []Heard `json:"heard,omitempty"`
}

// Heard is one event, or that events were missed.
type Heard struct {
	Time      time.Duration  `json:"time"`
	Gap       bool           `json:"gap,omitempty"`
	Kind      wire.EventKind `json:"kind,omitempty"`
	Owner     string         `json:"owner,omitempty"`
	Namespace string         `json:"namespace,omitempty"`
	Token     int64          `json:"token,omitempty"`
	At        wire.Position  `json:"at"`
}

// Missed says that it was told of a gap after a time.
func (e *Ear) Missed(after time.Duration) bool {
	for i := range e.Heard {
		if h := &e.Heard[i]; h.Gap && h.Time >= after {
			return true
		}
	}
	return false
}

// Granted says that it heard of a grant with a token.
func (e *Ear) Granted(token int64) bool {
	for i := range e.Heard {
		if h := &e.Heard[i]; h.Kind == wire.EventGrant && h.Namespace == e.Namespace && h.Token == token {
			return true
		}
	}
	return false
}
