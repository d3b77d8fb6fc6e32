package gossip

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
)

// Config is what a node takes part with.
type Config struct {
	Self  Record
	Token Token
	// TLS, if there, is the operator's: gossip goes over mutual TLS alone then, without
	// UDP, on all nodes of the cluster. As groups/link's, with which it is shared.
	TLS *tls.Config
	// Hosts are raft addresses of nodes by the gossip addresses that they had before this start:
	// with TLS, who is there may show a certificate for one.
	Hosts map[string]string

	Bind      string   // gossip_addr, host:port; port 0 is any that is free
	Advertise string   // gossip_advertise_addr; empty: where it listens
	Seeds     []string // host:port; the node's own among them are skipped

	// Settings are those the cluster was founded with, by configuration key, for who
	// asks. At most 16, names and values of at most 128 bytes.
	Settings map[string]string

	// Keep is how long a member's name is refused to another data directory after the
	// member was last seen: it may be restarting. One at the member's own raft address
	// is let in as soon as the member is missed. Forget ends it.
	Keep time.Duration
	// Kept is whose names those of nodes were before this start, by node id: Keep counts
	// from the start for them.
	Kept map[string]Holder

	// OneHost is for nodes that share a machine, in tests and demonstrations: they
	// miss each other within 5 s, and find false alarms out sooner. All nodes of a
	// cluster should agree on it.
	OneHost bool

	// Lost is for the fault laboratory, nil in production: it says whether a datagram to
	// a gossip address is lost, or, for a stream, whether no connection to it can be made.
	// It is called from many goroutines and must not block.
	Lost func(to string, stream bool) bool

	Log *slog.Logger // nil: the default one
}

const (
	// maxWatchers is how many functions may watch at once.
	maxWatchers = 16
	// maxTold is how many notices wait to be sent. More are dropped: whoever is
	// refused is refused again.
	maxTold = 16
	// maxChanges is how many changes wait to be logged. More are not logged.
	maxChanges = 256
	// leaveTime bounds Leave.
	leaveTime = 10 * time.Second
	// faultTime is how long a refusal counts. As long as its cause lasts it is
	// repeated sooner, by tries to join or exchanges of everything.
	faultTime = time.Minute
	// warnEvery is the time between two warnings about the same thing.
	warnEvery = time.Minute
)

// Members is a node's part in the gossip. Its methods may be called from any
// goroutine, Close from none that a watcher is called on.
type Members struct {
	config    Config
	name      string // memberlist's, of this start
	timing    *timing
	started   time.Time
	table     *table
	transport *transport
	own       *ownAddresses
	list      *memberlist.Memberlist
	listLog   *listLog
	places    places

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	wg     sync.WaitGroup
	once   sync.Once

	update   chan struct{} // capacity 1: the own record changed
	telling  sync.Mutex    // held over UpdateNode, which is not for two at once
	wake     chan struct{} // capacity 1: something changed for the watchers
	changes  chan change   // capacity maxChanges
	toTell   chan notice   // capacity maxTold
	notices  *Limiter      // of notices, by name and reason
	warnings *Limiter

	mu struct {
		sync.Mutex
		watchers []*func()
		left     bool
		fault    error
		faultAt  time.Time
		clash    time.Time // since when the fault is that another has the node id
	}
}

// Start begins to gossip, and to look for the others through the seeds. It does not
// wait for them. The error says what is wrong with the configuration.
func Start(c Config) (*Members, error) {
	key, err := c.Token.key()
	if err != nil {
		return nil, err
	}
	if err := errors.Join(c.Self.validate(), checkSeeds(c.Seeds), checkSettings(c.Settings)); err != nil {
		return nil, fmt.Errorf("gossip: %w", err)
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	c.Settings, c.Hosts = maps.Clone(c.Settings), maps.Clone(c.Hosts)
	m := &Members{
		config: c, name: c.Self.name(), timing: &lan, started: time.Now(),
		update: make(chan struct{}, 1), wake: make(chan struct{}, 1), toTell: make(chan notice, maxTold),
		changes:  make(chan change, maxChanges),
		warnings: NewLimiter(warnEvery),
	}
	if c.OneHost {
		m.timing = &oneHost
	}
	m.notices = NewLimiter(m.timing.notice)
	m.listLog = &listLog{log: c.Log, limit: NewLimiter(warnEvery)}
	m.table = newTable(c.Self, m.changed)
	m.table.keepFor(c.Kept, c.Keep)
	m.ctx, m.cancel = context.WithCancel(context.Background())
	if err := m.listen(key); err != nil {
		m.cancel()
		return nil, err
	}
	m.wg.Add(4)
	go m.join()
	go m.announce()
	go m.tell()
	go m.callWatchers()
	return m, nil
}

func (m *Members) listen(key []byte) error {
	listen, told, err := resolveBind(m.ctx, m.config.Bind, m.config.Advertise)
	if err != nil {
		return err
	}
	sec, err := newSecure(m.config.TLS, m.hosts)
	if err != nil {
		return err
	}
	m.listLog.secure = sec != nil
	if m.transport, err = newTransport(listen, told, m.timing.dial, sec, m.listLog); err != nil {
		return err
	}
	m.transport.lost.Store(&m.config.Lost)
	m.own = newOwnAddresses(netip.AddrPortFrom(listen.Addr(), m.transport.port()), m.transport.told)
	lc := m.timing.settings(key)
	lc.Name, lc.Transport, lc.Logger = m.name, m.transport, m.listLog.logger()
	d := delegate{m}
	lc.Delegate, lc.Alive, lc.Merge, lc.Events, lc.Conflict = d, d, d, d, d
	if m.list, err = memberlist.Create(lc); err != nil {
		return errors.Join(fmt.Errorf("start gossip: %w", err), m.transport.Shutdown())
	}
	return nil
}

// GossipAddr is the address that the others are told, as host:port.
func (m *Members) GossipAddr() string { return m.transport.told.String() }

// Members lists every known node by node id, this one included, and those that are
// gone until they are forgotten.
func (m *Members) Members() []Sighting {
	self := Sighting{Record: m.table.self(), GossipAddr: m.GossipAddr(), Alive: true, For: time.Since(m.started)}
	list := m.table.all()
	i, _ := slices.BinarySearchFunc(list, self.NodeID, func(s Sighting, id string) int {
		if s.NodeID < id {
			return -1
		}
		return 1
	})
	return slices.Insert(list, i, self)
}

// Forget drops a node that is gone for good from what this node knows. The error says
// that it is alive.
func (m *Members) Forget(nodeID string) error { return m.table.forget(nodeID) }

// Watch has f called, on a goroutine of its own for all watchers, soon after each
// change of what Members and Fault answer; several changes may make one call. f should
// return quickly: the others wait for it. cancel ends it, though one call may still be
// under way.
func (m *Members) Watch(f func()) (cancel func(), err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.mu.watchers) >= maxWatchers {
		return nil, fmt.Errorf("%d functions watch the members, which is the limit", maxWatchers)
	}
	w := &f
	m.mu.watchers = append(m.mu.watchers, w)
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.mu.watchers = slices.DeleteFunc(m.mu.watchers, func(o *func()) bool { return o == w })
	}, nil
}

