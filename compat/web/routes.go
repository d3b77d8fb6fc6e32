package web

import (
	"fmt"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/pathlockd/pathlockd/compat"
	pb "github.com/pathlockd/pathlockd/compat/pathlockdv1"
)

// Where things are served.
const (
	prefix      = "/v1/"
	openapiPath = "/v1/openapi.json"
	eventsPath  = "/v1/events/sse"
)

// trait is what makes an RPC special here.
type trait uint8

const (
	// early RPCs only look: they may run in TLS early data, which somebody who listens
	// in could send again (contract.md section 13).
	early trait = 1 << iota
	// stays is for an RPC that is answered when its time has come: it takes no turn
	// and has no timeout of ours.
	stays
	// gets is for an RPC that GET calls as well, with an empty request.
	gets
	// reserved is for an RPC that has turns of its own.
	reserved
)

// traits lists the RPCs that have some. A test holds it against the table of package
// wire.
var traits = map[string]trait{
	"AssertFencing":      early,
	"DetectCycle":        early,
	"IsBlocking":         early,
	"IsOwnerAlive":       early,
	"GetNamespacePolicy": early,
	"InspectPath":        early,
	"ListOwnerLocks":     early,
	"DumpLocks":          early,
	"DescribePath":       early,
	"ScanLocks":          early,
	"Health":             early | gets,
	"AcquireWait":        stays,
}

// instead says where to go for the RPCs that stream, which have no route.
var instead = map[string]string{
	"AcquireStream": "it is for gRPC; /v1/acquire takes up to 1024 paths",
	"AcquireWatch":  "it is for gRPC; /v1/acquireWait waits and answers once",
	"Subscribe":     "it is for gRPC; GET " + eventsPath + " streams events",
}

// route is what a path leads to.
type route struct {
	methods []string // the methods that it takes
	allow   []string // the Allow header that says so
	trait   trait
	rpc     *grpc.MethodDesc // nil when serve does it
	serve   http.HandlerFunc
}

// table makes the routes: one for each unary RPC of the service, and the few that are
// none.
func (s *Server) table() map[string]*route {
	t := make(map[string]*route)
	mount := func(path string, r route, methods ...string) {
		r.methods, r.allow = methods, []string{strings.Join(methods, ", ")}
		t[path] = &r
	}
	for i := range pb.PathLock_ServiceDesc.Methods {
		m := &pb.PathLock_ServiceDesc.Methods[i]
		r := route{rpc: m, trait: traits[m.MethodName]}
		if compat.Keeps(m.MethodName) {
			r.trait |= reserved
		}
		if r.trait&gets != 0 {
			mount(pathOf(m.MethodName), r, http.MethodGet, http.MethodHead, http.MethodPost)
		} else {
			mount(pathOf(m.MethodName), r, http.MethodPost)
		}
	}
	mount(eventsPath, route{serve: s.stream}, http.MethodGet)
	mount(openapiPath, route{serve: s.describe}, http.MethodGet, http.MethodHead)
	return t
}

// pathOf is where an RPC is served.
func pathOf(rpc string) string { return prefix + strings.ToLower(rpc[:1]) + rpc[1:] }

// ServeHTTP implements http.Handler, for every version of HTTP.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	defer s.survive(w, r)
	if alt := s.altSvc.Load(); alt != nil && r.ProtoMajor < 3 {
		w.Header()["Alt-Svc"] = *alt
	}
	if r.ProtoMajor == 1 && r.Method != http.MethodPost && r.ContentLength != 0 {
		leaveUnread(w) // net/http would wait for the body before it sends the answer
	}
	if r.ProtoMajor == 3 { // net/http's server has done the like by itself
		_ = writeSide(w, time.Now().Add(s.lim.call+s.lim.write))
	}
	if headerBytes(r) > MaxHeaderBytes {
		s.turnAway(w, r, nil, errHeaders)
		return
	}
	rt, err := s.find(r)
	done, refused := s.guard(w, r, rt)
	if done {
		return
	}
	if refused != nil {
		err = refused
	}
	switch {
	case err != nil:
		s.turnAway(w, r, rt, err)
	case rt.rpc != nil:
		s.call(w, r, rt)
	default:
		rt.serve(w, r)
	}
}

