package web

import (
	"strings"
	"testing"
)

// TestAdv8UnknownFieldsAreRefused: a field that a request does not have is skipped, so that what it was to say is not said:
// "domain" for "domains" has releaseAll give back what its owner holds everywhere, and "moed" for "mode" takes a write for a read.
// contract.md section 13: "Fields that a request does not have are refused (400, with the nearest name) unless web_unknown_fields = "ignore""
// (a key that the daemon does not know either).
func TestAdv8UnknownFieldsAreRefused(t *testing.T) {
	f := serve(t, nil)
	c := client(t, true)
	const owner = "adv8-unknown"
	if got := f.post(t, c, "acquire", `{"ownerId":"`+owner+`","ttlMs":60000,"requests":[{"path":"adv8unknown:/kept/x"}]}`); got.StatusCode != 200 {
		t.Fatalf("%d %s", got.StatusCode, got.body)
	}
	for _, one := range []struct{ rpc, body, near string }{
		{"releaseAll", `{"ownerId":"` + owner + `","domain":["adv8unknown:/other"]}`, "domains"},
		{"acquire", `{"ownerId":"` + owner + `","ttlMs":60000,"requests":[{"path":"adv8unknown:/kept/y","moed":"MODE_READ"}]}`, "mode"},
	} {
		got := f.post(t, c, one.rpc, one.body)
		if got.StatusCode != 400 || !strings.Contains(got.body, one.near) {
			t.Errorf("%s %s: %d %s, want 400 that names %s", one.rpc, one.body, got.StatusCode, got.body, one.near)
		}
	}
	if got := f.post(t, c, "inspectPath", `{"path":"adv8unknown:/kept/x"}`); !strings.Contains(got.body, owner) {
		t.Errorf("a release of all in another namespace took the lock: %s", got.body)
	}
	if got := f.post(t, c, "inspectPath", `{"path":"adv8unknown:/kept/y"}`); strings.Contains(got.body, owner) {
		t.Errorf("a read was taken for a write: %s", got.body)
	}
}
