package pathlockd

import (
	"errors"
	"fmt"

	"github.com/pathlockd/pathlockd/wire"
)

// Error is how a server refuses a request. errors.As finds it in what the
// methods of a Client answer. Nothing was changed by a refused request, unless its
// code is wire.DeadlineExceeded and its cause is not wire.CauseWaitOver.
type Error = wire.Error

// refusalCode is a sentinel: any refusal with its code is it.
type refusalCode wire.Code

func (c refusalCode) Error() string { return "pathlockd: " + wire.Code(c).String() }

// Refusals by code, for errors.Is. What each says stands in wire/PROTOCOL.md,
// section 2.
var (
	ErrCancelled          error = refusalCode(wire.Cancelled)
	ErrInvalidArgument    error = refusalCode(wire.InvalidArgument)
	ErrDeadlineExceeded   error = refusalCode(wire.DeadlineExceeded)
	ErrResourceExhausted  error = refusalCode(wire.ResourceExhausted)
	ErrFailedPrecondition error = refusalCode(wire.FailedPrecondition)
	ErrAborted            error = refusalCode(wire.Aborted)
	ErrUnimplemented      error = refusalCode(wire.Unimplemented)
	ErrInternal           error = refusalCode(wire.Internal)
	ErrUnavailable        error = refusalCode(wire.Unavailable)
)

// What else can happen to a request.
var (
	// ErrClosed says that the client was closed.
	ErrClosed = errors.New("pathlockd: the client is closed")
	// ErrOutcomeUnknown says that nobody knows whether the request was carried out:
	// its caller went away before the answer came, or the connection was lost for
	// longer than a server remembers a session, or for more requests than it remembers.
	ErrOutcomeUnknown = errors.New("pathlockd: the outcome is not known")
	// ErrBacklog says that the request was not sent: too many were waiting to be.
	ErrBacklog = errors.New("pathlockd: the backlog is full")
)

// What ends a lock. Every one but ErrUnlocked also is ErrLost.
var (
	// ErrLost says that a lock is not held any more, or that this cannot be told.
	ErrLost = errors.New("pathlockd: the lock is lost")
	// ErrConflict is any ConflictError.
	ErrConflict = errors.New("pathlockd: the lock is held by another owner")
	// ErrUncertain says that the lease was not renewed in time: the server may or may
	// not have given the lock to somebody else.
	ErrUncertain = errors.New("pathlockd: the lease could not be renewed in time")
	// ErrExpired says that the server has ended the lease: it ran out, or the lock
	// was taken away and nobody could tell by whom. Or a path of the lock was given back:
	// by another lock of its owner, or whoever else used its name.
	ErrExpired = errors.New("pathlockd: the lease is over")
	// ErrKilled says that somebody took the lock away.
	ErrKilled = errors.New("pathlockd: the lock was taken away")
	// ErrUnlocked is the cause with which a lock's context ends when it is unlocked.
	ErrUnlocked = errors.New("pathlockd: the lock was unlocked")
)

// IsUnavailable says that a server could not take a request, which surely was not
// carried out. When it was a repeat that no server took, the error is [ErrOutcomeUnknown].
func IsUnavailable(err error) bool {
	return errors.Is(err, ErrUnavailable) && !errors.Is(err, ErrOutcomeUnknown)
}

// IsConflict says that another owner is in the way.
func IsConflict(err error) bool { return errors.Is(err, ErrConflict) }

// IsLost says that a lock was lost.
func IsLost(err error) bool { return errors.Is(err, ErrLost) }

// refusal is an Error and the operation that met it.
type refusal struct {
	op  wire.Op
	err wire.Error
}

func (e *refusal) Error() string { return e.op.String() + ": " + e.err.Error() }
func (e *refusal) Unwrap() error { return &e.err }

// Is implements errors.Is for the sentinels.
func (e *refusal) Is(target error) bool {
	if code, ok := target.(refusalCode); ok {
		return wire.Code(code) == e.err.Code
	}
	return target == ErrOutcomeUnknown && e.unknown()
}

