//go:build !plant

package pathlockd

// planted names the bug that this build has: none.
const planted = ""
