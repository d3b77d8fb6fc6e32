package wire

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// document is PROTOCOL.md as a program reads it: what a client's author would type
// from its tables.
type document struct {
	text     string
	ops      []pageOp
	types    map[string]map[string]string // type of a field, by its name and operation ("" for all)
	elements map[string][]pageField
	pushes   []pagePush
	enums    map[string][]string // names by number, "" where there is none
	flags    map[uint64]string
	codes    map[uint64]string
}

type pageOp struct {
	number  uint64
	name    string
	args    []string
	left    []bool // the argument may be left out
	results []string
}

type pageField struct{ name, typ string }

type pagePush struct {
	number uint64
	name   string
	fields []pageField
}

func (p *document) op(name string) *pageOp {
	for i := range p.ops {
		if p.ops[i].name == name {
			return &p.ops[i]
		}
	}
	return nil
}

// typeOf is the type of a field of an operation.
func (p *document) typeOf(op, field string) string {
	if t := p.types[field][op]; t != "" {
		return t
	}
	return p.types[field][""]
}

// readPage reads PROTOCOL.md.
func readPage(t testing.TB) *document {
	t.Helper()
	b, err := os.ReadFile("PROTOCOL.md")
	if err != nil {
		t.Fatal(err)
	}
	p := &document{
		text: string(b), types: map[string]map[string]string{}, elements: map[string][]pageField{},
		enums: map[string][]string{}, flags: map[uint64]string{}, codes: map[uint64]string{},
	}
	for _, row := range p.table(t, "| op | name | arguments | results |") {
		op := pageOp{number: number(t, row[0]), name: row[1], results: items(row[3])}
		for _, arg := range items(row[2]) {
			op.args = append(op.args, strings.TrimSuffix(arg, "?"))
			op.left = append(op.left, strings.HasSuffix(arg, "?"))
		}
		p.ops = append(p.ops, op)
	}
	for _, row := range p.table(t, "| field | of | type | rule, or meaning |") {
		names, types := items(row[0]), items(row[2])
		for i, name := range names {
			if p.types[name] == nil {
				p.types[name] = map[string]string{}
			}
			of := items(row[1])
			if len(of) == 0 {
				of = []string{""}
			}
			for _, op := range of {
				if p.types[name][op] != "" {
					t.Errorf("field %s of %q has two types", name, op)
				}
				p.types[name][op] = types[min(i, len(types)-1)]
			}
		}
	}
	for _, row := range p.table(t, "| element | fields |") {
		p.elements[row[0]] = pageFields(t, row[1])
	}
	for _, row := range p.table(t, "| kind | name | fields after the kind |") {
		p.pushes = append(p.pushes, pagePush{number(t, row[0]), row[1], pageFields(t, row[2])})
	}
	for _, row := range p.table(t, "| enum | values |") {
		var names []string
		for _, value := range items(row[1]) {
			n, name, _ := strings.Cut(value, " ")
			for uint64(len(names)) < number(t, n) {
				names = append(names, "")
			}
			names = append(names, name)
		}
		p.enums[row[0]] = names
	}
	for _, row := range p.table(t, "| flag | name | effect |") {
		p.flags[number(t, row[0])] = row[1]
	}
	for _, row := range p.table(t, "| code | name | says |") {
		p.codes[number(t, row[0])] = row[1]
	}
	return p
}

// table answers the cells of the table under a heading line.
func (p *document) table(t testing.TB, head string) (rows [][]string) {
	t.Helper()
	_, rest, ok := strings.Cut(p.text, head+"\n")
	if !ok {
		t.Fatalf("PROTOCOL.md has no table %q", head)
	}
	for i, line := range strings.Split(rest, "\n") {
		if !strings.HasPrefix(line, "|") {
			break
		}
		if i == 0 {
			continue // the rule under the heading
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		for c := range cells {
			cells[c] = strings.TrimSpace(cells[c])
		}
		if want := strings.Count(head, "|") - 1; len(cells) != want {
			t.Fatalf("PROTOCOL.md: row %q has %d cells, want %d", line, len(cells), want)
		}
		rows = append(rows, cells)
	}
	return rows
}

// items splits a cell at its commas.
func items(cell string) (out []string) {
	for _, item := range strings.Split(cell, ",") {
		if item = strings.TrimSpace(item); item != "" {
			out = append(out, item)
		}
	}
	return out
}

// pageFields reads "name type, name type".
func pageFields(t testing.TB, cell string) (out []pageField) {
	t.Helper()
	for _, item := range items(cell) {
		name, typ, ok := strings.Cut(item, " ")
		if !ok {
			t.Fatalf("PROTOCOL.md: field %q has no type", item)
		}
		out = append(out, pageField{name, typ})
	}
	return out
}

func number(t testing.TB, s string) uint64 {
	t.Helper()
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		t.Fatalf("PROTOCOL.md: %v", err)
	}
	return n
}

