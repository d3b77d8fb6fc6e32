//go:build !unix

package pathlockd

// isCut says that the peer ended a connection. It matters together with isDead.
func isCut(error) bool { return false }

// isDead says that nothing listens at an address. What a refused connection looks
// like here is not known, and a lost connection then shortens leases.
func isDead(error) bool { return false }
