package loop

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pathlockd/pathlockd/internal/tcp"
	"github.com/pathlockd/pathlockd/wire"
)

// TestProtocolPage holds what wire/PROTOCOL.md tells of a server's limits against
// the defaults.
func TestProtocolPage(t *testing.T) {
	b, err := os.ReadFile(filepath.Join("..", "wire", "PROTOCOL.md"))
	if err != nil {
		t.Fatal(err)
	}
	page := strings.Join(strings.Fields(string(b)), " ")
	o := Options{}.defaults()
	for _, says := range []string{
		fmt.Sprintf("no hello within %.0f s", o.HelloWithin.Seconds()),
		fmt.Sprintf("frame begun and not finished within %.0f s", o.FrameWithin.Seconds()),
		fmt.Sprintf("nothing taken for %.0f s", o.Stall.Seconds()),
		fmt.Sprintf("has acknowledged nothing of what was sent to it for %.0f s", tcp.GoneWithin.Seconds()),
		fmt.Sprintf("more than %d MiB of pushes unread", o.Pushes>>20),
		fmt.Sprintf("more than %d MiB of events and other pushes unread", o.Pushes>>20),
		fmt.Sprintf("would leave more than %d MiB unread", mostUnread>>20),
		fmt.Sprintf("has %d listings", wire.MaxListings),
		fmt.Sprintf("may take %d MiB of the server's memory by unfinished frames, as much by requests", o.Inbound>>20),
		fmt.Sprintf("more than %d KiB of it", fairShare>>10),
		fmt.Sprintf("[4259840, %d, %d, %d, %d,", o.InFlight, o.Waiting, o.Subscriptions, o.BoundOwners),
		fmt.Sprintf(", %d, %d, 30000, 1024], ", o.Outbound, o.Stall.Milliseconds()),
	} {
		if !strings.Contains(page, says) {
			t.Errorf("the page does not say %q", says)
		}
	}
	if o.Held != o.Inbound || o.Unread != o.Inbound {
		t.Errorf("the page says that three limits are alike; they are %d, %d, %d", o.Inbound, o.Held, o.Unread)
	}
}