// guard looks at requests of pages, which browsers send: it refuses those of pages that may
// not call, and answers the others what they need to know, done if that is all.
func (s *Server) guard(w http.ResponseWriter, r *http.Request, rt *route) (done bool, err error) {
	page := fromPage(r)
	if !page && len(s.origins.listed) == 0 {
		return false, nil
	}
	if page {
		if err := s.names.check(r); err != nil {
			return false, err
		}
	}
	return s.origins.check(w, r, rt)
}

// errHeaders refuses a request with too many headers.
var errHeaders error = &refusal{
	status: http.StatusRequestHeaderFieldsTooLarge, code: codes.ResourceExhausted,
	why: fmt.Sprintf("headers: are over %d bytes together, which is the most that is taken", MaxHeaderBytes),
}

// headerBytes is the size of a request's line and headers.
func headerBytes(r *http.Request) int {
	n := len(r.Method) + len(r.RequestURI) + len(r.Host)
	for name, values := range r.Header {
		for _, v := range values {
			n += len(name) + len(v)
		}
	}
	return n
}

// find answers a request's route, also when it may not be taken.
func (s *Server) find(r *http.Request) (*route, error) {
	rt := s.routes[r.URL.Path]
	if rt == nil {
		return nil, noRoute(r)
	}
	if r.Method != http.MethodPost || rt.rpc == nil {
		if !takes(rt, r.Method) {
			return rt, &refusal{
				status: http.StatusMethodNotAllowed, code: codes.Unimplemented,
				why: fmt.Sprintf("%s %s: is not offered; use %s", r.Method, r.URL.Path, rt.allow[0]),
			}
		}
	}
	if rt.trait&early == 0 && r.Method != http.MethodGet && earlyData(r) {
		return rt, errEarly
	}
	return rt, nil
}

// errEarly refuses what must not run twice; a body may end with it instead of io.EOF. UNAVAILABLE is what it means: it
// was surely not carried out, and may be sent again as it is.
var errEarly error = &refusal{
	status: http.StatusTooEarly, code: codes.Unavailable,
	why: "this request changes something and came before the handshake was over, so that it could be replayed: send " +
		"it again on the same connection",
}

func takes(rt *route, method string) bool {
	for _, m := range rt.methods {
		if m == method {
			return true
		}
	}
	return false
}

func noRoute(r *http.Request) error {
	path := r.URL.Path
	for rpc, what := range instead {
		if path == pathOf(rpc) {
			return &refusal{code: codes.NotFound, why: path + ": is not served over HTTP: " + what}
		}
	}
	return &refusal{code: codes.NotFound, why: fmt.Sprintf("%s %s: is no route of this server; GET %s lists them",
		r.Method, short(path), openapiPath)}
}

// turnAway answers a request whose body nobody has looked at.
func (s *Server) turnAway(w http.ResponseWriter, r *http.Request, rt *route, err error) {
	e := *refused(err)
	e.unread = r.ContentLength != 0
	if e.status == http.StatusMethodNotAllowed {
		w.Header()["Allow"] = rt.allow
	}
	s.fail(w, r, &e)
}

// stream serves events. How long that takes is for the client to say: it has no
// deadline but those that each write gets.
func (s *Server) stream(w http.ResponseWriter, r *http.Request) {
	shut, err := s.open(r)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	defer shut()
	_ = writeSide(w, time.Time{})
	s.events(w, r)
}

// survive answers a request whose handler panicked. That is a bug, and no reason to
// leave the client without an answer.
func (s *Server) survive(w http.ResponseWriter, r *http.Request) {
	p := recover()
	if p == nil {
		return
	}
	if p == http.ErrAbortHandler { //nolint:errorlint // the value itself is what is documented
		panic(p)
	}
	s.opt.Log.Error("a request panicked", "method", r.Method, "path", r.URL.Path, "panic", p, "stack",
		string(debug.Stack()))
	s.fail(w, r, &refusal{code: codes.Internal,
		why: "a bug in the server, which its log tells more of; the outcome of the request is not known", unread: true})
}

// short cuts what a client sent to what fits a message.
func short(s string) string {
	const most = 128
	if len(s) <= most {
		return s
	}
	return s[:most] + "…"
}
