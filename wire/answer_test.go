package wire

import "testing"

// TestAnswerOf: one namespace is of one log; a handler, several namespaces, and all of them, are not.
func TestAnswerOf(t *testing.T) {
	for _, of := range []struct {
		domains []string
		want    Answer
	}{
		{[]string{"h:/n"}, ListedAnswer}, {[]string{"h:/n/m"}, ListedAnswer}, {[]string{"h:/"}, ListedAnswer},
		{[]string{"h"}, LongAnswer}, {[]string{"h:/n", "h:/m"}, LongAnswer}, {nil, LongAnswer},
	} {
		req := &Request{Op: OpListLocks, Owner: "o", Domains: of.domains}
		if err := req.Validate(); err != nil {
			t.Errorf("%q: %v", of.domains, err)
		}
		if got := AnswerOf(req); got != of.want {
			t.Errorf("%q: %v, want %v", of.domains, got, of.want)
		}
	}
	for op, want := range map[Op]Answer{
		OpDumpLocks: LongAnswer, OpScanLocks: LongAnswer, OpDescribe: LongAnswer, OpBackupRead: LongAnswer,
		OpRenew: ShortAnswer, OpInspectPath: ShortAnswer, OpAcquire: ShortAnswer,
	} {
		if got := AnswerOf(&Request{Op: op, Domains: []string{"h:/n"}}); got != want {
			t.Errorf("%v: %v, want %v", op, got, want)
		}
	}
}
