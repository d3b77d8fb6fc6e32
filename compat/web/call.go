package web

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	pb "github.com/pathlockd/pathlockd/compat/pathlockdv1"
)

const (
	// smallBody is what a body is given room for at first, and largeBody the size from
	// which room is not kept for the next request. Bytes.
	smallBody, largeBody = 4 << 10, 64 << 10
	// maxValues bounds what a large body lists: an empty message takes two bytes of
	// text, and a hundred as a message. No request that would be granted has as many.
	maxValues = 64 << 10
	// smallReply is what an answer may have without being watched while it is
	// written: net/http holds as much anyway. Bytes.
	smallReply = 4 << 10
)

// past is a deadline that is over.
var past = time.Unix(1, 0)

// exchange is what one request needs while it is under way. It is used again.
type exchange struct {
	s       *Server
	w       http.ResponseWriter
	r       *http.Request
	body    []byte
	reply   []byte
	stays   bool // the RPC has this trait
	reading watched
	writing watched
	dec     func(any) error // = decode, bound once
}

var exchanges = sync.Pool{New: func() any {
	x := new(exchange)
	x.dec = x.decode
	return x
}}

func (x *exchange) end() {
	if cap(x.body) > largeBody {
		x.body = nil
	}
	if cap(x.reply) > largeBody {
		x.reply = nil
	}
	x.s, x.w, x.r = nil, nil, nil
	exchanges.Put(x)
}

// call carries an RPC out, by the function that gRPC would call.
func (s *Server) call(w http.ResponseWriter, r *http.Request, rt *route) {
	as, err := s.profileOf(r)
	if err == nil {
		err = checkType(r)
	}
	if err != nil {
		s.turnAway(w, r, rt, err)
		return
	}
	x := exchanges.Get().(*exchange) //nolint:forcetypeassert // see the pool
	defer x.end()
	x.s, x.w, x.r, x.stays = s, w, r, rt.trait&stays != 0
	if err := x.call(rt, as); err != nil {
		s.fail(w, r, err)
	}
}

func (x *exchange) call(rt *route, as profile) error {
	ctx := x.r.Context()
	if x.stays {
		shut, err := x.s.open(x.r)
		if err != nil {
			return unread(err)
		}
		defer shut()
		if err := writeSide(x.w, time.Time{}); err != nil {
			return fmt.Errorf("take the write deadline off: %w", err)
		}
		var stop context.CancelFunc
		ctx, stop = whileThere(x.r)
		defer stop()
	} else {
		turn, err := callsOf(x.r).Enter(ctx, rt.trait&reserved != 0)
		if err != nil {
			return unread(err)
		}
		defer turn.Leave()
	}
	res, err := rt.rpc.Handler(x.s.opt.Service, ctx, x.dec, nil)
	if err != nil {
		return err
	}
	//nolint:forcetypeassert // generated code answers messages
	x.reply = as.append(x.reply[:0], res.(proto.Message).ProtoReflect())
	x.reply = append(x.reply, '\n')
	code := http.StatusOK
	if h, is := res.(*pb.HealthResponse); is && !h.Ok {
		code = http.StatusServiceUnavailable
	}
	if x.stays {
		_ = writeSide(x.w, time.Now().Add(x.s.lim.write))
	}
	if len(x.reply) > smallReply {
		x.s.replies.enter(&x.writing, x.w, int64(len(x.reply)))
		defer x.s.replies.leave(&x.writing)
	}
	answer(x.w, code, x.reply)
	return nil
}