// unknown says that the refusal leaves open whether the request was carried out.
func (e *refusal) unknown() bool {
	spec, _ := e.op.Spec()
	if e.err.Code == wire.Forgotten {
		return true
	}
	return e.err.Code == wire.DeadlineExceeded && e.err.Cause != wire.CauseWaitOver && spec.Kind == wire.KindWrite
}

// isWaitOver says that an error is that a wait's time in the queue is over: it got nothing.
func isWaitOver(err error) bool {
	var e *refusal
	return errors.As(err, &e) && e.err.Code == wire.DeadlineExceeded && e.err.Cause == wire.CauseWaitOver
}

// codeOf is the code of a refusal, wire.OK for any other error and for none.
func codeOf(err error) wire.Code {
	if err == nil {
		return wire.OK
	}
	var e *wire.Error
	if errors.As(err, &e) {
		return e.Code
	}
	return wire.OK
}

// refuse makes a refusal that the client itself pronounces.
func refuse(op wire.Op, format string, args ...any) error {
	return &refusal{op, *wire.Errorf(wire.InvalidArgument, format, args...)}
}

// ProtocolError says that a server's bytes could not be understood. The connection
// they came on is given up.
type ProtocolError struct {
	Step string // what was being read
	Err  error
}

func (e *ProtocolError) Error() string { return "pathlockd: " + e.Step + ": " + e.Err.Error() }
func (e *ProtocolError) Unwrap() error { return e.Err }

// ConflictError says what stands in the way of a lock that was not to be waited
// for, or that no waiting can bring.
type ConflictError struct {
	Path         string      // what blocks: the path asked for, or one above or below it
	Owner        string      // who holds it, or waits for it (ReasonQueued); "" when it is nobody
	Reason       wire.Reason // in which way
	CurrentToken int64       // the path's fence, with ReasonStaleFencingToken
}

func (e *ConflictError) Error() string {
	switch e.Reason {
	case wire.ReasonReadLocksDisabled:
		return "pathlockd: the namespace of " + e.Path + " takes no read locks"
	case wire.ReasonStaleFencingToken:
		return fmt.Sprintf("pathlockd: the fencing token is stale: %s has seen token %d", e.Path, e.CurrentToken)
	case wire.ReasonInvalidPermits:
		return fmt.Sprintf("pathlockd: the number of permits does not fit %s (in force: %s)", e.Path, e.Owner)
	case wire.ReasonQueued:
		return fmt.Sprintf("pathlockd: %s waits for %s already", e.Owner, e.Path)
	}
	return fmt.Sprintf("pathlockd: %s is held by %s (%s)", e.Path, e.Owner, e.Reason)
}

// Is makes every ConflictError ErrConflict.
func (e *ConflictError) Is(target error) bool { return target == ErrConflict }

// LostError says that a lock was lost, and why.
type LostError struct {
	Path   string      // the first of the lock's paths
	Cause  error       // ErrUncertain, ErrExpired, ErrKilled or ErrClosed
	Reason wire.Reason // the server's, with ErrExpired
	Last   error       // why renewing failed last, with ErrUncertain; may be nil
}

func (e *LostError) Error() string {
	s := fmt.Sprintf("pathlockd: the lock on %s is lost: %s", e.Path, trim(e.Cause))
	if e.Reason != wire.ReasonUnspecified {
		s += " (" + e.Reason.String() + ")"
	}
	if e.Last != nil {
		s += " (last attempt: " + trim(e.Last) + ")"
	}
	return s
}

// whole says that nothing is held any more of what the lock took: its owner has no lease, or
// Close gave it back.
func (e *LostError) whole() bool {
	return e.Reason != wire.ReasonUnspecified || errors.Is(e.Cause, ErrClosed)
}

// trim is an error's text without the package's name, for use within another.
func trim(err error) string {
	const name = "pathlockd: "
	s := err.Error()
	if len(s) > len(name) && s[:len(name)] == name {
		return s[len(name):]
	}
	return s
}

// Is makes every LostError ErrLost.
func (e *LostError) Is(target error) bool { return target == ErrLost }

// Unwrap answers the cause.
func (e *LostError) Unwrap() error { return e.Cause }
