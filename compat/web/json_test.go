package web

import (
	"net/http"
	"strings"
	"testing"

	pb "github.com/pathlockd/pathlockd/compat/pathlockdv1"
)

// TestBadInput sends what must be refused, and expects exactly the envelope. The same
// for both versions of HTTP.
func TestBadInput(t *testing.T) {
	f := serve(t, nil)
	acquire := func(body string) [3]string { return [3]string{"POST", "/v1/acquire", body} }
	for _, c := range []struct {
		name    string
		request [3]string // method, path, body
		headers []string
		status  int
		code    string
		message string
	}{
		{"malformed: cut off", acquire(`{"ownerId":"a"`), nil, 400, "INVALID_ARGUMENT",
			"body: is no JSON: line 1, column 15: unexpected end of JSON input"},
		{"malformed: trailing comma", acquire("{\n  \"ownerId\": \"ü\",}"), nil, 400, "INVALID_ARGUMENT",
			`body: is no JSON: line 2, column 18: invalid character '}' looking for beginning of object key string`},
		{"malformed: no JSON", acquire(`ownerId=a`), nil, 400, "INVALID_ARGUMENT",
			`body: is no JSON: line 1, column 1: invalid character 'o' looking for beginning of value`},
		{"malformed: two values", acquire(`{} {}`), nil, 400, "INVALID_ARGUMENT",
			`body: is no JSON: line 1, column 4: invalid character '{' after top-level value`},
		{"malformed: white space", acquire(` `), nil, 400, "INVALID_ARGUMENT",
			`body: is no JSON: line 1, column 2: unexpected end of JSON input`},
		{"malformed: too deep", acquire(`{"x":` + strings.Repeat("[", 40) + strings.Repeat("]", 40) + `}`), nil, 400,
			"INVALID_ARGUMENT", `body: exceeded max recursion depth`},
		{"type: an array for the message", acquire(`[]`), nil, 400, "INVALID_ARGUMENT",
			`body: must be an object, not an array`},
		{"type: null for the message", acquire(`null`), nil, 400, "INVALID_ARGUMENT",
			`body: must be an object, not null`},
		{"type: a number for a string", acquire(`{"ownerId":5}`), nil, 400, "INVALID_ARGUMENT",
			`ownerId: must be a string, not 5`},
		{"type: an object for a string", acquire(`{"owner_id":{"a":1}}`), nil, 400, "INVALID_ARGUMENT",
			`owner_id: must be a string, not an object`},
		{"type: a number for a list", acquire(`{"requests":5}`), nil, 400, "INVALID_ARGUMENT",
			`requests: must be an array, not 5`},
		{"type: a number for a message", acquire(`{"requests":[{},5]}`), nil, 400, "INVALID_ARGUMENT",
			`requests[1]: must be an object, not 5`},
		{"type: null in a list", acquire(`{"requests":[null]}`), nil, 400, "INVALID_ARGUMENT",
			`requests[0]: must be an object, not null`},
		{"type: a string for a bool", acquire(`{"noQueue":"true"}`), nil, 400, "INVALID_ARGUMENT",
			`noQueue: must be true or false, not "true"`},
		{"type: in a map", acquire(`{"metadata":{"labels":{"team":7}}}`), nil, 400, "INVALID_ARGUMENT",
			`metadata.labels.team: must be a string, not 7`},
		{"type: a list for a map", acquire(`{"metadata":{"labels":[]}}`), nil, 400, "INVALID_ARGUMENT",
			`metadata.labels: must be an object, not an array`},
		{"type: an object in a list of strings", [3]string{"POST", "/v1/assertFencing", `{"paths":["a:/b",{}]}`}, nil,
			400, "INVALID_ARGUMENT", `paths[1]: must be a string, not an object`},
		{"type: no base64", [3]string{"POST", "/v1/dumpLocks", `{"cursor":"!!"}`}, nil, 400, "INVALID_ARGUMENT",
			`cursor: must be a string in base64, not "!!"`},
		{"type: behind characters of several bytes", acquire(`{"x":"üüü","ttlMs":"soon"}`), nil, 400,
			"INVALID_ARGUMENT", `ttlMs: must be a whole number from 0 to 18446744073709551615, not "soon"`},
		{"enum: unknown name", acquire(`{"requests":[{"path":"a:/b","mode":"READ"}]}`), nil, 400, "INVALID_ARGUMENT",
			`requests[0].mode: must be one of MODE_WRITE, MODE_READ, or its number, not "READ"`},
		{"enum: unknown name beside an unknown field",
			acquire(`{"x":{"mode":"READ"},"requests":[{"y":[{}],"mode":"MODE_READ"},{"mode":"read"}]}`), nil, 400,
			"INVALID_ARGUMENT", `requests[1].mode: must be one of MODE_WRITE, MODE_READ, or its number, not "read"`},
		{"enum: a fraction", acquire(`{"requests":[{"mode":0.5}]}`), nil, 400, "INVALID_ARGUMENT",
			`requests[0].mode: must be one of MODE_WRITE, MODE_READ, or its number, not 0.5`},
		{"enum: unknown number", acquire(`{"ownerId":"a","ttlMs":1,"requests":[{"path":"a:/b","mode":7}]}`), nil, 400,
			"INVALID_ARGUMENT", `requests: mode 7: is no known value (0 to 1)`},
		{"range: negative", acquire(`{"ttlMs":-1}`), nil, 400, "INVALID_ARGUMENT",
			`ttlMs: must be a whole number from 0 to 18446744073709551615, not -1`},
		{"range: over 64 bits", acquire(`{"fencingToken":"9223372036854775808"}`), nil, 400, "INVALID_ARGUMENT",
			`fencingToken: must be a whole number from -9223372036854775808 to 9223372036854775807, not "9223372036854775808"`},
		{"range: over 32 bits", acquire(`{"requests":[{"permits":4294967296}]}`), nil, 400, "INVALID_ARGUMENT",
			`requests[0].permits: must be a whole number from 0 to 4294967295, not 4294967296`},
		{"range: a fraction", acquire(`{"ttlMs":1.5}`), nil, 400, "INVALID_ARGUMENT",
			`ttlMs: must be a whole number from 0 to 18446744073709551615, not 1.5`},
		{"given twice", acquire(`{"ownerId":"a","owner_id":"b"}`), nil, 400, "INVALID_ARGUMENT",
			`body: duplicate field "owner_id" at line 1, column 16`},
		{"UTF-8: in a field", acquire("{\"requests\":[{\"path\":\"a:/\xff\"}]}"), nil, 400, "INVALID_ARGUMENT",
			`requests[0].path: is not UTF-8`},
		{"UTF-8: outside", acquire("{\xff}"), nil, 400, "INVALID_ARGUMENT", `body: is not UTF-8 at line 1, column 2`},
		{"UTF-8: half a surrogate pair", acquire(`{"ownerId":"\ud83d"}`), nil, 400, "INVALID_ARGUMENT",
			`ownerId: has half of a surrogate pair, which is no character`},
		{"rules: of the service", acquire(`{}`), nil, 400, "INVALID_ARGUMENT",
			`owner_id: must not be empty (1 to 1024 bytes)`},
		{"route: none", [3]string{"GET", "/v2/acquire", ""}, nil, 404, "NOT_FOUND",
			`GET /v2/acquire: is no route of this server; GET /v1/openapi.json lists them`},
		{"route: the RPC's own name", [3]string{"POST", "/v1/Acquire", "{}"}, nil, 404, "NOT_FOUND",
			`POST /v1/Acquire: is no route of this server; GET /v1/openapi.json lists them`},
		{"route: a slash too many", [3]string{"POST", "/v1/acquire/", "{}"}, nil, 404, "NOT_FOUND",
			`POST /v1/acquire/: is no route of this server; GET /v1/openapi.json lists them`},
		{"route: not a path that is cleaned", [3]string{"POST", "/v1//acquire", "{}"}, nil, 404, "NOT_FOUND",
			`POST /v1//acquire: is no route of this server; GET /v1/openapi.json lists them`},
		{"route: of a stream", [3]string{"POST", "/v1/subscribe", "{}"}, nil, 404, "NOT_FOUND",
			`/v1/subscribe: is not served over HTTP: it is for gRPC; GET /v1/events/sse streams events`},
		{"method: GET", [3]string{"GET", "/v1/acquire", ""}, nil, 405, "UNIMPLEMENTED",
			`GET /v1/acquire: is not offered; use POST`},
		{"method: DELETE with a body", [3]string{"DELETE", "/v1/health", "{}"}, nil, 405, "UNIMPLEMENTED",
			`DELETE /v1/health: is not offered; use GET, HEAD, POST`},
		{"method: POST to a stream of events", [3]string{"POST", "/v1/events/sse", "{}"}, nil, 405, "UNIMPLEMENTED",
			`POST /v1/events/sse: is not offered; use GET`},
		{"method: OPTIONS", [3]string{"OPTIONS", "/v1/acquire", ""}, nil, 405, "UNIMPLEMENTED",
			`OPTIONS /v1/acquire: is not offered; use POST`},
		{"content type: a form", acquire(`a=b`), []string{"Content-Type", "application/x-www-form-urlencoded"}, 415,
			"INVALID_ARGUMENT", `Content-Type "application/x-www-form-urlencoded": must be application/json, in UTF-8`},
		{"content type: another charset", acquire(`{}`), []string{"Content-Type", "application/json; charset=latin1"},
			415, "INVALID_ARGUMENT", `Content-Type "application/json; charset=latin1": must be application/json, in UTF-8`},
		{"content type: nonsense", acquire(`{}`), []string{"Content-Type", ";"}, 415, "INVALID_ARGUMENT",
			`Content-Type ";": must be application/json, in UTF-8`},
		{"field: misspelt", acquire(`{"ownerId":"a","ttlMs":1,"requests":[{"path":"a:/b","moed":"MODE_READ"}]}`), nil,
			400, "INVALID_ARGUMENT", `requests[0].moed: is no field of LockRequest: did you mean mode?`},
		{"field: misspelt as the .proto has it", acquire(`{"owner":"a","queue_ttl":1}`), nil, 400, "INVALID_ARGUMENT",
			`owner: is no field of AcquireRequest: did you mean ownerId?`},
		{"field: null, deep, in a map's place",
			acquire(`{"ownerId":"a","ttlMs":1,"metadata":{"labels":{"any":"b"},"zzzzzzzzz":null}}`), nil, 400,
			"INVALID_ARGUMENT", `metadata.zzzzzzzzz: is no field of Metadata: it has host, pid, startUnixMs, bootId, command, labels`},
		{"field: of a small request", [3]string{"POST", "/v1/incrFencingToken", `{"owner":"a"}`}, nil, 400,
			"INVALID_ARGUMENT", `owner: is no field of IncrFencingTokenRequest: it has idempotencyKey`},
		{"field: with a long name", acquire(`{"` + strings.Repeat("n", 1<<20) + `":1}`), nil, 400, "INVALID_ARGUMENT",
			strings.Repeat("n", 128) + `…: is no field of AcquireRequest: it has ownerId, ttlMs, requests, fencingToken, releaseRequests, idempotencyKey, queueTtlMs, metadata, noQueue`},
		{"field: of a request without any", [3]string{"POST", "/v1/health", `{"a":1}`}, nil, 400, "INVALID_ARGUMENT",
			`a: is no field of HealthRequest: it has none`},
		{"profile: unknown", acquire(`{}`), []string{"Accept", "application/json; profile=fancy"}, 400,
			"INVALID_ARGUMENT", `Accept: profile "fancy": must be proto3 or plain`},
		{"too large", acquire(`{"ownerId":"` + strings.Repeat("a", MaxBodyBytes) + `"}`), nil, 429,
			"RESOURCE_EXHAUSTED", `body: is over 4194304 bytes, which is the most that is taken`},
	} {
		t.Run(c.name, func(t *testing.T) {
			eachVersion(t, func(t *testing.T, http *http.Client) {
				got := f.send(t, http, c.request[0], c.request[1], c.request[2], c.headers...)
				want := `{"error":{"code":"` + c.code + `","message":` + string(appendString(nil, c.message)) + `}}`
				if got.StatusCode != c.status || got.body != want {
					t.Errorf("got %d %s\nwant %d %s", got.StatusCode, got.body, c.status, want)
				}
				if got.Header.Get("Content-Type") != "application/json" {
					t.Errorf("content type %q", got.Header.Get("Content-Type"))
				}
				if allow := got.Header.Get("Allow"); (allow != "") != (c.status == 405) {
					t.Errorf("Allow is %q", allow)
				}
			})
		})
	}
}

