package groups

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/groups/codec"
	"github.com/pathlockd/pathlockd/groups/replica"
	"github.com/pathlockd/pathlockd/groups/rows"
	"github.com/pathlockd/pathlockd/wire"
)

// How applying an entry is kept from depending on the node: each setting and each number of
// a build is one of these.
const (
	atBirth  = "fixed when the cluster is founded"
	inLog    = "travels in the log"
	inFormat = "part of a format, which nodes compare before they talk"
	elsewher = "nothing that is applied reads it"
)

// settings is each field of Config.
var settings = map[string]string{
	"GroupCount": atBirth, "LogCount": atBirth, "Segments": atBirth, "Algorithm": atBirth, "ReplicationFactor": atBirth,
	"NodeID": atBirth, // of the node

	"MaxQueued": inLog,

	"DataDir": elsewher, "RaftAddr": elsewher, "NativeAddr": elsewher, "Bootstrap": elsewher, "Token": elsewher,
	"LinkTLS": elsewher, "Seeds": elsewher, "ForceBootstrap": elsewher, "GossipAddr": elsewher,
	"GossipAdvertise": elsewher, "LinkAddr": elsewher, "Given": elsewher, "StabilityWindow": elsewher,
	"EvictionWindow": elsewher, "AuditEvery": elsewher, "LeaderBalance": elsewher, "MaxReconciles": elsewher,
	"OneHost": elsewher, "MaxInflight": elsewher, "EventBuffer": elsewher, "RequestTimeout": elsewher,
	"ElectionMin": elsewher, "Heartbeat": elsewher, "SnapshotLog": elsewher, "KeepEntries": elsewher,
	"DiskReserve": elsewher, "Free": elsewher, "Log": elsewher, "Clock": elsewher, "RaftFS": elsewher,
	"FS": elsewher, "stated": elsewher, "Faults": elsewher, "Fatal": elsewher, "seams": elsewher,
	"folding": elsewher, // what folds stands in the log

	"NoEngine": elsewher, // of benchmarks alone: then nothing is applied
}

