package groups

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestPolicyIsReadWhenItCounts: a policy whose change is not decided is not told, as it may be
// refused yet; and one that is decided is.
func TestPolicyIsReadWhenItCounts(t *testing.T) {
	r := newRig(t, nil)
	c := r.session()
	const root = "h:/a/b"
	early := &change{attempt: 1} // of a leader that was deposed before it could commit
	early.steps = steps{n: r.node, c: &wire.Call{}, since: r.node.clock.Mono()}
	err := early.one(r.node.groupOf(root), &wire.Request{
		Op: wire.OpOpen, Namespace: root, Target: r.node.routes.Load().Version + 1, Algorithm: wire.PointRW,
		Explicit: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	if alg, chosen := c.policy(root); chosen || alg != wire.RecursiveRW {
		t.Errorf("told %v, chosen %v, before it is decided", alg, chosen)
	}
	c.must(write("a", root+"/c", time.Hour))
	if res := c.ask(setPolicy(root, wire.PointRW)); res.Code != wire.FailedPrecondition {
		t.Fatalf("the change is answered %v %s", res.Code, res.Message)
	}
	if alg, chosen := c.policy(root); chosen || alg != wire.RecursiveRW {
		t.Errorf("told %v, chosen %v, of a change that was refused", alg, chosen)
	}
	c.must(release("a", root+"/c"))
	c.must(setPolicy(root, wire.PointRW))
	if alg, chosen := c.policy(root); !chosen || alg != wire.PointRW {
		t.Errorf("told %v, chosen %v, of one that was made", alg, chosen)
	}
}
