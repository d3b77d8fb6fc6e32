package gossip

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/hashicorp/memberlist"

	"github.com/pathlockd/pathlockd/wire"
)

// Limits of what a node says about its cluster. More is refused at the start of the
// node that would say it, and not taken over by who asks.
const (
	maxSettings     = 16
	maxSettingBytes = 128 // of a name and of a value
)

// probeTime is how long Probe takes at most (contract.md section 14).
const probeTime = 10 * time.Second

// askers is how many seeds are asked at once.
const askers = 8

// Answer is what a seed said.
type Answer struct {
	Seed      string // as it was given
	Addr      string // the address that answered
	NodeID    string // who did
	Founded   bool   // it is a member of a founded cluster
	ClusterID string
	// Settings are those that a cluster is founded with, by configuration key.
	Settings map[string]string
	// Err is why there is no answer. It wraps ErrToken when the seed has another
	// token, ErrTLS when certificates are in the way.
	Err error
}

// ClusterOf answers what the first seed says that belongs to a founded cluster, nil
// when none does, and an error when seeds belong to different clusters.
func ClusterOf(answers []Answer) (*Answer, error) {
	var first *Answer
	for i := range answers {
		a := &answers[i]
		if a.Err != nil || !a.Founded {
			continue
		}
		if first == nil {
			first = a
		} else if first.ClusterID != a.ClusterID {
			return nil, fmt.Errorf("seed_nodes: %s belongs to cluster %s and %s to cluster %s: name seeds of "+
				"one cluster",
				first.Seed, first.ClusterID, a.Seed, a.ClusterID)
		}
	}
	return first, nil
}

// Ask is a probe's question.
type Ask struct {
	Token Token
	TLS   *tls.Config // as in Config
	Seeds []string    // host:port
	// Bind and Advertise are as in Config: addresses of the node itself are skipped.
	Bind, Advertise string
	// Waiting, if there, is told once what the seeds said when none belongs to a founded
	// cluster, and they are asked again.
	Waiting func([]Answer)
	Log     *slog.Logger // nil: the default one

	lookup func(ctx context.Context, seed string) ([]netip.AddrPort, error) // of tests; nil: resolve
}

// Probe asks the seeds whether they belong to a founded cluster, without becoming a
// member of it: those asked do not take the asker over into what they know. Who does
// not answer, or is not a member yet, is asked again until ctx ends, at most for 10 s;
// as soon as one belongs to a founded cluster, the round is finished and Probe
// returns. The answers are in the order of the seeds, its own left out. The error says
// what is wrong with the question.
func Probe(ctx context.Context, ask Ask) ([]Answer, error) {
	return ask.probe(ctx, &lan)
}

func (ask *Ask) probe(ctx context.Context, t *timing) ([]Answer, error) {
	key, err := ask.Token.key()
	if err != nil {
		return nil, err
	}
	if err := checkSeeds(ask.Seeds); err != nil {
		return nil, err
	}
	if ask.TLS != nil {
		if err := CheckTLS(ask.TLS); err != nil {
			return nil, fmt.Errorf("gossip: %w", err)
		}
	}
	if ask.Log == nil {
		ask.Log = slog.Default()
	}
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	own := newOwnAddresses(netip.AddrPort{}, netip.AddrPort{})
	if ask.Bind != "" {
		listen, told, err := resolveBind(ctx, ask.Bind, ask.Advertise)
		if err != nil {
			return nil, err
		}
		own = newOwnAddresses(listen, told)
	}
	answers := make([]Answer, len(ask.Seeds))
	mine := make([]bool, len(ask.Seeds))
	for wait := t.retry; ; wait = min(2*wait, t.slowly) {
		var wg sync.WaitGroup
		turns := make(chan struct{}, askers)
		for i, seed := range ask.Seeds {
			if mine[i] {
				continue
			}
			wg.Go(func() {
				turns <- struct{}{}
				defer func() { <-turns }()
				a, self := ask.seed(ctx, seed, own, t, key)
				mine[i] = self
				// An answer from before the time was up says more than its end.
				if a.Err == nil || ctx.Err() == nil || answers[i].Seed == "" {
					answers[i] = a
				}
			})
		}
		wg.Wait()
		found := slices.ContainsFunc(answers, func(a Answer) bool { return a.Founded })
		if found || !slices.Contains(mine, false) {
			break
		}
		if ask.Waiting != nil && ctx.Err() == nil {
			ask.Waiting(others(answers, mine))
			ask.Waiting = nil
		}
		if !sleep(ctx, wait) {
			break
		}
	}
	return others(answers, mine), nil
}

// others are the answers of seeds that are not the node itself.
func others(answers []Answer, mine []bool) (list []Answer) {
	for i, a := range answers {
		if !mine[i] {
			list = append(list, a)
		}
	}
	return list
}