// numbers is each constant of the packages and files that apply entries.
var numbers = map[string]string{
	// engine
	"DefaultMaxQueued": inLog, "DefaultMaxKept": inLog, "DefaultMaxEdges": inLog, "DefaultReapBudget": inLog,
	"KeptMillis": inLog, "RevokeMillis": inLog, "maxFloors": inLog, "maxFolds": inLog, "overtakeLook": inLog,
	"departAtOnce": inLog, "MaxRoots": inLog,
	"MaxIntents": inLog, "MaxSysKept": inLog, "MaxMarks": inLog, "wire.DefaultQueueTTLMillis": inLog,

	"ClaimBegins": inFormat, "ClaimDone": inFormat, "ClaimDrops": inFormat, "ClaimGoesOn": inFormat,
	"turnMillis":    inFormat,
	"ClaimYields":   inFormat,
	"maxTurnMillis": inFormat,
	"minuteMillis":  inFormat,                                // of a fence's row
	"pathCost":      inFormat, "wire.MaxPathBytes": inFormat, // what waiters are counted by, from the beginning on
	"maxTies": inFormat, // connections that a lease hangs on, from the beginning on
	// ends of a session's connections that are kept apart, from the beginning on
	"maxDepartures": inFormat,
	"maxEarly":      inFormat,                       // leases that are ended before their turn
	"maxHolders":    inFormat,                       // holders that are looked at for that
	"maxRelied":     inFormat, "ofNobody": inFormat, // requests that a hold notes
	"maxJoined": inFormat, // requests with the key of a policy change
	"Moved":     inFormat, "Superseded": inFormat, "wire.SessionBytes": inFormat, "readSuffix": inFormat,
	"permSuffix": inFormat,
	"writeQueue": inFormat, "readQueue": inFormat, "nul": inFormat, "keyHead": inFormat, "slash": inFormat,
	"queueSuffix": inFormat, "tableHold": inFormat, "tableFence": inFormat, "tableShared": inFormat,
	"tableLease": inFormat, "tableWaiter": inFormat, "tablePolicy": inFormat, "tableEdge": inFormat,
	"tableKept": inFormat, "tableDeparture": inFormat, "tableMark": inFormat, "tableMeta": inFormat,
	"rowRoot":     inFormat,
	"rowIntent":   inFormat,
	"bucketSlots": inFormat, "timerKinds": inFormat, "rowKept": inFormat, "rowMark": inFormat, "rowMeta": inFormat,

	// How things are kept in memory, and the bugs of laboratory builds.
	"timeLease": elsewher, "timeWaiter": elsewher, "timeEdge": elsewher, "timeKept": elsewher,
	"smallBucket": elsewher, "PlantInOneStep": elsewher, "PlantBareRoot": elsewher, "PlantNoGap": elsewher,
	"StepApply": elsewher, "StepWaits": elsewher, "StepRepeat": elsewher, "StepExpire": elsewher,
	"spareTimers": elsewher, "slackTimes": elsewher, "noPlace": elsewher, "everything": elsewher,
	"classWrite": elsewher, "classRead": elsewher, "classGhost": elsewher, "classWait": elsewher,
	"Planted": elsewher, "plantedLag": elsewher, "PlantStaleRead": elsewher, "PlantTokenReuse": elsewher,
	"PlantRestoreReuse": elsewher, "PlantExpiredOwner": elsewher, "PlantLostWaiter": elsewher,
	"PlantClockStep": elsewher, "PlantSlowClock": elsewher, "PlantWalkBelow": elsewher,
	"PlantNodeLimits": elsewher, "PlantSessionRows": elsewher, "PlantLateAnswers": elsewher,
	"PlantGivenUpRoot": elsewher, "PlantOutOfLine": elsewher, "PlantFoldedAway": elsewher, "PlantHeldForGood": elsewher,
	"PlantUntied": elsewher, "PlantKeysStay": elsewher, "PlantFalseLost": elsewher, "PlantRevived": elsewher,
	"PlantLateBound": elsewher, "PlantEarlyBind": elsewher, "PlantAnyStride": elsewher, "PlantOwnQueue": elsewher,
	"PlantEndsUntimed": elsewher, "PlantAttachedAnew": elsewher, "PlantShortMemory": elsewher,
	"PlantForgotten": elsewher, "PlantPolledPlace": elsewher, "PlantLoosePermit": elsewher, "PlantAnyToken": elsewher,
	"carriedLook": elsewher, // of reads

	// groups
	"MaxStep": inLog, "RepeatMillis": elsewher, "rememberMillis": inLog, "MaxWindow": inLog, "maxSessions": inLog,
	"maxSteps": inLog,

	"Cut":         inFormat, // what stamps lack is the same as long as they are whole ms
	"Still":       inFormat,
	"SystemGroup": inFormat, "EveryGroup": inFormat, "hasSession": inFormat, "hasMeta": inFormat,
	"isBound": inFormat, "hasSub": inFormat, "hasSettled": inFormat, "isAgain": inFormat, "isTried": inFormat,
	"isInsisted": inFormat, "isAttached": inFormat, "GraceOfTie": inFormat,
	"WholeSub":   inFormat, // of a part's number, in entries and rows
	"sessionRow": inFormat, "unmarkedRow": inFormat, "MaxSessionMarks": inFormat, "markTook": inFormat,
	"markGave": inFormat,
	"markBack": inFormat, "ended": inFormat, "left": inFormat, "EntryLeaderEpoch": inFormat, "entryBatch": inFormat,
	"entryNext": inFormat, "spaceSystem": inFormat,
	"maxLimit": inFormat, // an entry that states more is malformed

	// When checkpoints are taken, what a batch takes, and what a node says.
	"checkpointCommands": elsewher, "evictSlice": elsewher, "MaxBatchCommands": elsewher,
	"maxBatchBytes": elsewher, "sessionsAtOnce": elsewher,
	// bounds what sessions are told, which is no part of the state
	"wire.MaxLeaseAcquires": elsewher, "toldKept": elsewher,
	"Attempted": inFormat, "TriedByNode": inFormat, "Insisted": inFormat, "HasPlace": inFormat,
	"maxFoldHandlers": elsewher,                           // what folds stands in the log
	"InstallBytes":    elsewher, "forgetAtOnce": elsewher, // who is not let go of yet counts as forgotten
}

