package place

import (
	"fmt"
	"strings"
	"testing"
)

// TestPlan is a table of logs as their leader sees them. A log is a list of
// replicas, "id node" with marks, the leader's with "*":
//
//	?  does not vote      -  behind      #  its disk is gone
//	x  its node is gone      o  its node is not seen, and not gone
//	!  its node drains its leaderships      !!  its node leaves      ~  its node is not steady
//	%  its node is short of disk space
//
// "+ node" is a node that is seen and has no replica. Removed ids stand behind "-".
func TestPlan(t *testing.T) {
	for _, c := range []struct{ name, log, voters, want string }{
		{"settled", "1a* 2b 3c", "a b c", "settled: 3 voters where they belong"},
		{"settled alone", "1a*", "a", "settled: 1 voters where they belong"},
		{"nobody to place on", "1a*", "", "wait: no members to place it on"},
		{"leader that is no member", "2b 3c", "a b c", "wait: this node's replica is no voter"},
		{"no live majority", "1a* 2b- 3cx", "a b c", "wait: only 1 of 3 voters are live and caught up"},

		{"the leader always counts", "1a*-o 2b 3co", "a b c", "wait: for c to come back"},
		{"what is gone goes before what is behind", "1a* 2b- 3cx 4d 5e", "a d e", "remove replica 3 on c"},
		{"grows: add", "1a* +b +c", "a b c", "add replica 2 on b: a voter belongs on b"},
		{"grows: add the other too", "1a* 2b?- +c", "a b c", "add replica 3 on c"},
		{"grows: an id is used once", "1a* +b +c - 7 3", "a b c", "add replica 8 on b"},
		{"grows: ids of non-voting replicas count", "1a* 9b? +c", "a b c", "add replica 10 on c"},
		{"grows: wait for both", "1a* 2b? 3c?-", "a b c", "wait: for c to catch up"},
		{"grows: wait for who is not there", "1a* 2b?", "a b c", "wait: for c to come"},
		{"grows: promote when both are ready", "1a* 2b? 3c?", "a b c", "promote replica 2 on b"},
		{"grows: finish", "1a* 2b 3c?", "a b c", "promote replica 3 on c"},
		{"grows: even and stuck", "1a* 2b 3c?-", "a b c", "wait: for c to catch up"},
		{"not told what it applied", "1a* 2b?0 3c?", "a b c", "wait: for b to catch up"},

		{"replaces a live one: add", "1a* 2b 3c +d", "a b d", "add replica 4 on d"},
		{"replaces a live one: wait", "1a* 2b 3c 4d?-", "a b d", "wait: for d to catch up"},
		{"replaces a live one: promote first", "1a* 2b 3c 4d?", "a b d", "promote replica 4 on d"},
		{"replaces a live one: remove then", "1a* 2b 3c 4d", "a b d", "remove replica 3 on c"},
		{"replaces two, one after the other", "1a* 2b 3c 4d 5e?", "a d e", "remove replica 3 on c"},

		{"replaces a dead one: add", "1a* 2b 3cx +d", "a b d", "add replica 4 on d"},
		{"replaces a dead one: it stays until the next is ready", "1a* 2b 3cx 4d?-", "a b d",
			"wait: for c to come back, d to catch up"},
		{"replaces a dead one: remove before promote", "1a* 2b 3cx 4d?", "a b d", "remove replica 3 on c: away"},
		{"replaces one just not seen: wait", "1a* 2b 3co 4d?", "a b d", "wait: for c to come back"},
		{"replaces one that is behind: promote first", "1a* 2b 3c- 4d?", "a b d", "promote replica 4 on d"},
		{"replaces one that is behind: remove then", "1a* 2b 3c- 4d", "a b d", "remove replica 3 on c: behind"},
		{"even with one just not seen", "1a* 2b 4d 3co", "a b d", "remove replica 3 on c: away"},
		{"even, short, with a dead one", "1a* 2b 3c 4dx", "a b c e f", "remove replica 4 on d: away"},
		{"even, short, with one just not seen", "1a* 2b 3c 4do", "a b c e f", "wait: for d to come back"},
		{"replaces a dead one: promote then", "1a* 2b 4d? - 3", "a b d", "promote replica 4 on d"},
		{"a dead one that is a member is waited for", "1a* 2b 3cx", "a b c", "wait: for c to come back"},
		{"even with a dead one", "1a* 2b 4d 3cx", "a b d", "remove replica 3 on c"},
		{"of four, one down: the spare may go", "1a* 2b 3c 4dx", "a b d", "remove replica 3 on c"},
		{"two of five dead", "1a* 2b 3c 4dx 5ex 6f? 7g?-", "a b c f g", "remove replica 4 on d"},

		{"wiped: a new replica", "1a* 2b 3c#", "a b c", "add replica 4 on c: a voter belongs on c"},
		{"wiped: the old one stays until it is ready", "1a* 2b 3c# 4c?-", "a b c",
			"wait: for c to come back, c to catch up"},
		{"wiped, and not steady yet: the old one is waited for", "1a* 2b 3c#~", "a b c", "wait: for c to come back"},
		{"wiped, and not steady for a moment", "1a* 2b 3c# 4c?~", "a b c",
			"remove replica 3 on c: the disk it was made on is gone"},
		{"wiped: the old one goes first", "1a* 2b 3c# 4c?", "a b c",
			"remove replica 3 on c: the disk it was made on is gone"},
		{"wiped: promote then", "1a* 2b 4c? - 3", "a b c", "promote replica 4 on c"},
		{"wiped before it voted", "1a* 2b 3c 4d?#", "a b d", "remove replica 4 on d: the disk it was made on is gone"},
		{"wiped, and the majority is gone", "1a* 2b# 3c#", "a b c", "wait: only 1 of 3 voters are live and caught up"},

		{"shrinks: dead first", "1a* 2b 3cx", "a", "remove replica 3 on c"},
		{"shrinks: then the other", "1a* 2b", "a", "remove replica 2 on b"},
		{"shrinks: all live", "1a* 2b 3c", "a", "remove replica 3 on c"},
		{"shrinks: five to three", "1a* 2b 3c 4d 5e", "a b c", "remove replica 5 on e"},
		{"shrinks to a node that does not lead", "1a* 2b 3c", "b", "remove replica 3 on c"},
		{"shrinks to a node that does not lead: hand over", "1a* 2b", "b",
			"transfer replica 2 on b: no voter belongs on a"},
		{"even, and the other is dead", "1a* 2bx", "a", "wait: only 1 of 2 voters are live and caught up"},
		{"five to three, one dead and one behind", "1a* 2b- 3cx 4d 5e", "a b d", "remove replica 3 on c"},
		{"five to three, two behind", "1a* 2b- 3c- 4d 5e", "a b c", "wait: for b to catch up, c to catch up"},
		{"three to one, one behind", "1a* 2b 3c-", "a", "remove replica 3 on c"},
		{"shrinks to who has none: wait", "1a* 2b 3c 4d?-", "d", "wait: for d to catch up"},
		{"shrinks to who has none: promote", "1a* 2b 3c 4d?", "d", "promote replica 4 on d"},
		{"shrinks to who has none: remove then", "1a* 2b 3c 4d", "d", "remove replica 3 on c"},
		{"moves alone: add", "1a* +b", "b", "add replica 2 on b"},
		{"moves alone: promote", "1a* 2b?", "b", "promote replica 2 on b"},
		{"moves alone: hand over", "1a* 2b", "b", "transfer replica 2 on b"},
		{"moves alone: the successor removes", "1a 2b*", "b", "remove replica 1 on a"},

		{"a non-voting one that does not belong", "1a* 2b 3c 4d?", "a b c",
			"remove replica 4 on d: no voter belongs on d"},
		{"even comes first", "1a* 2b 3c 4d 5e?", "a b d", "remove replica 3 on c"},

		{"drained leader", "1a!* 2b 3c", "a b c", "transfer replica 2 on b: a is drained"},
		{"drained leader: to one that has caught up", "1a!* 2b- 3c", "a b c", "transfer replica 3 on c: a is drained"},
		{"drained leader: not to another such", "1a!* 2b! 3c", "a b c", "transfer replica 3 on c: a is drained"},
		{"drained leader: steady first", "1a!* 2b~ 3c", "a b c", "transfer replica 3 on c"},
		{"drained leader: rather than nobody", "1a!* 2b~ 3cx", "a b c", "transfer replica 2 on b"},
		{"drained leader: nobody else", "1a!*", "a", "settled"},
		{"leaving leader: first the leadership", "1a!!* 2b 3c +d", "b c d", "transfer replica 2 on b: a is drained"},
		{"leaving leader: even so when all go", "1a!!* 2b!! 3c!! +d +e +f", "d e f", "add replica 4 on d"},
		{"leaving: then the replicas", "1a!! 2b* 3c +d", "b c d", "add replica 4 on d"},
		{"leaving: goes before others", "1a!! 2b* 3c 4d 5e", "b", "remove replica 1 on a"},

		{"short leader", "1a%* 2b 3c", "a b c", "transfer replica 2 on b: the disk of a is nearly full"},
		{"short leader: to one that has room", "1a%* 2b% 3c~", "a b c", "transfer replica 3 on c"},
		{"short leader: and not steady itself", "1a%~* 2b 3c", "a b c", "transfer replica 2 on b"},
		{"short leader: waits for who catches up", "1a%* 2b- 3c%", "a b c", "wait: for b to catch up"},
		{"short leader: all are", "1a%* 2b% 3c%", "a b c", "settled"},
		{"short leader: and the right one is, too", "1a% 2b%* 3c%", "a b c", "settled"},
		{"short leader: not to one that stops", "1a%* 2b! 3c%", "a b c", "settled"},
		{"short leader: alone", "1a%*", "a", "settled"},
		{"drained leader: room before steadiness", "1a!* 2b% 3c~", "a b c", "transfer replica 3 on c: a is drained"},
		{"drained leader: rather a short one than nobody", "1a!* 2b% 3c%", "a b c",
			"transfer replica 2 on b: a is drained"},
		{"drained and short leader: even so", "1a!%* 2b% 3cx", "a b c", "transfer replica 2 on b: a is drained"},
		{"the right one is short", "1a% 2b* 3c", "a b c", "settled"},
		{"leads where it should not", "1a 2b* 3c", "a b c", "transfer replica 1 on a: belongs to a"},
		{"the right one is behind", "1a- 2b* 3c", "a b c", "wait: for a to catch up"},
		{"the right one is away", "1ax 2b* 3c", "a b c", "wait: for a to come back"},
		{"the right one has just come back", "1a~ 2b* 3c", "a b c", "settled"},
		{"the right one is about to stop", "1a! 2b* 3c", "a b c", "settled"},
		{"the right one leads while another is away", "1a 2b* 3cx", "a b c", "transfer replica 1 on a"},
		{"not while a replica is filled", "1a 2b* 3c 4d?-", "a b d", "wait"},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, nodes := parseLog(c.log)
			got := Plan(l, strings.Fields(c.voters), nodes)
			if text := strings.TrimPrefix(got.String(), "log 9: "); !strings.HasPrefix(text, c.want) {
				t.Errorf("%s, wanted on %s:\n\tgot  %s\n\twant %s", c.log, c.voters, text, c.want)
			}
			if got.Version != l.Version {
				t.Errorf("the step names version %d, the log has %d", got.Version, l.Version)
			}
		})
	}
}

