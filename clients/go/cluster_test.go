package pathlockd

import (
	"testing"

	"github.com/pathlockd/pathlockd/wire"
)

// TestClusterOperations: what operators ask, with a real server that is alone.
func TestClusterOperations(t *testing.T) {
	ctx := within(t, patience)
	c := dial(t, server(t))
	doc, err := c.ClusterStatus(ctx)
	must(t, err)
	if !doc.Healthy || doc.Self == "" || len(doc.Nodes) != 1 || doc.Nodes[0].NodeID != doc.Self || len(doc.Logs) < 2 {
		t.Fatalf("status: %+v", doc)
	}
	must(t, c.TransferLog(ctx, wire.SystemLog, doc.Self))
	must(t, c.ResumeNode(ctx, doc.Self))
	refused := func(what string, err error) {
		t.Helper()
		if codeOf(err) != wire.FailedPrecondition {
			t.Errorf("%s: %v", what, err)
		}
	}
	_, err = c.DrainNode(ctx, doc.Self, wire.DrainReplicas)
	refused("drain the only node", err)
	_, err = c.RemoveNode(ctx, doc.Self, true)
	refused("remove the only node", err)
	refused("hand over to nobody", c.TransferLog(ctx, wire.SystemLog, "nobody-1"))
	if err := c.ResumeNode(ctx, "nobody"); codeOf(err) != wire.InvalidArgument {
		t.Errorf("resume what is no node id: %v", err)
	}
}