// seed asks one seed at each of its addresses until one answers.
func (ask *Ask) seed(ctx context.Context, seed string, own *ownAddresses, t *timing, key []byte) (a Answer, self bool) {
	a.Seed = seed
	look := resolve
	if ask.lookup != nil {
		look = ask.lookup
	}
	addrs, err := look(ctx, seed)
	if err != nil {
		a.Err = fmt.Errorf("seed %s: %w", seed, err)
		return a, false
	}
	// A name of several nodes, this one among them, is a seed for the others.
	if addrs = own.others(addrs); len(addrs) == 0 {
		return a, true
	}
	for _, addr := range addrs {
		said, err := ask.address(ctx, seed, addr.String(), t, key)
		if err == nil {
			said.Seed, said.Addr = seed, addr.String()
			return *said, false
		}
		a.Addr, a.Err = addr.String(), fmt.Errorf("seed %s at %s: %w", seed, addr, err)
	}
	return a, false
}

// asker is memberlist's delegate of a node that only asks: it takes nobody over.
type asker struct {
	name string
	mu   struct {
		sync.Mutex
		said *Answer
		err  error
	}
}

var (
	_ memberlist.Delegate      = (*asker)(nil)
	_ memberlist.AliveDelegate = (*asker)(nil)
)

func (a *asker) NodeMeta(int) []byte             { return (&Record{State: asking}).encode() }
func (a *asker) NotifyMsg([]byte)                {}
func (a *asker) GetBroadcasts(int, int) [][]byte { return nil }
func (a *asker) LocalState(bool) []byte          { return nil }
func (a *asker) NotifyAlive(n *memberlist.Node) error {
	if n.Name == a.name {
		return nil
	}
	return errAsking
}

func (a *asker) MergeRemoteState(b []byte, _ bool) {
	said, err := decodeAnswer(b)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.mu.said, a.mu.err = said, err
}

// address asks whoever is at one address of a seed.
func (ask *Ask) address(ctx context.Context, seed, addr string, t *timing, key []byte) (*Answer, error) {
	quiet := &listLog{log: ask.Log}
	quiet.silent.Store(true) // what fails is in the answer
	sec, err := newSecure(ask.TLS, func(addr string) []string { return hostsOf(addr, seed) })
	if err != nil {
		return nil, err
	}
	a := &asker{name: "asking" + string(tagMark) + rand.Text()}
	c := t.settings(key)
	c.Name, c.Transport = a.name, newDialer(ctx, t.dial, sec, quiet)
	c.Delegate, c.Alive = a, a
	c.ProbeInterval, c.GossipInterval, c.PushPullInterval = 0, 0, 0
	c.Logger = quiet.logger()
	list, err := memberlist.Create(c)
	if err != nil {
		return nil, err
	}
	defer func() { _ = list.Shutdown() }()
	if _, err := list.Join([]string{addr}); err != nil {
		return nil, joinError(err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.mu.said == nil && a.mu.err == nil {
		return nil, errors.New("it says nothing about its cluster")
	}
	return a.mu.said, a.mu.err
}

const answerFields = 4

// encodeAnswer is what a node says about its cluster.
func encodeAnswer(self *Record, settings map[string]string) []byte {
	dst := wire.AppendArray(nil, answerFields)
	dst = wire.AppendStr(dst, self.NodeID)
	dst = wire.AppendUint(dst, uint64(self.State))
	dst = appendID(dst, self.ClusterID)
	dst = wire.AppendMap(dst, len(settings))
	for k, v := range settings {
		dst = wire.AppendStr(wire.AppendStr(dst, k), v)
	}
	return dst
}

func decodeAnswer(b []byte) (*Answer, error) {
	r := wire.NewReader(b)
	n := r.Array()
	a := &Answer{NodeID: strings.Clone(r.Str())}
	state := r.Uint()
	a.ClusterID = readID(&r)
	count := r.Map()
	if n < answerFields || count > maxSettings || state > 255 {
		return nil, fmt.Errorf("%w: bad answer", ErrRecord)
	}
	a.Settings = make(map[string]string, count)
	for range count {
		k, v := strings.Clone(r.Str()), strings.Clone(r.Str())
		if len(k) > maxSettingBytes || len(v) > maxSettingBytes {
			return nil, fmt.Errorf("%w: bad answer", ErrRecord)
		}
		a.Settings[k] = v
	}
	if err := r.Err(); err != nil {
		return nil, fmt.Errorf("%w: bad answer: %w", ErrRecord, err)
	}
	a.Founded = State(state).founded() && a.ClusterID != uuid.Nil.String() && a.ClusterID != ""
	return a, nil
}

// checkSettings says what is wrong with a cluster's settings.
func checkSettings(settings map[string]string) error {
	if len(settings) > maxSettings {
		return fmt.Errorf("%d settings of the cluster, the limit is %d", len(settings), maxSettings)
	}
	for k, v := range settings {
		if len(k) > maxSettingBytes || len(v) > maxSettingBytes {
			return fmt.Errorf("setting %q of the cluster: name and value may have %d bytes each", k, maxSettingBytes)
		}
	}
	return nil
}
