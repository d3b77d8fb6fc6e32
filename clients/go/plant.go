package pathlockd

// Bugs that tests and simulation must find, one for each error of a kind that once let the
// client believe in a lock that it did not have, or leave one behind: a build with the tag
// plant has the one that planted names, others have none, and the compiler leaves out what asks
// for them.
const (
	plantDeadProxy   = "dead-proxy"   // any end of a connection counts as the server's own word that no lease ends
	plantNoticed     = "noticed"      // the grace is counted from when the client notices
	plantSharedLease = "shared-lease" // a renewal shortens what other locks of the owner stand on
	plantLateRelease = "late-release" // what gives back names the path alone, and the next acquire does not wait for it
	plantShortOwners = "short-owners" // owners that are made up differ by 32 random bits
	plantInTurn      = "in-turn"      // addresses are tried one after the other
	plantOtherErrors = "other-errors" // who waited long enough gets the server's error, and not his own
	plantUnslept     = "unslept"      // what the machine sleeps through does not count
	plantThinMargin  = "thin-margin"  // clocks are taken to run alike
	plantLikeNames   = "like-names"   // a name that only begins like a namespace's counts as one in it
	plantCurbedAfar  = "curbed-afar"  // what is renewed anywhere in a handler keeps its locks from being taken
	plantKeptLong    = "kept-long"    // a renewal counts for each lock for as long as for the longest of its owner's
	plantGivenBack   = "given-back"   // what the program gives back by requests of its own says nothing of locks
	plantGivenBefore = "given-before" // nor does what it asked to give back before they were asked for
	plantUnnamed     = "unnamed"      // a kill says nothing of a lock that was just granted, if it does not name it
)
