package wire

// Limits on what a client may send (contract.md section 2). Each is checked by
// Validate or by the frame reader before anything is done.
const (
	MaxOwnerBytes    = 1024        // owner_id, victim_id, start_owner_id, conflict_owner
	MaxKeyBytes      = 1024        // idempotency_key
	MaxTTLMillis     = 604_800_000 // seven days: ttl_ms, queue_ttl_ms
	MaxPathBytes     = 4096
	MaxPathSegments  = 256
	MaxHandlerBytes  = 1024 // of a namespace that is a bare handler
	MaxDomains       = 1024
	MaxPaths         = 1024   // of one Acquire, Release or AssertFencing
	MaxBulkPaths     = 65_536 // of one Acquire with FlagBulk (AcquireStream)
	MaxToken         = 1<<62 - 1
	FreeToken        = 3 << 60 // up to this a caller may choose any token: the time in ns until 2079
	TokenStride      = 1 << 48 // beyond, one may be so much above all that its group has seen
	MaxMetadataBytes = 4096    // holder metadata, encoded
	MaxDumpPage      = 512
	DefaultDumpPage  = 64
	MaxCycleDepth    = 64
	MaxCursorBytes   = 8192
	MaxPositions     = 1024 // of a subscription's cursor: one for each log, the system's, and the cluster's mark
	MaxDescribePage  = 1024
	MaxListings      = 192 // of ListedAnswer: of a connection, under way, when its server reads on
	MaxGathered      = 8   // of those, whose answers are gathered or lie unread; and of LongAnswer under way
	MaxGraceMillis   = MaxTTLMillis
	MaxNodeBytes     = 255     // node_id
	MaxBackupPage    = 1 << 20 // bytes of a backup's stream that one answer has
	MaxTopologyRoots = 256     // chosen namespaces that a topology tells; with more it tells none

	// DefaultQueueTTLMillis is how long a queued request lives that named no
	// queue_ttl_ms.
	DefaultQueueTTLMillis = 60_000

	// MaxFrameBytes bounds the payload of one frame: what AcquireStream may carry
	// (4 MiB encoded) and room for what surrounds it.
	MaxFrameBytes = 4<<20 + 64<<10

	// MaxRequestID keeps request ids exact in languages whose numbers are
	// IEEE 754 doubles.
	MaxRequestID = 1<<53 - 1

	// maxDepth bounds the nesting of arrays and maps in a value that a decoder skips.
	maxDepth = 16
)
