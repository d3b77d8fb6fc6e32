package web

import (
	"net/http"
	"strconv"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pathlockd/pathlockd/wire"
)

// httpStatus is the status that each code is answered with (contract.md section 13).
var httpStatus = [...]int{
	codes.OK: http.StatusOK, codes.Canceled: 499, codes.Unknown: 500, codes.InvalidArgument: 400,
	codes.DeadlineExceeded: 504, codes.NotFound: 404, codes.AlreadyExists: 409, codes.PermissionDenied: 403,
	codes.ResourceExhausted: 429, codes.FailedPrecondition: 412, codes.Aborted: 409, codes.OutOfRange: 400,
	codes.Unimplemented: 501, codes.Internal: 500, codes.Unavailable: 503, codes.DataLoss: 500,
	codes.Unauthenticated: 401,
}

// codeNames lists the codes that an error may have.
func codeNames() (names []string) {
	for c := range httpStatus[1:] {
		names = append(names, wire.Code(c+1).String())
	}
	return names
}

// refusal is an answer that says no: what the face itself refuses, with a status that
// says more than the code's own where HTTP has one.
type refusal struct {
	status int // 0: the code's own
	code   codes.Code
	why    string
	// unread says that the request's body was not read to its end. The connection of
	// an HTTP/1.1 client is closed then: its next request could not be found.
	unread bool
}

func (e *refusal) Error() string { return e.why }

// refused makes of any error what the client is told of it.
func refused(err error) *refusal {
	if e, ok := err.(*refusal); ok { //nolint:errorlint // ours are never wrapped
		return e
	}
	s := status.Convert(err)
	return &refusal{code: s.Code(), why: s.Message()}
}

// unread is the refusal of a request whose body nobody has looked at.
func unread(err error) error {
	e := *refused(err)
	e.unread = true
	return &e
}

// fail answers with the envelope of all errors.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	e := refused(err)
	code := e.status
	if code == 0 {
		code = http.StatusInternalServerError
		if int(e.code) < len(httpStatus) {
			code = httpStatus[e.code]
		}
	}
	if e.unread && r.ProtoMajor == 1 {
		leaveUnread(w)
	}
	answer(w, code, append(appendError(make([]byte, 0, 256), e.code, e.why), '\n'))
}

// leaveUnread lets an HTTP/1.1 connection end with this answer, and what is left of the
// request's body not be waited for.
func leaveUnread(w http.ResponseWriter) {
	w.Header()["Connection"] = closes
	_ = readSide(w, past)
}

// appendError appends the envelope of all errors.
func appendError(b []byte, code codes.Code, why string) []byte {
	b = append(b, `{"error":{"code":"`...)
	b = append(b, wire.Code(code).String()...) //nolint:gosec // gRPC's codes fit, and have the same numbers
	b = append(b, `","message":`...)
	return append(appendString(b, why), "}}"...)
}

// Values of headers, made once: a request's header map only points to them.
var (
	typeJSON = []string{"application/json"}
	noStore  = []string{"no-store"}
	noSniff  = []string{"nosniff"}
	closes   = []string{"close"}
)

// countedBody is up to which size the HTTP servers say by themselves how long a body
// is, bytes.
const countedBody = 2048

// answer writes a whole answer.
func answer(w http.ResponseWriter, code int, body []byte) {
	h := w.Header()
	h["Content-Type"] = typeJSON
	h["Cache-Control"] = noStore
	h["X-Content-Type-Options"] = noSniff
	if len(body) > countedBody {
		h["Content-Length"] = []string{strconv.Itoa(len(body))}
	}
	w.WriteHeader(code)
	_, _ = w.Write(body) // whoever went away is not there to be told
}