// slotTypes is how each slot travels, in the page's words.
var slotTypes = map[slot]string{
	sOwner: "str", sBlocker: "str", sPath: "str", sNamespace: "str", sKey: "str", sText: "str",
	sNode: "str", sDrain: "uint", sExplicit: "bool",
	sTTL: "uint", sQueueTTL: "uint", sGrace: "uint", sFlags: "uint", sReason: "uint", sAlgorithm: "uint",
	sDepth: "uint", sPage: "uint", sTarget: "uint", sAttempt: "uint", sKinds: "uint", sStatus: "uint", sCycle: "uint",
	sPosition: "uint", sCount: "uint", sCount2: "uint", sCount3: "uint",
	sToken: "token", sCurrent: "token",
	sDelWait: "bool", sWatch: "bool", sFlag: "bool", sDone: "bool",
	sCursor: "bin", sMeta: "metadata", sHello: "hello", sWelcome: "welcome", sTopology: "topology", sBackup: "backup",
	sRows:    "bin",
	sDomains: "[str]", sPaths: "[str]", sNames: "[str]", sNames2: "[str]", sPositions: "[position]",
	sLocks: "[lock_request]", sReleases: "[release_request]",
	sInfos: "[lock]", sCovering: "[lock]", sWaiters: "[waiter]",
}

// TestProtocolOperations holds the page's table of operations against specs, so
// that neither can change without the other.
func TestProtocolOperations(t *testing.T) {
	p := readPage(t)
	if len(p.ops) != len(Ops()) {
		t.Errorf("the page has %d operations, the codec %d", len(p.ops), len(Ops()))
	}
	for _, op := range p.ops {
		spec, ok := Op(op.number).Spec()
		if !ok || spec.Kind == KindInternal {
			t.Errorf("the page has operation %d %s, the codec has not", op.number, op.name)
			continue
		}
		if spec.Name != op.name {
			t.Errorf("operation %d is %s on the page, %s in the codec", op.number, op.name, spec.Name)
		}
		for _, side := range []struct {
			what string
			page []string
			code []Field
		}{{"arguments", op.args, spec.Args}, {"results", op.results, spec.Results}} {
			var names []string
			for _, f := range side.code {
				names = append(names, f.Name)
				if got, want := p.typeOf(op.name, f.Name), slotTypes[f.slot]; got != want {
					t.Errorf("%s of %s: %s on the page, %s in the codec", f.Name, op.name, got, want)
				}
			}
			if !slices.Equal(side.page, names) {
				t.Errorf("%s of %s:\n page  %v\n codec %v", side.what, op.name, side.page, names)
			}
		}
	}
}

// TestProtocolFields looks for rows that describe nothing, and for types that are
// explained nowhere.
func TestProtocolFields(t *testing.T) {
	p := readPage(t)
	for field, of := range p.types {
		for op, typ := range of {
			p.explained(t, field, typ)
			used := false
			for _, o := range p.ops {
				used = used || (op == "" || op == o.name) && (slices.Contains(o.args, field) ||
					slices.Contains(o.results, field))
			}
			if !used {
				t.Errorf("no operation has a field %s (of %q)", field, op)
			}
		}
	}
	for name, fields := range p.elements {
		for _, f := range fields {
			p.explained(t, name+"."+f.name, f.typ)
		}
	}
	for _, push := range p.pushes {
		for _, f := range push.fields {
			p.explained(t, push.name+"."+f.name, f.typ)
		}
	}
}

func (p *document) explained(t *testing.T, what, typ string) {
	t.Helper()
	inner := strings.TrimSuffix(strings.TrimPrefix(typ, "["), "]")
	if p.elements[inner] != nil || slices.Contains([]string{"uint", "int", "uint64", "token", "bool", "str", "bin",
		"{str: str}"}, inner) {
		return
	}
	t.Errorf("%s: type %s is explained nowhere", what, typ)
}

// TestProtocolEnums holds the page's enums, flags, codes and kinds of push against
// the constants.
func TestProtocolEnums(t *testing.T) {
	p := readPage(t)
	enums := map[string][]string{
		"mode": lower(modeNames[:]), "state": lower(stateNames[:]), "algorithm": algorithmNames[:],
		"status of acquire": statusNames[:], "status of renew, bind": {StatusOK: "OK", RenewLost: "LOST"},
		"status of assert_fencing": {StatusOK: "OK", AssertFail: "FAIL"},
		"reason":                   reasonNames[:], "kind of cycle": cycleNames[:],
		"kind of event":      append([]string{""}, eventNames[1:]...),
		"mode of node_drain": {DrainLeads: "leads", DrainReplicas: "replicas"},
	}
	for name, want := range enums {
		if !slices.Equal(p.enums[name], want) {
			t.Errorf("enum %s:\n page  %v\n codec %v", name, p.enums[name], want)
		}
		delete(p.enums, name)
	}
	for name := range p.enums {
		t.Errorf("the page has an enum %s, the codec has not", name)
	}
	for i, row := range p.table(t, "| algorithm | a write covers | reads | tokens |") {
		a, ok := ParseAlgorithm(row[0])
		if !ok || int(a) != i {
			t.Errorf("row %d of the algorithms is %s", i, row[0])
		}
		if strings.Contains(row[1], "below") != a.Recursive() || (row[2] == "refused") == a.AllowsReads() ||
			(row[3] == "no") != (a == Semaphore) {
			t.Errorf("%v: the page says %q", a, row)
		}
	}
	flags := map[uint64]string{
		uint64(FlagWait): "wait", uint64(FlagNoQueue): "no_queue", uint64(FlagBulk): "bulk", uint64(FlagBind): "bind",
		uint64(FlagExtend): "extend",
	}
	if got, want := text(p.flags), text(flags); got != want {
		t.Errorf("flags: page %s, codec %s", got, want)
	}
	for code, name := range p.codes {
		if Code(code).String() != name {
			t.Errorf("code %d is %s on the page, %v in the codec", code, name, Code(code))
		}
	}
	if len(p.pushes) != len(pushNames) {
		t.Errorf("the page has %d kinds of push, the codec %d", len(p.pushes), len(pushNames))
	}
	for _, push := range p.pushes {
		if got := pushNames[PushKind(push.number)]; got != push.name {
			t.Errorf("push %d is %s on the page, %s in the codec", push.number, push.name, got)
		}
	}
}

