//go:build !linux

package groups

import gvfs "github.com/lni/vfs"

func dataSync(f gvfs.File) error { return f.Sync() }
