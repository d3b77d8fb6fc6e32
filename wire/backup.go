package wire

// Backup is an image of one log, which the node that made it keeps open to be read:
// the log as it was at one index. What it says of the cluster is fixed at birth, and
// what a restore founds the new one with.
type Backup struct {
	ID             uint64 // names it to backup_read and backup_close, on this node
	Log            uint64 // its log: SystemLog, or one of those that groups live in
	AppliedIndex   uint64 // of the last entry in it
	UnixMillis     int64  // when it was made, by the node's wall clock: for people
	Changes        uint64 // of the system log: grows with each step of a policy change
	ClusterID      string
	GroupCount     uint64
	LogCount       uint64 // the system log aside
	PrefixSegments uint64
	Algorithm      Algorithm // default_lock_algorithm
	Replication    uint64    // replication_factor
}

func appendBackup(dst []byte, b *Backup) []byte {
	if b == nil {
		return AppendNil(dst)
	}
	dst = AppendUint(AppendArray(dst, 11), b.ID)
	dst = AppendUint(AppendUint(dst, b.Log), b.AppliedIndex)
	dst = AppendUint(AppendInt(dst, b.UnixMillis), b.Changes)
	dst = AppendStr(dst, b.ClusterID)
	dst = AppendUint(AppendUint(dst, b.GroupCount), b.LogCount)
	dst = AppendUint(AppendUint(dst, b.PrefixSegments), uint64(b.Algorithm))
	return AppendUint(dst, b.Replication)
}

func (r *Reader) backup() *Backup {
	b := new(Backup)
	r.fields(11, func(i int) {
		switch i {
		case 0:
			b.ID = r.Uint()
		case 1:
			b.Log = r.Uint()
		case 2:
			b.AppliedIndex = r.Uint()
		case 3:
			b.UnixMillis = r.Int()
		case 4:
			b.Changes = r.Uint()
		case 5:
			b.ClusterID = r.Str()
		case 6:
			b.GroupCount = r.Uint()
		case 7:
			b.LogCount = r.Uint()
		case 8:
			b.PrefixSegments = r.Uint()
		case 9:
			b.Algorithm = Algorithm(r.enum())
		case 10:
			b.Replication = r.Uint()
		}
	})
	return b
}
