//go:build plant

package pathlockd

import "os"

// planted names the bug that this process has, "" for none.
var planted = os.Getenv("PATHLOCKD_PLANT")
