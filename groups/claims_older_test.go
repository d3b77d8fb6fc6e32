package groups

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/wire"
)

// TestRenewalClaimedByAnOlderBuild: a keyed renewal of what an owner holds in several groups was claimed by a build
// whose claims had no attempts (before 4edbcb1). Its row has none, and a renewal's claim gets no next one. The renewal
// is asked again after the upgrade.
func TestRenewalClaimedByAnOlderBuild(t *testing.T) {
	r := newRig(t, func(c *Config) { c.RequestTimeout = 3 * time.Second })
	n := r.node
	c := r.session()
	ns := r.apart("h", 4)
	for _, s := range ns {
		c.must(write("o", s+"/x", time.Hour))
	}
	req := &wire.Request{Op: wire.OpRenew, Owner: "o", TTLMillis: 3_600_000, Key: "k"}
	fresh := &wire.Request{Op: wire.OpRenew, Owner: "o", TTLMillis: 3_600_000, Key: "new"}
	if res := c.ask(fresh); res.Code != wire.OK || res.Status != wire.StatusOK {
		t.Fatalf("one that is claimed now is answered %v %v %s", res.Code, res.Status, res.Message)
	}
	group := wire.HomeOf("k", n.cfg.GroupCount)
	m := n.logOf(group).local.Load()
	m.Lock()
	val := wire.AppendUint(wire.AppendArray(nil, 5), engine.HashOf(req))
	val = wire.AppendUint(val, uint64(wire.StatusQueued))
	val = wire.AppendInt(val, 1)
	val = wire.AppendUint(val, 0)
	val = wire.AppendInt(val, 1<<40)
	err := m.Groups[group].State.Load([]byte("I"+string([]byte{byte(wire.OpRenew)})+"k"), val)
	m.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if res := c.ask(req); res.Code != wire.OK {
		t.Errorf("the repeat is answered %v %s after %v", res.Code, res.Message, time.Since(began))
	}
}