func parseLog(text string) (*Log, map[string]Node) {
	l := &Log{ID: 9, Version: 77, Applied: 5000}
	nodes := make(map[string]Node)
	text, removed, _ := strings.Cut(text, " - ")
	for _, f := range strings.Fields(removed) {
		var id uint64
		fmt.Sscan(f, &id)
		l.Removed = append(l.Removed, id)
	}
	for _, f := range strings.Fields(text) {
		n := Node{Disk: "d1", Alive: true, Steady: true, Stable: true}
		if id, ok := strings.CutPrefix(f, "+"); ok {
			n.ID = id
			nodes[id] = n
			continue
		}
		r := Replica{Disk: "d1", Voting: true, Applied: 5000}
		i := strings.IndexAny(f, "abcdefg")
		fmt.Sscan(f[:i], &r.ID)
		r.Node = f[i : i+1]
		n.ID = r.Node
		for _, mark := range f[i+1:] {
			switch mark {
			case '*':
				l.Self = r.ID
			case '?':
				r.Voting = false
			case '-':
				r.Applied = l.Applied - MaxLag - 1
			case '0':
				r.Applied = 0
			case 'x':
				n.Alive, n.Steady, n.Stable, n.Gone = false, false, false, true
			case 'o':
				n.Alive, n.Steady = false, false
			case '#':
				n.Disk = "d2"
				r.Disk = "d1"
			case '!':
				n.Drain++
			case '%':
				n.Short = true
			case '~':
				n.Steady = false
			}
		}
		if old, ok := nodes[r.Node]; ok && old.Disk == "d2" && n.Disk == "d1" {
			r.Disk, n.Disk = "d2", "d2" // the replica after the wipe
		}
		nodes[r.Node] = n
		l.Replicas = append(l.Replicas, r)
	}
	return l, nodes
}

