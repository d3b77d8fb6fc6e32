package lab

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/pathlockd/pathlockd/bench/lab/cluster"
)

// faultKind is a kind of fault. Each has a row in faultTable; that is all that a new one needs.
type faultKind uint8

const (
	killOne faultKind = iota
	killAll
	terminate
	pause
	isolate
	bridge
	deafen
	mute
	flap
	storm
	stepClock
	fullDisk
	failDisk
	newDisk
	transfer
	drain
	save
	join
	leave
	restore
	rollOut
	handBack
	faultKinds
)

// String is the kind's name, as reports and --faults have it.
func (k faultKind) String() string { return faultTable[k].name }

// faultNames lists the names of all.
func faultNames() (names []string) {
	for k := range faultTable {
		names = append(names, faultTable[k].name)
	}
	return names
}

// PrintFaults prints the kinds of faults, what each does and what ends it.
func PrintFaults(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "FAULT\tWHAT HAPPENS\tUNTIL")
	for k := range faultTable {
		row := &faultTable[k]
		fmt.Fprintf(t, "%s\t%s\t%s\n", row.name, row.what, row.heals)
	}
	return t.Flush()
}

// faultRow is what is known of a kind of fault.
type faultRow struct {
	name  string
	needs cluster.Ability // what the cluster must be able to
	nodes int             // how many it must have

	// do carries it out, waits, and heals it; what it was about is then as before, but for what the row says.
	do func(*episode, *fault) error
	// what and heals say for people what happens to the node b.node, or to all, and what ends it.
	what, heals string
	serves      bool // requests are to be served all the while

	// between says on which of the ways between nodes network is, for a fault that is about the network.
	between func(node, from, to int) bool
	network cluster.NetworkFault
}

// The ways between nodes that a fault is about.
var (
	atNode   = func(node, from, to int) bool { return from == node || to == node }
	elsewise = func(node, from, to int) bool { return from != node && to != node }
	toNode   = func(node, _, to int) bool { return to == node }
	fromNode = func(node, from, _ int) bool { return from == node }
	anywhere = func(int, int, int) bool { return true }

	blocked = cluster.NetworkFault{Block: true}
)

// faultTable has a row for each kind of fault. It is filled in before main, as what rows do reads it.
var faultTable [faultKinds]faultRow

func init() {
	faultTable = [faultKinds]faultRow{
		killOne: {name: "kill", needs: cluster.Kill, nodes: 1, do: (*episode).kill,
			what:  "a node ends at once and loses what was not synced; at times a second one when it is back",
			heals: "it is started"},
		killAll: {name: "kill all", needs: cluster.Kill, nodes: 1, do: (*episode).killAll,
			what: "all nodes end at once and lose what was not synced", heals: "all are started"},
		terminate: {name: "terminate", needs: cluster.Terminate, nodes: 1, do: (*episode).restart,
			what: "a node ends in good order", heals: "it is started"},
		pause: {name: "pause", needs: cluster.Pause, nodes: 1, do: (*episode).pause,
			what: "a node stands still", heals: "it goes on"},
		isolate: {name: "isolate", needs: cluster.Partition, nodes: 3, do: (*episode).isolate, between: atNode,
			network: blocked,
			what:    "nothing passes between a node and all others", heals: "everything passes"},
		bridge: {name: "bridge", needs: cluster.Partition, nodes: 3, do: (*episode).disturb, between: elsewise,
			network: blocked,
			what:    "all nodes see one, and only that", heals: "everything passes"},
		deafen: {name: "deafen", needs: cluster.Partition, nodes: 3, do: (*episode).disturb, between: toNode,
			network: blocked,
			what:    "a node hears nobody", heals: "everything passes"},
		mute: {name: "mute", needs: cluster.Partition, nodes: 3, do: (*episode).disturb, between: fromNode,
			network: blocked,
			what:    "nobody hears a node", heals: "everything passes"},
		flap: {name: "flap", needs: cluster.Partition, nodes: 3, do: (*episode).flap, between: atNode, network: blocked,
			what: "a node is isolated again and again", heals: "everything passes"},
		storm: {name: "storm", needs: cluster.Partition, nodes: 3, do: (*episode).disturb, between: anywhere,
			network: cluster.NetworkFault{
				Drop: 0.05, Cut: 0.01, Duplicate: 0.1, Delay: 0.2, DelayMin: time.Millisecond,
				DelayMax: 200 * time.Millisecond,
			}, what: "what passes is lost, late, repeated and out of order now and then", heals: "everything passes"},
		stepClock: {name: "clock step", needs: cluster.StepClock, nodes: 1, do: (*episode).stepClock, serves: true,
			what:  "a node's wall clock is set by up to two days; at times another's the other way",
			heals: "nothing does"},
		fullDisk: {name: "full disk", needs: cluster.FullDisk, nodes: 1, do: (*episode).fullDisk,
			what: "a node's disk has no room", heals: "it has room"},
		failDisk: {name: "failed disk", needs: cluster.FailDisk, nodes: 1, do: (*episode).failDisk,
			what: "a node's disk fails, which ends it", heals: "it is started, and the disk works"},
		newDisk: {name: "new disk", needs: cluster.Kill | cluster.Administer, nodes: 3, do: (*episode).replace,
			what: "a node ends and its disk is empty", heals: "it is started, and has all its replicas again"},
		transfer: {name: "transfer", needs: cluster.Administer, nodes: 3, do: (*episode).transfer,
			what: "leaderships are handed over, one after the other", heals: "nothing does; balancing hands them back"},
		drain: {name: "drain", needs: cluster.Administer, nodes: 3, do: (*episode).drain,
			what: "a node is drained of its leaderships", heals: "the drain is taken back"},
		save: {name: "backup", needs: cluster.Administer, nodes: 1, do: (*episode).save, serves: true,
			what: "a backup is taken, and verified", heals: "nothing is to be healed"},
		join: {name: "join", needs: cluster.Administer | cluster.Grow, nodes: fewestNodes, do: (*episode).join,
			what: "a node joins", heals: "nothing does; others leave"},
		leave: {name: "leave", needs: cluster.Administer | cluster.Grow, nodes: fewestNodes, do: (*episode).leave,
			what: "a node leaves for good, at times without a drain", heals: "nothing does; others join"},
		restore: {name: "restore", needs: cluster.Administer | cluster.Refound, nodes: 1, do: (*episode).refound,
			what: "a backup becomes another cluster, in which all goes on", heals: "nothing is to be healed"},
		rollOut: {name: "configuration", needs: cluster.Terminate | cluster.Configure, nodes: 1, do: (*episode).rollOut,
			what:  "nodes end in good order, one after the other, and start with other settings",
			heals: "they are started"},
		handBack: {name: "hand back", needs: cluster.Partition | cluster.Administer, nodes: 3, do: (*episode).handBack,
			between: atNode,
			network: blocked, what: "who leads is isolated, for longer than others",
			heals: "everything passes, and it is given back what it led"},
	}
}