// TestGoodInput sends what must be taken, however unlikely it looks.
func TestGoodInput(t *testing.T) {
	f := serve(t, nil)
	c := client(t, true)
	for _, body := range []string{
		`{"ownerId":"good","ttlMs":3e4,"requests":[]}`,
		`{"ownerId":"good","ttlMs":"30000","requests":null,"metadata":null,"fencingToken":"0"}`,
		`{"owner_id":"good","ttl_ms":30000.0,"queueTtlMs":0,"metadata":{"pid":"1","labels":{"a":"b"}}}`,
		"\n\t{ \"ownerId\" : \"\\u0067ood\" , \"ttlMs\" : 1 }\r\n",
	} {
		for _, content := range []string{"application/json", "Application/JSON; charset=UTF-8", ""} {
			if got := f.post(t, c, "acquire", body, "Content-Type", content); got.StatusCode != 200 {
				t.Errorf("%s as %q: %d %s", body, content, got.StatusCode, got.body)
			}
		}
	}
	old := serve(t, func(o *Options, _ *limits) { o.IgnoreUnknown = true })
	for body, code := range map[string]int{
		`{"ownerId":"good","ttlMs":1,"unknown":{"deep":[{"er":null}]},"metadata":{"pid":"1","later":1}}`: 200,
		// no field, but a value
		`{"ownerId":"good","ttlMs":1,"unknown":1,"requests":[{"path":"a:/b","mode":"READ"}]}`: 400,
	} {
		if got := old.post(t, c, "acquire", body); got.StatusCode != code {
			t.Errorf("web_unknown_fields = ignore: %s: %d %s, want %d", body, got.StatusCode, got.body, code)
		}
	}
	if got := f.post(t, c, "incrFencingToken", ""); got.StatusCode != 200 ||
		!strings.HasPrefix(got.body, `{"token":"`) {
		t.Errorf("no body: %d %s", got.StatusCode, got.body)
	}
	for accept, quoted := range map[string]bool{
		"application/json;profile=plain": false, `text/html, application/json; profile="plain";q=0.9`: false,
		"application/json; profile=proto3": true,
		"application/json":                 true, "*/*": true, "text/html": true, "": true,
		"application/json; profile=": true,
	} {
		if got := f.post(t, c, "incrFencingToken", "", "Accept", accept); strings.Contains(got.body, `:"`) != quoted {
			t.Errorf("Accept %q: %s", accept, got.body)
		}
	}
	flat := serve(t, func(o *Options, _ *limits) { o.Plain = true })
	for accept, quoted := range map[string]bool{"application/json; profile=plain": false,
		"application/json; profile=proto3": true, "": false} {
		if got := flat.post(t, c, "incrFencingToken", "", "Accept", accept); strings.Contains(got.body,
			`:"`) != quoted {
			t.Errorf("web_json = plain, Accept %q: %s", accept, got.body)
		}
	}
}

// FuzzDecode looks for bodies that make the search for what is wrong fail.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{`{}`, `{"requests":[{"path":"a:/b","mode":"X"}]}`, "{\"a\":\"\xff\"}",
		`{"ownerId":"\ud800"}`, `[[`, `{"metadata":{"labels":{"a":1}}}`, `{"x":[{"y":1}],"ttlMs":"a"}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		if err := decode(body, new(pb.AcquireRequest), false); err != nil {
			e, is := err.(*refusal) //nolint:errorlint // never wrapped
			if !is || e.why == "" || strings.Contains(e.why, "\u00a0") || strings.HasPrefix(e.why, "proto") {
				t.Fatalf("%q: %v", body, err)
			}
		}
	})
}
