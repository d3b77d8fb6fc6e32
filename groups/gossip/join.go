package gossip

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"sync"
	"time"
)

// rejoinTries is how many members that are missed are tried at once.
const rejoinTries = 2

// join looks for the others for as long as the node runs: through the seeds until
// somebody is there, and after that whoever is missed, so that the parts of a cluster
// find each other again when memberlist has forgotten them.
func (m *Members) join() {
	defer m.wg.Done()
	t := m.timing
	wait := t.retry
	for {
		targets, unresolved := m.targets()
		err := errors.Join(m.tryAll(targets), unresolved)
		next := wait
		switch {
		case m.table.alone() && len(m.config.Seeds)+len(targets) > 0 || m.Fault() != nil:
			wait = min(2*wait, t.slowly)
			if err != nil && m.warnings.Allow("join") {
				m.config.Log.Warn("no node to join answers yet, going on", "seeds", m.config.Seeds, "error", err)
			}
		default:
			wait = t.retry
			alive, _ := m.table.addresses()
			next = t.rejoin * time.Duration(max(1, (len(alive)+1)/rejoinNodes))
		}
		// Between one half and one and a half, so that nodes that start together do
		// not go on together.
		if !sleep(m.ctx, next/2+rand.N(next)) {
			return
		}
	}
}

// sleep waits, and says no when ctx ends before.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// targets lists the addresses to try now: the seeds where no living member is, their
// own left out, and some of those who are missed.
func (m *Members) targets() (list []netip.AddrPort, err error) {
	alive, missed := m.table.addresses()
	if m.Fault() != nil {
		// Who is alive may have said why, and what it says now shows whether it is
		// over.
		for a := range alive {
			missed = append(missed, a)
		}
		alive = nil
	}
	seen := make(map[netip.AddrPort]bool)
	add := func(a netip.AddrPort) {
		if !seen[a] && !alive[a] && !m.own.is(a) {
			seen[a] = true
			list = append(list, a)
		}
	}
	var errs []error
	for _, seed := range m.config.Seeds {
		found, err := resolve(m.ctx, seed)
		if err != nil {
			errs = append(errs, fmt.Errorf("seed %s: %w", seed, err))
		} else {
			m.places.are(seed, found)
		}
		for _, a := range found {
			add(a)
		}
	}
	rand.Shuffle(len(missed), func(i, j int) { missed[i], missed[j] = missed[j], missed[i] })
	for _, a := range missed[:min(len(missed), rejoinTries)] {
		add(a)
	}
	return list, errors.Join(errs...)
}

// tryAll joins at each address; what one node tells, the others have from it. The
// error is why it did not work where it did not.
func (m *Members) tryAll(targets []netip.AddrPort) error {
	var (
		wg    sync.WaitGroup
		turns = make(chan struct{}, askers)
		errs  = make([]error, len(targets))
	)
	for i, a := range targets {
		wg.Go(func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			if m.ctx.Err() != nil {
				return
			}
			began := time.Now()
			_, err := m.list.Join([]string{a.String()})
			if err = joinError(err); err == nil {
				m.joined(began)
				return
			} else if errors.Is(err, errSelf) {
				return
			}
			errs[i] = fmt.Errorf("%s: %w", a, err)
		})
	}
	wg.Wait()
	// Only now: a stranger may have answered before the others did.
	for _, err := range errs {
		if (errors.Is(err, ErrToken) || errors.Is(err, ErrTLS)) && m.table.alone() {
			m.fault(err)
		}
	}
	return errors.Join(errs...)
}

// joinError finds the cause in what memberlist answers: a list with one element that
// has the cause as text.
func joinError(err error) error {
	if err == nil {
		return nil
	}
	var list interface{ WrappedErrors() []error }
	if errors.As(err, &list) && len(list.WrappedErrors()) > 0 {
		err = list.WrappedErrors()[0]
	}
	text := err.Error()
	if strings.HasPrefix(text, "failed to join ") {
		if _, cause, ok := strings.Cut(text, ": "); ok {
			text = cause
		}
	}
	switch {
	case text == errSelf.Error():
		return errSelf
	case strings.Contains(text, otherKey):
		return fmt.Errorf("%w: its answer cannot be decrypted: all nodes of a cluster need the same internal_auth_token", ErrToken)
	case strings.HasPrefix(text, ErrTLS.Error()+": "):
		return &refusal{reason: ErrTLS, text: strings.TrimPrefix(text, ErrTLS.Error()+": ")}
	case containsAny(text, foreign):
		return fmt.Errorf("%w: its answer is no gossip", ErrRecord)
	}
	for _, r := range reasons {
		if r == nil {
			continue
		}
		if cause, ok := strings.CutPrefix(text, r.Error()+": "); ok {
			return &refusal{reason: r, text: cause}
		}
	}
	return errors.New(text)
}
