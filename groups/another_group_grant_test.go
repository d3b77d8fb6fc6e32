package groups

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestGrantOfAnotherGroup: what comes under the id of a wait on the session's next connection and
// goes to another group waits for what it asks for: the grant of the first is no answer to it.
func TestGrantOfAnotherGroup(t *testing.T) {
	r := newRig(t, nil)
	holder, c := r.session(), r.session()
	const first, second = "h:/a/x", "h:/c/y"
	if r.node.groupOf("h:/a") == r.node.groupOf("h:/c") {
		t.Fatal("one group: choose another path")
	}
	holder.must(write("holder", first, time.Hour))
	holder.must(write("holder", second, time.Hour))
	id := r.next.Add(1)
	<-c.start(id, waiting(write("w", first, time.Hour))).queued
	c.session = later(c.session)
	o := c.start(id, waiting(write("w", second, time.Hour)))
	<-o.queued
	holder.must(release("holder", first))
	eventually(t, "the first is granted", func() bool { return r.session().inspect(first).Owner == "w" })
	holder.must(release("holder", second))
	if res := o.get(t, "the second"); res.Code == wire.OK && res.Namespace != "h:/c" {
		t.Errorf("it is answered %+v", res)
	}
}