// TestUrgency says which log is served first.
func TestUrgency(t *testing.T) {
	for _, c := range []struct {
		log, voters string
		want        Urgency
	}{
		{"1a* 2b 3c?", "a b c", Finish},
		{"1a* 2b 3c 4d", "a b d", Finish},
		{"1a!* 2b 3c", "a b c", Empty},
		{"1a!! 2b* 3c +d", "b c d", Empty},
		{"1a%* 2b 3c", "a b c", Empty},
		{"1a* +b +c", "a b c", Repair},
		{"1a* 2b 3cx +d", "a b d", Repair},
		{"1a* 2b 3c +d", "a b d", Spread},
		{"1a 2b* 3c", "a b c", Balance},
	} {
		l, nodes := parseLog(c.log)
		if got := Plan(l, strings.Fields(c.voters), nodes); got.Urgency != c.want || got.Kind <= Wait {
			t.Errorf("%s, wanted on %s: urgency %d of %s, want %d", c.log, c.voters, got.Urgency, got, c.want)
		}
	}
}

// TestCaughtUp says how far behind a replica may be, and that one which has not told
// what it applied is never caught up, however short the log.
func TestCaughtUp(t *testing.T) {
	for _, c := range []struct {
		leader, replica uint64
		want            Kind
	}{
		{5000, 5000, Promote}, {5000, 5001, Promote}, {5000, 5000 - MaxLag, Promote}, {5000, 5000 - MaxLag - 1, Wait},
		{10, 1, Promote}, {10, 0, Wait}, {0, 0, Wait},
	} {
		l, nodes := parseLog("1a* 2b 3c?")
		l.Applied = c.leader
		l.Replicas[1].Applied = max(c.leader, 1)
		l.Replicas[2].Applied = c.replica
		if got := Plan(l, []string{"a", "b", "c"}, nodes); got.Kind != c.want {
			t.Errorf("the leader has applied %d, the replica %d: %v, want %v", c.leader, c.replica, got, c.want)
		}
	}
}