// decode reads the request's body into a message.
func (x *exchange) decode(into any) error {
	if x.r.ContentLength == 0 || x.r.Method != http.MethodPost {
		return nil
	}
	if x.r.ContentLength > MaxBodyBytes {
		return tooLarge
	}
	x.s.bodies.enter(&x.reading, x.w, int64(max(cap(x.body), smallBody)))
	err := x.read()
	switch x.s.bodies.leave(&x.reading) {
	case tooSlow:
		return &refusal{code: codes.DeadlineExceeded,
			why:    fmt.Sprintf("body: did not come within %v; the request was not carried out", x.s.lim.body),
			unread: true}
	case tooMany:
		return &refusal{code: codes.ResourceExhausted,
			why: fmt.Sprintf("body: the server is reading too much at once (%d bytes), and this was what took it "+
				"longest; the request was not carried out", x.s.lim.bodyBytes), unread: true}
	case stayed:
	}
	if err != nil {
		return unreadable(err)
	}
	if len(x.body) == 0 {
		return nil // of a length that was not told, and it was 0
	}
	//nolint:forcetypeassert // generated code asks for messages
	err = decode(x.body, into.(proto.Message), x.s.opt.IgnoreUnknown)
	if cap(x.body) > smallBody && x.stays || cap(x.body) > largeBody {
		x.body = nil // the message has its own; this is not held until it is answered
	}
	return err
}

// tooLarge refuses a body over its limit.
var tooLarge = &refusal{code: codes.ResourceExhausted,
	why: fmt.Sprintf("body: is over %d bytes, which is the most that is taken", MaxBodyBytes), unread: true}

// unreadable says why a body could not be read.
func unreadable(err error) error {
	var e *refusal
	switch {
	case errors.As(err, &e):
		return e
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return status.FromContextError(err).Err()
	}
	return &refusal{code: codes.InvalidArgument, why: "body: cannot be read: " + err.Error(), unread: true}
}

// read reads the body to its end. Room is made as it comes: what the client says of
// its length is only a limit.
func (x *exchange) read() error {
	if cap(x.body) == 0 {
		x.body = make([]byte, 0, smallBody)
	}
	x.body = x.body[:0]
	for {
		n, err := x.r.Body.Read(x.body[len(x.body):cap(x.body)])
		x.body = x.body[:len(x.body)+n]
		switch {
		case len(x.body) > MaxBodyBytes:
			return tooLarge
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		if len(x.body) < cap(x.body) {
			continue
		}
		more := min(cap(x.body), MaxBodyBytes+1-cap(x.body)) // twice as much, and one byte too many at the most
		if !x.s.bodies.grow(&x.reading, int64(more)) {
			return context.Canceled // leave says why
		}
		x.body = append(make([]byte, 0, cap(x.body)+more), x.body...)
	}
}

// checkType refuses a body that says it is something else than JSON. A body that says
// nothing is taken for it.
func checkType(r *http.Request) error {
	t := r.Header.Get("Content-Type")
	if t == "" || t == typeJSON[0] || r.Method != http.MethodPost || r.ContentLength == 0 {
		return nil
	}
	name, params, err := mime.ParseMediaType(t)
	if charset := params["charset"]; err != nil || name != typeJSON[0] ||
		charset != "" && !strings.EqualFold(charset, "utf-8") {
		return &refusal{
			status: http.StatusUnsupportedMediaType, code: codes.InvalidArgument,
			why: fmt.Sprintf("Content-Type %q: must be application/json, in UTF-8", short(t)),
		}
	}
	return nil
}

// profileOf answers how the client wants the answer to be spelled.
func (s *Server) profileOf(r *http.Request) (profile, error) {
	def := proto3
	if s.opt.Plain {
		def = plain
	}
	accept := r.Header["Accept"]
	if len(accept) == 0 || len(accept) == 1 && (accept[0] == "*/*" || accept[0] == typeJSON[0]) {
		return def, nil
	}
	for _, line := range accept {
		for part := range strings.SplitSeq(line, ",") {
			if !strings.Contains(part, "profile") {
				continue
			}
			name, params, err := mime.ParseMediaType(part)
			if err != nil || name != typeJSON[0] {
				continue
			}
			switch p := params["profile"]; p {
			case "plain":
				return plain, nil
			case "proto3":
				return proto3, nil
			case "":
			default:
				return def, &refusal{code: codes.InvalidArgument,
					why: fmt.Sprintf("Accept: profile %q: must be proto3 or plain", short(p))}
			}
		}
	}
	return def, nil
}
