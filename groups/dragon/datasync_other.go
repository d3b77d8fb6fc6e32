//go:build !linux

package dragon

import gvfs "github.com/lni/vfs"

func dataSync(f gvfs.File) error { return f.Sync() }
