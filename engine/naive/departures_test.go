package naive

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/wire"
)

// departures is a group beside one where the end of a connection sees to one thing at once, and to the rest with other
// commands between, in the same instant. It must be as if it had come to all at once.
type departures struct {
	machine
	slow, slowMoved *replica                  // the second is written to disk, reloaded and restarted
	gone            map[engine.Session]uint64 // connections up to these ended: little is asked on them, late
}

// TestDepartures: whatever several ends of connections have not come to is decided as if they had, in the order
// in which the connections ended.
func TestDepartures(t *testing.T) {
	for _, alg := range []wire.Algorithm{wire.RecursiveRW, wire.Semaphore} {
		t.Run(alg.String(), func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				cfg := engine.DefaultConfig()
				cfg.Algorithm = alg
				m := &departures{machine: *newMachine(t, cfg), gone: make(map[engine.Session]uint64)}
				cfg.DepartAtOnce = 1
				m.slow, m.slowMoved = newReplica(cfg), newReplica(cfg)
				m.anew(t)
				t.Repeat(map[string]func(*rapid.T){"step": m.take})
			})
		})
	}
}

// take takes a step with all.
func (m *departures) take(t *rapid.T) {
	ms := m.drawTime(t)
	if at, ok := m.moved.state.NextDeadline(); ms > 0 || ok && at <= m.clock.Now {
		m.step(t, 0, nil) // what is due in this instant
		m.drain(t)
	}
	cmd := m.draw(t)
	var own ask
	if cmd != nil {
		own = *cmd
	}
	got := m.step(t, ms, cmd)
	for _, r := range []*replica{m.slow, m.slowMoved} {
		if r.out.Reset(); ms > 0 {
			r.expire(m.clock)
		}
	}
	if oneIn(t, 3, "goes on") {
		m.slow.state.ExpireSome(m.clock, &m.slow.out, 1)
		m.slowMoved.state.ExpireSome(m.clock, &m.slowMoved.out, 1)
	}
	m.disk(t)
	if cmd == nil {
		return
	}
	for _, r := range []*replica{m.slow, m.slowMoved} {
		if s := r.apply(m.clock, &own); s.Code != got.Code || s.Status != got.Status || s.Token != got.Token {
			t.Fatalf("in small steps it is answered %v", (*resultText)(&s))
		}
	}
	m.agree(t)
	stale := func(r *replica) disk { return tableOf(t, r.state.View(), 'K') }
	if !slices.Equal(turns(&m.moved.out), turns(&m.slow.out)) || !reflect.DeepEqual(stale(m.slow), stale(m.moved)) {
		if m.finish(); m.differ(t) != "" {
			m.anew(t)
		}
	}
}

// turns are the waiters that had their turn in a step. That comes when something is freed, and in small steps that
// is later, and maybe others come first. For as long as somebody waits tokens stay stale (table K), too.
func turns(out *engine.Output) (of []string) {
	for _, e := range out.Events {
		if e.Kind == wire.EventGrant {
			of = append(of, fmt.Sprint(e.Owner, " ", e.Path, " in ", e.Namespace))
		}
	}
	for _, a := range out.Answers {
		if a.Result.Code != wire.Cancelled {
			of = append(of, fmt.Sprint(a.Caller, a.Result.Code, a.Result.Status))
		}
	}
	slices.Sort(of)
	return of
}

// anew has the slow replicas go on with what the other has.
func (m *departures) anew(t *rapid.T) {
	for _, r := range []*replica{m.slow, m.slowMoved} {
		*r = *newReplica(r.cfg)
		if err := m.moved.state.View().Rows(0, r.disk.write); err != nil {
			t.Fatal(err)
		}
		r.state = r.load(t, r.disk, true, r.owners)
	}
}

// draw draws a command. What was held up on a connection is carried out when it, or a later one of its session, has
// ended: the end of it may be told twice, and behind that of a later one.
func (m *departures) draw(t *rapid.T) *ask {
	next := rapid.SampledFrom(moves).Draw(t, "move")
	if oneIn(t, 5, "detach") {
		next = (*machine).drawDetach
	}
	cmd := next(&m.machine, t)
	if cmd == nil {
		return nil
	}
	cmd.Version = m.model.version
	id, op := cmd.Caller.Session, cmd.Req.Op
	if (op == wire.OpAcquire || op == wire.OpRenew) && oneIn(t, 2, "tie") {
		cmd.Bound, cmd.Grace = true, max(cmd.Grace, 10)
	}
	switch {
	case op == wire.OpDetach && m.gone[id] > 0 && oneIn(t, 4, "heard late, or again"),
		op != wire.OpDetach && m.gone[id] > 0 && oneIn(t, 4, "held up"):
		cmd.Epoch = uint64(rapid.IntRange(1, int(m.gone[id])).Draw(t, "epoch"))
	default:
		if cmd.Epoch = max(cmd.Epoch, m.gone[id]+1); op == wire.OpDetach {
			m.gone[id] = cmd.Epoch
		}
	}
	if cmd.Req.Key != "" && !cmd.again {
		m.keyed = append(m.keyed, *cmd)
		m.keyed = m.keyed[max(0, len(m.keyed)-8):]
	}
	return cmd
}