func lower(names []string) (out []string) {
	for _, n := range names {
		out = append(out, strings.ToLower(n))
	}
	return out
}

// TestProtocolLimits looks for each limit in the sentence or row that tells it.
func TestProtocolLimits(t *testing.T) {
	p := readPage(t)
	for _, l := range []struct {
		value uint64
		where string // a regular expression, %s is the number
	}{
		{MaxFrameBytes, `length of the payload in bytes, big endian, from 1 to %s \|`},
		{MaxTTLMillis, `\| ttl_ms \|.*1 to %s `},
		{MaxTTLMillis, `\| queue_ttl_ms \|.*0 to %s;`},
		{DefaultQueueTTLMillis, `\| queue_ttl_ms \|.*0 is %s \|`},
		{MaxGraceMillis, `\| grace_ms \| \|.*0 to %s \|`},
		{MaxGraceMillis, `\| grace_ms \| of leases.*at most %s \|`},
		{MaxOwnerBytes, `conflict_owner \|.*1 to %s bytes`},
		{MaxOwnerBytes, `\| client \|.*at most %s bytes`},
		{MaxKeyBytes, `\| idempotency_key \|.*at most %s bytes`},
		{MaxPathBytes, `A \*\*path\*\* is .*1 to %s bytes`},
		{MaxPathSegments, `at most %s segments`},
		{MaxHandlerBytes, `\| namespace \|.*at most %s bytes`},
		{MaxDomains, `\| domains \|.*at most %s namespaces`},
		{MaxPaths, `\| paths \|.*at most %s paths`},
		{MaxPaths, `\| requests \| acquire \|.*at most %s paths`},
		{MaxPaths, `\| requests \| release \|.*at most %s \|`},
		{MaxBulkPaths, `\| requests \| acquire \|.*flag 4: %s\)`},
		{MaxBulkPaths, `\| 4 \| bulk \|.*up to %s paths`},
		{MaxMetadataBytes, `\| metadata \| \|.*at most %s bytes`},
		{MaxDumpPage, `\| owner_page \|.*above %s counts as %[1]s`},
		{DefaultDumpPage, `\| owner_page \|.*0 is %s,`},
		{MaxListings, `has %s listings`},
		{MaxGathered, `or %s other`},
		{MaxGathered, `Of a connection's listings %s are answered at`},
		{MaxDescribePage, `\| max_waiters \|.*above %s counts as %[1]s`},
		{DefaultDumpPage, `\| max_waiters \|.*0 is %s,`},
		{MaxCycleDepth, `\| max_depth \|.*above %s counts as %[1]s`},
		{MaxCursorBytes, `\| cursor, next_cursor \|.*At most %s bytes`},
		{MaxTopologyRoots, "is empty when there are more than %s"},
		{FeatureRedirect, `\| %s \| redirect \|`},
		{FeatureLeases, `\| %s \| leases \|`},
		{MaxLeaseAcquires, `held; at most %s of them are told`},
		{MaxPositions, `\| cursor \| subscribe \|.*at most %s positions`},
		{DefaultEvents, `\| kinds \|.*0 is %s:`},
		{MaxNodeBytes, `\| node \|.*1 to %s letters`},
		{FreeToken, `\| fencing_token \|.*acquire: at most %s `},
		{MaxBackupPage, `\| rows \|.*at most %s bytes`},
		{SystemLog, `\| log \|.*the system log is %s`},
		{SessionBytes, `\| session \| %s bytes`},
		{maxDepth, `nested at most %s deep`},
	} {
		re := fmt.Sprintf(l.where, spaced(l.value))
		if !regexp.MustCompile(re).MatchString(p.text) {
			t.Errorf("the page does not say %q", re)
		}
	}
	if MaxToken != 1<<62-1 || MaxRequestID != 1<<53-1 {
		t.Error("the page says that tokens are below 2^62, and ids from 1 to 2^53−1")
	}
}

// spaced writes a number as the page does: thousands apart from 10 000 on.
func spaced(v uint64) string {
	s := strconv.FormatUint(v, 10)
	if v < 10_000 {
		return s
	}
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + " " + s[i:]
	}
	return s
}
