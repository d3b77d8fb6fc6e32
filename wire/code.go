package wire

import "fmt"

// Code says how a request failed, or that it did not. The numbers are those of
// gRPC, so that no face has to translate them.
type Code uint8

// The closed set of codes. Outcomes that a client is meant to handle as a
// matter of course (a conflict, a lost lease, a place in the queue) are not
// errors: they are OK with a status in the result.
const (
	OK                 Code = 0
	Cancelled          Code = 1
	Unknown            Code = 2
	InvalidArgument    Code = 3
	DeadlineExceeded   Code = 4
	NotFound           Code = 5
	AlreadyExists      Code = 6
	PermissionDenied   Code = 7
	ResourceExhausted  Code = 8
	FailedPrecondition Code = 9
	Aborted            Code = 10
	OutOfRange         Code = 11
	Unimplemented      Code = 12
	Internal           Code = 13
	Unavailable        Code = 14
	DataLoss           Code = 15
	Unauthenticated    Code = 16

	// Redirect is of the native protocol alone, where the numbers from 100 up are
	// those that gRPC has no code for: another node leads, whose id is the message.
	// It is answered only on sessions that asked for it (FeatureRedirect).
	Redirect Code = 100
	// Forgotten is of the native protocol alone: the request is a repeat whose answer is not
	// kept any more. Nothing was done now; what was done when it was asked first is not known.
	Forgotten Code = 101
)

var codeNames = [...]string{
	"OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND",
	"ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION",
	"ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS",
	"UNAUTHENTICATED",
}

// String is the code's name as the contract spells it.
func (c Code) String() string {
	switch c {
	case Redirect:
		return "REDIRECT"
	case Forgotten:
		return "FORGOTTEN"
	}
	return enumName(codeNames[:], uint64(c), "CODE")
}

// Error is a refused request: nothing was changed by it unless the code is
// DeadlineExceeded, which says that the outcome is not known.
type Error struct {
	Code    Code
	Cause   Cause
	Message string // names the field, the rule and the limit
}

// Cause tells refusals of one code apart that a client acts upon differently.
type Cause uint8

// Causes. A client that does not know one goes by the code.
const (
	CauseNone       Cause = 0
	CauseWaitOver   Cause = 1 // DeadlineExceeded: queue_ttl_ms was over, surely nothing was granted
	CauseVersion    Cause = 2 // FailedPrecondition: no protocol version in common
	CauseEpoch      Cause = 3 // FailedPrecondition: the session is on a connection with no lower epoch
	CauseHelloOrder Cause = 4 // FailedPrecondition: hello was not the first request, or was said before
)

// By is the error with its cause.
func (e *Error) By(cause Cause) *Error {
	e.Cause = cause
	return e
}

func (e *Error) Error() string { return e.Code.String() + ": " + e.Message }

// Errorf makes an Error.
func Errorf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// enumName names value v of an enum, or says its number when it has no name.
func enumName(names []string, v uint64, kind string) string {
	if v < uint64(len(names)) {
		return names[v]
	}
	return fmt.Sprintf("%s(%d)", kind, v)
}