// disk writes, reloads or restarts one of the slow replicas.
func (m *departures) disk(t *rapid.T) {
	switch r := m.slowMoved; rapid.IntRange(0, 8).Draw(t, "disk") {
	case 0:
		r.checkpoint()
	case 1:
		r.flush(t, 1)
	case 2:
		r.reload(t)
	case 3:
		r.restart(t)
	}
}

// agree holds the slow replicas against each other.
func (m *departures) agree(t *rapid.T) {
	a, b := &m.slow.out, &m.slowMoved.out
	if !reflect.DeepEqual(a.Events, b.Events) || !reflect.DeepEqual(a.Answers, b.Answers) {
		t.Fatalf("the slow replicas say\n%v\n%v", (*outputText)(a), (*outputText)(b))
	}
	if a, b := m.slow.state.View(), m.slowMoved.state.View(); a.Digest() != b.Digest() {
		t.Fatalf("the slow replicas differ: %s", diffRows(b, a))
	}
}

// finish lets the ends of connections come to everything.
func (m *departures) finish() {
	m.slow.expire(m.clock)
	m.slowMoved.expire(m.clock)
}

// drain does that, and what is there then is what there is without small steps.
func (m *departures) drain(t *rapid.T) {
	m.finish()
	m.agree(t)
	if diff := m.differ(t); diff != "" {
		t.Fatalf("small steps make a difference: %s", diff)
	}
}

func (m *departures) differ(t *rapid.T) string {
	a, b := m.slow.state.View(), m.moved.state.View()
	if reflect.DeepEqual(meaning(t, a), meaning(t, b)) {
		return ""
	}
	return "rows" + diffRows(a, b)
}

// meaning is the rows of a state without fences, and without for which of several ends that came after one another a
// lease was shrunk, and how many ends that had not come to everything a tie or a call came after.
func meaning(t *rapid.T, v *engine.View) disk {
	d := tableOf(t, v, 0)
	for key, val := range d {
		switch {
		case engine.IsFenceRow([]byte(key)):
			delete(d, key)
		case key[0] == 'L':
			d[key] = plainLease(val)
		case key[0] == 'Q':
			d[key] = plainWaiter(val)
		}
	}
	return d
}

// tableOf is the rows of a table of a view, of all with 0.
func tableOf(t *rapid.T, v *engine.View, table byte) disk {
	d := make(disk)
	err := v.Rows(0, func(key, val []byte) error {
		if table == 0 || key[0] == table {
			return d.write(key, val)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func plainLease(val []byte) (plain []byte) {
	r := wire.NewReader(val)
	fields := r.Array()
	plain = wire.AppendBool(wire.AppendInt(wire.AppendInt(nil, r.Int()), r.Int()), r.Bool())
	tie := func() { plain = plainTie(plain, &r) }
	if tie(); fields > 4 {
		for n := r.Array(); n > 0; n-- {
			tie()
		}
	}
	if fields > 5 {
		for n := r.Array(); n > 0; n-- {
			r.Array()
			plain = wire.AppendBool(wire.AppendInt(wire.AppendBin(plain, r.Bin()), r.Int()), r.Bool())
		}
	}
	return plain
}

// plainTie appends a tie, with whether it has ended.
func plainTie(plain []byte, r *wire.Reader) []byte {
	n := r.Array()
	if n < 3 {
		return plain
	}
	plain = wire.AppendInt(wire.AppendUint(wire.AppendBin(plain, r.Bin()), r.Uint()), r.Int())
	spent := n > 3 && r.Uint() > 0
	for i := 4; i < n; i++ {
		r.Skip()
	}
	return wire.AppendBool(plain, spent)
}

// plainWaiter is a waiter's row without its last fields, and with its tie as plainTie has it.
func plainWaiter(val []byte) (plain []byte) {
	const tie, of = 13, 18 // who queued it is told apart only where it is not who asks, or where an end was told before
	r := wire.NewReader(val)
	for i, n := 0, r.Array(); i < min(n, of); i++ {
		switch from := r.Pos(); {
		case i == tie && r.Rest()[0] != wire.AppendNil(nil)[0]:
			plain = plainTie(plain, &r)
		default:
			r.Skip()
			plain = append(plain, val[from:r.Pos()]...)
		}
	}
	return plain
}