// parsed calls f with the syntax of each file that applies entries.
func parsed(t *testing.T, f func(name string, file *ast.File)) {
	t.Helper()
	var files []string
	for _, room := range []string{"../engine", "replica"} {
		found, err := filepath.Glob(room + "/*.go")
		if err != nil || len(found) == 0 {
			t.Fatal(room, "is not there", err)
		}
		files = append(files, found...)
	}
	for _, name := range files {
		// of reads
		if strings.HasSuffix(name, "_test.go") || name == "replica/query.go" || name == "replica/paged_routes.go" {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		f(name, file)
	}
}

// TestNumbersThatDecide: every constant that applying an entry could read has a row above.
func TestNumbersThatDecide(t *testing.T) {
	seen := make(map[string]string) // the room that it is in: one name in two would share a row
	note := func(file, name string) {
		room := filepath.Dir(file)
		if was := seen[name]; was != "" && was != room && !strings.HasPrefix(name, "wire.") {
			t.Errorf("%s: the constant %s is in %s too: give it a name, and a row, of its own", file, name, was)
		}
		seen[name] = room
		if numbers[name] == "" {
			t.Errorf("%s: the constant %s has no row: say how replicas come to have the same", file, name)
		}
	}
	parsed(t, func(name string, file *ast.File) {
		for _, d := range file.Decls {
			if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.CONST {
				for _, s := range g.Specs {
					for _, n := range s.(*ast.ValueSpec).Names {
						if n.Name != "_" {
							note(name, n.Name)
						}
					}
				}
			}
		}
		ast.Inspect(file, func(n ast.Node) bool {
			s, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			x, ok := s.X.(*ast.Ident)
			if n := s.Sel.Name; ok && x.Name == "wire" &&
				(strings.HasPrefix(n, "Max") || strings.HasPrefix(n, "Default") ||
					strings.HasSuffix(n, "Bytes")) {
				note(name, "wire."+n)
			}
			return true
		})
	})
	for name := range numbers {
		if seen[name] == "" {
			t.Errorf("%s has a row and is no constant any more", name)
		}
	}
}

// made is each field of what a replica is made with.
var made = map[string]string{
	"Shard": atBirth, "Replica": elsewher, "Numbers": atBirth, "Algorithm": atBirth, "Segments": atBirth,
	"NodeLimits": elsewher, // it tells where those in the log differ from them
	"Folding":    elsewher, // what folds stands in the log
	"Store":      elsewher, "Clock": elsewher, "Logger": elsewher, "Host": elsewher, "Hub": elsewher, "Fail": elsewher,
	"NoEngine": elsewher, // of benchmarks alone: then nothing is applied
	"Observer": elsewher, // of tests
}

// ownOf is what a replica is made with and may differ between nodes, by the functions that may read it.
var ownOf = map[string][]string{
	"NodeLimits": {"tellDifference", "plantedLimits"}, // the latter for a bug that is planted
	"Folding":    {"newSweep", "SweepFences"},
	"NoEngine":   {"command"},
	"Replica":    {},
}

// TestSettingsThatDecide: every field of the configuration has a row above, and so has all that a replica is made with;
// of that nothing that may differ between nodes is read as entries are applied.
func TestSettingsThatDecide(t *testing.T) {
	fields := reflect.TypeFor[Config]()
	for i := range fields.NumField() {
		if name := fields.Field(i).Name; settings[name] == "" {
			t.Errorf("the setting %s has no row: say how replicas come to have the same", name)
		}
	}
	if n := fields.NumField(); len(settings) != n {
		t.Errorf("%d settings have a row, and there are %d", len(settings), n)
	}
	// A replica knows no other setting than those that it is made with.
	replicas := reflect.TypeFor[replica.Config]()
	for i := range replicas.NumField() {
		if name := replicas.Field(i).Name; made[name] == "" {
			t.Errorf("replica.Config.%s has no row: say how replicas come to have the same", name)
		}
	}
	if n := replicas.NumField(); len(made) != n {
		t.Errorf("%d of what a replica is made with have a row, and there are %d", len(made), n)
	}
	// What is this node's own nothing reads that applies an entry.
	for name := range ownOf {
		if made[name] == "" {
			t.Errorf("%s is nothing that a replica is made with", name)
		}
	}
	names, err := filepath.Glob("replica/*.go")
	if err != nil || len(names) < 20 {
		t.Fatal(len(names), err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			in := "no function"
			if f, ok := d.(*ast.FuncDecl); ok {
				in = f.Name.Name
			}
			ast.Inspect(d, func(n ast.Node) bool {
				if s, ok := n.(*ast.SelectorExpr); ok && ownOf[s.Sel.Name] != nil &&
					!slices.Contains(ownOf[s.Sel.Name], in) {
					t.Errorf("%s: %s reads %s, which is this node's own", name, in, s.Sel.Name)
				}
				return true
			})
		}
	}
	// What a state is made with is a setting of birth, or one of the limits.
	states := reflect.TypeFor[engine.Config]()
	for i := range states.NumField() {
		switch name := states.Field(i).Name; name {
		// Cut is the constant; // LogNow is the log's own clock
		case "Algorithm", "Segments", "Limits", "Cut", "LogNow":
		default:
			t.Errorf("engine.Config.%s: say how replicas come to have the same", name)
		}
	}
}

// TestBirthIsKept: a node does not start with another value of what was fixed at birth.
func TestBirthIsKept(t *testing.T) {
	change := map[string]func(*Config){
		"NodeID":            func(c *Config) { c.NodeID = "other-7" },
		"GroupCount":        func(c *Config) { c.GroupCount = 32 },
		"LogCount":          func(c *Config) { c.LogCount = 4 },
		"Segments":          func(c *Config) { c.Segments = 2 },
		"Algorithm":         func(c *Config) { c.Algorithm = wire.PointRW },
		"ReplicationFactor": func(c *Config) { c.ReplicationFactor = 5 },
	}
	r := newRig(t, nil)
	r.close()
	for name, where := range settings {
		if where != atBirth {
			continue
		}
		c := r.cfg
		if change[name] == nil {
			t.Errorf("%s is not tried", name)
			continue
		}
		change[name](&c)
		if n, err := Open(c); err == nil {
			n.Close(0)
			t.Errorf("a node starts with another %s than it was founded with", name)
		} else if !strings.Contains(err.Error(), "fixed at birth") {
			t.Errorf("%s: %v", name, err)
		}
	}
	r.open()
}

// TestLimitsTravel: each limit comes through an entry and a row as it was stated, and counts
// for what the replicas compare.
func TestLimitsTravel(t *testing.T) {
	fields := 0
	for _, s := range []reflect.Type{reflect.TypeFor[replica.Limits](), reflect.TypeFor[engine.Limits]()} {
		for i := range s.NumField() {
			if !s.Field(i).Anonymous {
				fields++
			}
		}
	}
	if fields != len(replica.LimitRows) {
		t.Fatalf("there are %d limits, of which %d travel", fields, len(replica.LimitRows))
	}
	r := newRig(t, func(c *Config) { c.GroupCount, c.LogCount = 1, 1 })
	m := r.node.logs[rows.FirstLog].local.Load()
	sums := make(map[uint64]string)
	own := m.Limits
	places := make(map[*int]bool)
	for i, row := range append(slices.Clone(replica.LimitRows), replica.LimitRows[0]) {
		l := own
		if i < len(replica.LimitRows) {
			*row.Of(&l) += 7
			places[row.Of(&own)] = true
		}
		o := replica.LeaderEpoch{Term: 9, Node: 8, Incarnation: 7}
		entry, kind, err := replica.OpenEntry(replica.AppendLeaderEpoch(nil, rows.NewestFormat, o, l))
		got, read, stated := replica.ReadLeaderEpochEntry(&entry)
		if err != nil || entry.Err != nil || kind != replica.EntryLeaderEpoch || got != o || read != l || !stated {
			t.Fatalf("%s: an entry that states %+v says %+v (%v, %v)", row.Name, l, read, err, entry.Err)
		}
		m.Lock()
		m.Adopt(read)
		kept := m.LogRow("")
		m.Unlock()
		s, err := rows.ParseState(kept)
		if err != nil {
			t.Fatal(err)
		}
		if again := (codec.Reader{Buf: []byte(s.Limits)}); replica.ReadLimits(&again) != l {
			t.Errorf("%s is not in the log's row", row.Name)
		}
		if was, same := sums[m.Digest().Sum]; same {
			t.Errorf("replicas with another %s have the same digest as with %s", row.Name, was)
		}
		sums[m.Digest().Sum] = row.Name
	}
	if len(places) != len(replica.LimitRows) {
		t.Error("a limit travels twice, and another one not", slices.Collect(maps.Keys(places)))
	}
	for _, bad := range [][]byte{{1, 0}, {2, 5}, {200, 1}, {1, 0xff, 0xff, 0xff, 0xff, 0x7f}} {
		if r := (codec.Reader{Buf: bad}); replica.ReadLimits(&r) != replica.DefaultLimits() && r.Err == nil ||
			r.Err == nil {
			t.Errorf("% x passes for limits", bad)
		}
	}
}
