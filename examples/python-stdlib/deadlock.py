"""Two owners wait for each other: say who waits for whom, find the circle, break it."""

from pathlockd import RUN, Client, expect, owner

ROOT = f"example:/python-deadlock/{RUN}"

client = Client()
alice, bob = owner("alice"), owner("bob")


def ask(who, path):
    """Asks for a path, and tells the server whom that makes the owner wait for."""
    answer = client.acquire(who, path)
    if answer["status"] == "ACQUIRE_STATUS_QUEUED":
        client.call(
            "setWaitEdge",
            ownerId=who,
            conflictOwner=answer["owner"],
            conflictPath=answer["path"],
            reason=answer["reason"],
            ttlMs=10_000,
        )
    return answer["status"]


def cycle(start):
    """Who waits for whom, from start on: the circle, or nothing."""
    answer = client.call("detectCycle", startOwnerId=start, maxDepth=16)
    return answer["chain"] if answer["kind"] == "CYCLE_KIND_FOUND" else []


expect("alice takes /x", ask(alice, ROOT + "/x"), "ACQUIRE_STATUS_OK")
expect("bob takes /y", ask(bob, ROOT + "/y"), "ACQUIRE_STATUS_OK")
expect("alice wants /y", ask(alice, ROOT + "/y"), "ACQUIRE_STATUS_QUEUED")
expect("a circle?", cycle(alice), [])
expect("bob wants /x", ask(bob, ROOT + "/x"), "ACQUIRE_STATUS_QUEUED")
expect("a circle?", cycle(bob), [bob, alice])

# All who see the circle must pick the same victim: the one with the highest name, say.
victim = max(cycle(bob))
expect("who gives up", victim, bob)
client.call("releaseAll", ownerId=victim, delWaitKey=True)

expect("alice asks again", client.acquire(alice, ROOT + "/y")["status"], "ACQUIRE_STATUS_OK")
expect("a circle?", cycle(alice), [])
client.call("releaseAll", ownerId=alice, delWaitKey=True)
