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
)

var codeNames = [...]string{
	"OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND",
	"ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION",
	"ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS",
	"UNAUTHENTICATED",
}

// String is the code's name as the contract spells it.
func (c Code) String() string {
	if c == Redirect {
		return "REDIRECT"
	}
	return enumName(codeNames[:], uint64(c), "CODE")
}

// Error is a refused request: nothing was changed by it unless the code is
// DeadlineExceeded, which says that the outcome is not known.
type Error struct {
	Code    Code
	Message string // names the field, the rule and the limit
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
