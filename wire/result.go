package wire

// Result is the answer to a request of any operation: the union of all
// results. Which fields count follows from the operation's Spec. A Result with
// a Code other than OK carries a Message, perhaps a Cause, and nothing else.
//
// Its strings are immutable; slices belong to whoever holds the Result.
type Result struct {
	Code      Code
	Cause     Cause // of a Code other than OK
	Status    Status
	Reason    Reason
	Algorithm Algorithm
	Cycle     CycleKind
	Flag      bool   // alive, blocking, explicit, ok, has_fence, revoke_requested
	Done      bool   // no further page
	Message   string // of an error; of health, its detail
	Path      string
	Owner     string
	Namespace string
	Token     int64
	Current   int64  // current_fencing_token
	Position  uint64 // place in the queue, from 1; 0 when not queued
	Count     uint64
	List      *List // what lists answer, nil for all others
}

// List holds the results of the operations that answer many things.
type List struct {
	Names     []string // chain, read_owners
	Names2    []string // semaphore_owners
	Infos     []LockInfo
	Covering  []LockInfo
	Waiters   []WaiterInfo
	Cursor    []byte
	Positions []Position
	Count2    uint64
	Count3    uint64
	Welcome   *Welcome
	Topology  *Topology
	Backup    *Backup
	Rows      []byte // a piece of a backup's stream
}

// LockInfo is one held lock as listings show it.
type LockInfo struct {
	Owner           string
	Path            string
	Mode            Mode
	HasFence        bool
	Fence           int64
	SinceUnixMillis int64  // wall time of the grant, for people only
	ExpiresInMillis uint64 // what is left of the owner's lease
	Algorithm       Algorithm
	Permits         uint32
	Meta            []byte // holder metadata, encoded
}

// WaiterInfo is one request of a queued acquire, as describe shows it.
type WaiterInfo struct {
	Owner           string
	Path            string // the path of the entry that touches what was asked about
	Mode            Mode
	Token           int64 // the token it will hold, 0 when it asks for none
	SinceUnixMillis int64
	ExpiresInMillis uint64 // what is left of its queue_ttl_ms
	Position        uint64 // from 1, in arrival order
	Open            bool   // an acquire whose call is open; else a polled entry
	Permits         uint32
	Meta            []byte
}

// Err is the result's error, nil when it has none.
func (r *Result) Err() *Error {
	if r.Code == OK {
		return nil
	}
	return &Error{Code: r.Code, Cause: r.Cause, Message: r.Message}
}

// Fail makes r the refusal e.
func (r *Result) Fail(e *Error) { *r = Result{Code: e.Code, Cause: e.Cause, Message: e.Message} }
