package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	pathlockd "github.com/pathlockd/pathlockd/clients/go"
	"github.com/pathlockd/pathlockd/wire"
)

// Codes of failures beside those of wire.Code.
const (
	codeUsage       = "USAGE"
	codeUnreachable = "UNREACHABLE"
	codeNoAnswer    = "NO_ANSWER"
	codeUnhealthy   = "UNHEALTHY"
	codeConflict    = "CONFLICT"
	codeTimeout     = "WAIT_TIMEOUT"
	codeLost        = "LOST"
	codeAssert      = "ASSERT_FAILED"
	codeInterrupted = "INTERRUPTED"
	codeNotRunnable = "NOT_RUNNABLE"
	codeDamaged     = "DAMAGED"
	codeFormat      = "OTHER_FORMAT"
	codeNoBackup    = "NO_BACKUP"
)

// failure is why a command did not do what it was asked to.
type failure struct {
	exit    int
	code    string
	message string
	hints   []string // what to do, a line each
	details any      // for programs
	data    any      // stands in the envelope beside the error: what is so although it failed
}

func (f *failure) Error() string { return f.message }

// hint adds a line that says what to do.
func (f *failure) hint(format string, args ...any) {
	f.hints = append(f.hints, fmt.Sprintf(format, args...))
}

// hinted is a failure with one more line that says what to do.
func (f *failure) hinted(format string, args ...any) *failure {
	f.hint(format, args...)
	return f
}

// usage is a failure to understand the command line.
func usage(format string, args ...any) *failure {
	return &failure{exit: ExitUsage, code: codeUsage, message: fmt.Sprintf(format, args...)}
}

// childExit is the exit code that run passes on: everything was said.
type childExit int

func (e childExit) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// blocker tells programs what stands in the way.
type blocker struct {
	Path         string `json:"path"`
	Owner        string `json:"owner,omitempty"`
	Reason       string `json:"reason"`
	CurrentToken int64  `json:"current_fencing_token,omitempty"`
	WaitedMillis int64  `json:"waited_ms,omitempty"`
}

// errNoAnswer ends the wait for an answer of the server.
var errNoAnswer = errors.New("the server does not answer in time")

// failureOf finds out what an error means to the caller.
func (a *app) failureOf(err error) *failure {
	var known *failure
	var sig *signalError
	var conflict *pathlockd.ConflictError
	var refused *wire.Error
	switch {
	case errors.As(err, &known):
		return known
	case errors.As(err, &sig):
		return &failure{exit: exitSignal + int(sig.sig), code: codeInterrupted, message: sig.Error()}
	case errors.As(err, &conflict):
		return conflictFailure(conflict)
	case errors.Is(err, pathlockd.ErrLost):
		return &failure{exit: ExitFailed, code: codeLost, message: plain(err)}
	case errors.Is(err, pathlockd.ErrOutcomeUnknown):
		f := &failure{exit: ExitUnavailable, code: codeNoAnswer, message: plain(err)}
		return f.hinted("it may have been carried out or not; look with pathlock status, or do it again: all " +
			"commands may be repeated")
	case errors.As(err, &refused):
		return refusal(refused)
	case errors.Is(err, errNoAnswer), errors.Is(err, context.DeadlineExceeded):
		f := &failure{exit: ExitUnavailable, code: codeNoAnswer, message: plain(err)}
		return f.hinted("see what is wrong: pathlock health%s; or give it longer: --timeout 1m", a.addrFlag())
	}
	return &failure{exit: ExitFailed, code: wire.Internal.String(), message: plain(err)}
}

// refusal is what the server does not do.
func refusal(e *wire.Error) *failure {
	f := &failure{exit: ExitFailed, code: e.Code.String(), message: e.Message}
	switch e.Code {
	case wire.InvalidArgument:
		f.exit = ExitUsage
	case wire.Unavailable, wire.DeadlineExceeded:
		f.exit = ExitUnavailable
		f.hint("surely nothing was done; try again, or ask pathlock health")
		if e.Code == wire.DeadlineExceeded {
			f.hints = []string{"it may have been carried out or not; look with pathlock status, or do it again"}
		}
	}
	return f
}