// Update changes this node's record and has it gossiped. Node id, cluster id, host id
// and incarnation stay as they are whatever f does. The error says what is wrong with
// the record; nothing is changed then.
func (m *Members) Update(f func(*Record)) error {
	if err := m.change(f, false); err != nil {
		return err
	}
	signal(m.update)
	return nil
}

func (m *Members) change(f func(*Record), last bool) error {
	m.mu.Lock() // one after the other
	defer m.mu.Unlock()
	if m.mu.left || m.ctx.Err() != nil {
		return errClosed
	}
	old := m.table.self()
	rec := old
	f(&rec)
	rec.NodeID, rec.ClusterID, rec.HostID, rec.Incarnation = old.NodeID, old.ClusterID, old.HostID, old.Incarnation
	if err := rec.validate(); err != nil {
		return fmt.Errorf("gossip: %w", err)
	}
	m.mu.left = last
	m.table.setSelf(rec)
	if old.State == Joining && rec.State == Member && errors.Is(m.mu.fault, ErrKept) {
		m.mu.fault = nil // it was taken in
	}
	signal(m.wake)
	return nil
}

// Leave tells the others that this node goes on purpose, within ctx's deadline and at
// most 10 s. It still listens until Close. The error says that nobody may have heard.
func (m *Members) Leave(ctx context.Context) error {
	if err := m.change(func(r *Record) { r.State = Leaving }, true); err != nil {
		return err
	}
	within := leaveTime
	if deadline, ok := ctx.Deadline(); ok {
		within = min(within, time.Until(deadline))
	}
	if err := ctx.Err(); err != nil || within <= 0 {
		return fmt.Errorf("leave: %w", cmp.Or(err, context.DeadlineExceeded))
	}
	// First the state, by which the others know that it is meant. It is gossiped
	// apart: memberlist drops what it still has to say about a node when it says
	// something newer.
	end := time.Now().Add(within)
	select {
	case <-m.update: // what it would announce, this does
	default:
	}
	m.telling.Lock()
	err := m.list.UpdateNode(within / 2)
	m.telling.Unlock()
	return errors.Join(err, m.list.Leave(max(time.Until(end), time.Millisecond)))
}

// Close ends everything, without a word to the others: to them the node is dead,
// unless it left. Of memberlist's own goroutines, the one that was waiting for a
// member's answer may end up to 8 probe intervals later.
func (m *Members) Close() error {
	var err error
	m.once.Do(func() {
		m.listLog.silent.Store(true)
		m.cancel()
		err = m.list.Shutdown()
		m.wg.Wait()
		m.transport.conns.Wait() // cut, so their readers end
	})
	return err
}

// change is one of the table's, to be logged.
type change struct {
	what string
	Sighting
}

// changed wakes the watchers. The table calls it.
func (m *Members) changed(what string, s Sighting) {
	select {
	case m.changes <- change{what, s}:
	default:
	}
	signal(m.wake)
}

func (m *Members) logChange(c change) {
	level := slog.LevelInfo
	switch c.what {
	case "changed", "forgotten":
		level = slog.LevelDebug
	case "gone":
		level = slog.LevelWarn
	}
	m.config.Log.Log(m.ctx, level, "cluster node "+c.what, "node", c.NodeID, "state", c.State.String(), "gossip",
		c.GossipAddr, "incarnation", c.Incarnation)
}

// announce gossips changes of the own record.
func (m *Members) announce() {
	defer m.wg.Done()
	for {
		select {
		case <-m.ctx.Done():
			return
		case <-m.update:
			// It is gossiped whether or not it is waited for.
			m.telling.Lock()
			_ = m.list.UpdateNode(time.Nanosecond)
			m.telling.Unlock()
		}
	}
}

// callWatchers logs changes and calls the watchers.
func (m *Members) callWatchers() {
	defer m.wg.Done()
	for {
		select {
		case <-m.ctx.Done():
			return
		case c := <-m.changes:
			m.logChange(c)
			continue
		case <-m.wake:
		}
		m.mu.Lock()
		watchers := slices.Clone(m.mu.watchers)
		m.mu.Unlock()
		for _, w := range watchers {
			(*w)()
		}
	}
}

// signal sets a flag that a goroutine waits for.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
