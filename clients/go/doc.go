/*
Package pathlockd is the Go client of pathlockd, a lock server for paths.

# Connecting

[Dial] makes a [Client], which all goroutines of a program share. It keeps one
connection to each server that it has to do with, sends any number of requests over it
without waiting for answers, and makes it anew when it breaks. What the broken one left
unanswered is asked again by itself, and carried out once. Every method that waits
takes a context and returns when that ends.

	c, err := pathlockd.Dial(ctx, "127.0.0.1:50050")
	if err != nil {
		return err
	}
	defer c.Close()

# Locking

A path is handler:/segment/segment. Unless the namespace is configured otherwise, a
write lock covers its path and everything below it, and a read lock is shared with
other readers of exactly its path.

	l, err := c.Lock(ctx, "tenant:/acme/projects/42")
	if err != nil {
		return err
	}
	defer l.Unlock()
	return work(l.Context(), l.Token())

[Client.Lock] waits for its turn until ctx ends, [Client.TryLock] answers a
[ConflictError] that names who is in the way. [Client.RLock], [Client.Semaphore] and
[Client.LockAll] are for readers, permits and several paths at once; each has a Try
form. [Client.WithLock] calls a function with a lock held.

Every lock has an owner of its own unless [Owner] says otherwise, so the goroutines of
a program exclude each other as well as other programs.

# While a lock is held

The server gives a lock for a time, the TTL ([TTL], 30 s unless set). The client
renews it at a third of that, for as long as it is held: nothing is to be done for it.
It may be lost all the same: somebody took it away, or no renewal came through for so
long that the server may have given it to somebody else. The client judges that by the
local monotonic clock, counts from when it sent the last request that was confirmed,
and keeps a margin of a twentieth of the TTL, a second at most, and a thousandth of it
for clocks that do not run alike. So it knows before anybody else can have the lock,
unless it was stopped meanwhile. (On Linux the clock runs while the machine is suspended;
elsewhere what was slept through is not seen.)

What to do about it:

  - Do the work under [Lock.Context]. It ends when the lock is lost, or when the client
    cannot be certain any more that it is held. [context.Cause] says which.
  - Or wait for [Lock.Lost], or ask [Lock.Err] before each step.
  - Hand [Lock.Token] to whatever the lock protects, and have that refuse tokens lower
    than the highest it has seen. Nothing else is safe against a program that stood
    still, did not notice, and goes on writing: no lock service can prevent that.

What an owner holds is asked about once in a TTL or two if a part of it may go: if it is
several paths, or the program names the owner. A log takes four such questions at a time.
So a client with more of these locks in one log than eight times their TTL, divided by the
time that an answer takes, loses some that are held: 800 of 10 s on a way of 100 ms.

[Lock.Unlock] works whatever has become of the context that the lock was taken with.
It answers a [LostError] if the lock was lost before: the work may have overlapped
with somebody else's.

[OnRevoke] and [Lock.Revoked] tell that somebody asks for the lock. It is still held
then; to give it back is up to the holder.

# When the connection breaks

Locks hang on the connection: a program that crashes frees them when the grace is over
([WithGrace], 15 s unless set), and not only when their TTL is. A client that connects
again within the grace keeps them. If it does not, its locks are lost
([ErrUncertain]).

The server counts the grace from when it sees the connection end, which may be before
the client does: a proxy between them may have lost the server's side alone. So a lock
counts as held for no longer than a grace, less the margin, after the client sent the
last request that was answered on the connection. While it holds locks it asks for a
sign of life three times within the grace, and gives a connection up that brings none.
It also gives one up on which all is answered but, for a minute or twice the time that
the server says a request may take, what locks rely on.
That a server was killed cannot be told from the end of a proxy, and counts as that. A
server that is told to stop says that no lock ends with it; then the TTL alone counts.

# Clusters

Any node of a cluster takes every request, and Dial needs the address of one that is
there; give it several ("a:50050,b:50050,c:50050") so that one of them is. The servers
tell the client of all the others, and of every change: it goes on at any of them when
a connection breaks, also when none of the addresses that it was given is there any
more. (An address that it was told is used only if a node of the same cluster answers
there.) While there are several, the next is tried as well when one has not answered within a
fifth of a second.

A request about one namespace goes straight to the node that leads it. The client has a
lane to each such node, opened when there is something to send: a connection and a
session of its own. Everything else, and everything while a lane is not open, goes by
the home lane, to the node it connected to first. To be wrong about who leads costs a
hop between the nodes and nothing else, so no request waits for a lane.

The order of requests about one namespace is kept as on one connection. When its leader
changes, what is asked goes by the new lane only after what went by the old one has its
answer, or its place in the queue: for that moment, a round trip, it is held back. A node
that takes longer than two seconds is left for another, where its session goes on: it may
be cut off from its peers and not from the client. What
waits in the queue stays on the lane that it was sent by, as does its cancel. A lock
belongs to no lane: renewals and releases go where its namespace leads at the time, and
each renewal ties the lease to the connection that it goes by. When a lane loses its
node, its session goes on at another one at once and settles what is open there; its
locks are renewed at once, and count as lost if that does not work within the grace.
What is new goes by the home lane until the topology names a leader again. A lane
that nothing goes by is closed after a minute, but not while leases of locks hang on it.

[WithOneConnection] does without lanes. So does a client while an owner is bound
([Client.Bind]): what follows a connection must know which. And so it does for good once the
program itself ties a lease to its session ([wire.FlagBind]), or sends acquires of its own in the
name of an owner of a lock: how long such a lease stands for something, only the servers know. The
lanes that there are then stay until Close.

# What is tried again

Every method but [Client.Go] and [Batch] asks again within its context, and so does what
goes on in the background:

  - UNAVAILABLE says that surely nothing was done. The request is asked anew after a
    pause of 2 ms that doubles up to 1 s, drawn from its upper half each time. A server
    that takes nothing for a second is left for another one, if there is one.
  - What has an unknown outcome is repeated under its id, which the cluster knows for as
    long as it remembers the session, so that nothing is done twice: when a connection
    broke, at once on the next, and when a server could not tell what became of it, after
    such a pause. UNAVAILABLE or RESOURCE_EXHAUSTED in answer to a repeat says nothing of the
    first time, and is repeated likewise. After that the error is [ErrOutcomeUnknown].
  - Connections are made anew at once, at whichever address answers first, where each has a
    fifth of a second before the next is tried as well; after that in rounds with
    a pause of 50 ms that doubles up to 2 s, drawn likewise.

# Errors

Refusals of the server are an [Error]; [ErrAborted], [ErrInvalidArgument] and the like
find them by code. [ErrOutcomeUnknown] says that nobody knows whether a request was
carried out, because the caller went away too early. What a server was not able to take
(UNAVAILABLE) the client asks again until the context ends. Conflicts of the Try forms
are [ErrConflict], and what loses a lock is [ErrLost] and one of [ErrUncertain],
[ErrExpired], [ErrKilled] and [ErrClosed].

# Everything else

Each operation of the protocol has a method: [Client.Acquire], [Client.Release],
[Client.Renew] and so on, without anything on top. [Client.InspectPath],
[Client.Describe], [Client.ScanLocks] and [Client.ListOwnerLocks] look at what is held,
[Client.Subscribe] tells what happens to an owner.

[Client.Go] and [Client.Batch] ask without waiting and hand the answer to a function.
They allocate next to nothing, and are for programs with very many requests.
*/
package pathlockd
