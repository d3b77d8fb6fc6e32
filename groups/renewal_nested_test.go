package groups

import (
	"fmt"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestRenewalBehindNestedNamespace: no routes change. A client asks for a lock in h:/a/b…, a namespace of its own in a
// log that has no leader just now, and behind that renews h:/a, another namespace in another log, where it holds
// nothing. The renewal has nothing to wait for: it is answered LOST, and costs its log one entry.
func TestRenewalBehindNestedNamespace(t *testing.T) {
	r := newRig(t, func(c *Config) { c.RequestTimeout = 4 * time.Second })
	n := r.node
	here := n.logOf(n.groupOf("h:/a"))
	nested := ""
	for i := 0; nested == ""; i++ {
		if ns := fmt.Sprint("h:/a/b", i); n.logOf(n.groupOf(ns)) != here {
			nested = ns
		}
	}
	c := r.session()
	c.must(setPolicy(nested, wire.RecursiveRW))
	there := n.logOf(n.groupOf(nested))
	there.pauses(true)
	defer there.pauses(false)
	applied := func() uint64 {
		m := here.own()
		m.Lock()
		defer m.Unlock()
		return m.Applied
	}
	c.start(r.next.Add(1), write("o", nested+"/x", time.Hour))
	before := applied()
	o := c.start(r.next.Add(1), &wire.Request{Op: wire.OpRenew, Owner: "o", TTLMillis: 60_000,
		Domains: []string{"h:/a"}})
	select {
	case res := <-o.done:
		if res.Code != wire.OK || res.Status != wire.RenewLost {
			t.Errorf("the renewal is answered %+v", res)
		}
	case <-time.After(2 * time.Second):
		t.Errorf("the renewal of another namespace is not answered within 2 s, and made %d entries in its log",
			applied()-before)
		select {
		case res := <-o.done:
			t.Errorf("after that it is answered %v %q", res.Code, res.Message)
		case <-time.After(4 * time.Second):
		}
	}
}
