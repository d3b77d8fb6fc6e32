package daemon

import "testing"

// TestShares: what the listeners may have together leaves the node its own files, whatever
// the limit, and each of them something.
func TestShares(t *testing.T) {
	t.Parallel()
	all := DefaultConfig()
	all.Listen, all.WebListen = "127.0.0.1:0", "127.0.0.1:0"
	for _, files := range []int{64, 256, 1024, 4096, 20_000, 65_536, 1 << 20} {
		s := all.shares(files)
		if own := files - s.native - s.grpc - s.web; own < min(files/2, ownFiles) {
			t.Errorf("%d files: %+v leaves the node %d", files, s, own)
		}
		if s.native < s.grpc || s.grpc < s.web || s.web < 1 || s.grpc > mostGRPC || s.web > mostWeb {
			t.Errorf("%d files: %+v", files, s)
		}
	}
	alone := DefaultConfig()
	alone.Listen, alone.WebListen = "", ""
	if s := alone.shares(4096); s != (shares{native: 4096 - ownFiles}) {
		t.Errorf("a native listener alone: %+v", s)
	}
}