// conflictFailure is a lock that somebody else has.
func conflictFailure(e *pathlockd.ConflictError) *failure {
	f := &failure{
		exit: ExitFailed, code: codeConflict, message: "not acquired: " + inTheWay(e),
		details: &blocker{Path: e.Path, Owner: e.Owner, Reason: e.Reason.String(), CurrentToken: e.CurrentToken},
	}
	switch {
	case e.Reason == wire.ReasonStaleFencingToken:
		f.hint("leave --token out to get a new one")
	case e.Reason == wire.ReasonReadLocksDisabled:
		f.hint("take a write lock: leave --read out")
	case e.Reason == wire.ReasonInvalidPermits && e.Owner == "":
		f.hint("the namespace is a semaphore: say how many may hold the path at once, with --permits")
	case e.Reason == wire.ReasonInvalidPermits:
		f.hint("say --permits %s; the first holder chose it, and it lasts while anybody holds or waits", e.Owner)
	case waitable(e.Reason):
		f.hint("wait for it: --wait 5m; %s", lookAt(e))
	}
	return f
}

// lookAt says what else can be done about a lock that somebody has.
func lookAt(e *pathlockd.ConflictError) string {
	s := "look at it: pathlock describe " + quote(e.Path)
	if e.Reason != wire.ReasonQueued {
		s += "; ask its owner to let go: pathlock revoke " + quote(e.Owner)
	}
	return s
}

// waitable says that waiting may bring what was refused.
func waitable(r wire.Reason) bool { return r.Blocking() || r == wire.ReasonQueued }

// inTheWay says in words what stands in the way of a lock.
func inTheWay(e *pathlockd.ConflictError) string {
	path, owner := visible(e.Path), visible(e.Owner)
	switch e.Reason {
	case wire.ReasonAncestorLocked:
		return fmt.Sprintf("%s, above it, is write-locked by %s", path, owner)
	case wire.ReasonWriteLocked:
		return fmt.Sprintf("%s is write-locked by %s", path, owner)
	case wire.ReasonReadLocked:
		return fmt.Sprintf("%s is read-locked by %s", path, owner)
	case wire.ReasonDescendantWriteLocked:
		return fmt.Sprintf("%s, below it, is write-locked by %s", path, owner)
	case wire.ReasonDescendantReadLocked:
		return fmt.Sprintf("%s, below it, is read-locked by %s", path, owner)
	case wire.ReasonSemaphoreFull:
		return fmt.Sprintf("no permit of %s is free; %s has one of them", path, owner)
	case wire.ReasonQueued:
		return fmt.Sprintf("%s waits for %s already", owner, path)
	case wire.ReasonReadLocksDisabled:
		return fmt.Sprintf("the namespace of %s takes no read locks", path)
	case wire.ReasonStaleFencingToken:
		return fmt.Sprintf("the fencing token is stale: %s has seen %d", path, e.CurrentToken)
	case wire.ReasonInvalidPermits:
		if owner == "" {
			return fmt.Sprintf("%s needs a number of permits", path)
		}
		return fmt.Sprintf("the number of permits does not fit %s, which has %s", path, owner)
	}
	return fmt.Sprintf("%s: %s (%s)", path, e.Reason, owner)
}

// plain is an error's text without the client's name before it.
func plain(err error) string { return strings.ReplaceAll(err.Error(), "pathlockd: ", "") }

// fail tells why a call failed, and answers its exit code.
func (a *app) fail(err error) int {
	var code childExit
	if errors.As(err, &code) {
		return int(code)
	}
	f := a.failureOf(err)
	if a.json {
		b := encode(&envelope{SchemaVersion: schemaVersion, Data: f.data,
			Error: &errorBody{f.code, f.message, f.details}})
		_, _ = a.stdout.Write(b) // nobody is left to be told
		return f.exit
	}
	a.note("%s", f.message)
	for _, h := range f.hints {
		fmt.Fprintf(a.stderr, "  %s\n", h)
	}
	if f.code == codeUsage {
		fmt.Fprintf(a.stderr, "  see: pathlock --help, or pathlock COMMAND --help\n")
	}
	return f.exit
}

// note tells people something beside the answer.
func (a *app) note(format string, args ...any) {
	for line := range strings.SplitSeq(strings.TrimSpace(fmt.Sprintf(format, args...)), "\n") {
		fmt.Fprintf(a.stderr, "pathlock: %s\n", line)
	}
}
