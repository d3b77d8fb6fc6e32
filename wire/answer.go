package wire

import "strings"

// Answer says how long the answer to a request may be, and what it costs until it is gathered.
type Answer uint8

const (
	ShortAnswer Answer = iota
	// a frame: what an owner holds in one namespace. Its one log is waited for first, however long, then it is gathered
	ListedAnswer
	LongAnswer // a frame, of any number of logs, or gathered as soon as it is asked for
)

// AnswerOf tells it of a request: how many of a kind a connection may have under way goes by it (MaxListings,
// MaxGathered).
func AnswerOf(r *Request) Answer {
	switch r.Op {
	case OpListLocks:
		// else it is a handler, with namespaces in any log
		if len(r.Domains) == 1 && strings.IndexByte(r.Domains[0], ':') >= 0 {
			return ListedAnswer
		}
		return LongAnswer
	case OpDumpLocks, OpScanLocks, OpDescribe, OpBackupRead:
		return LongAnswer
	}
	return ShortAnswer
}
