"""Reads and writes in a tree: a write owns all that lies below it, a read its own path."""

from pathlockd import RUN, Client, expect, owner

ROOT = f"example:/python-hierarchy/{RUN}"
READ, WRITE = "MODE_READ", "MODE_WRITE"

client = Client()
alice, bob = owner("alice"), owner("bob")


def ask(mode, path):
    """Bob asks, and gives back what he gets. Returns why he did not get it, and where that is."""
    # noQueue: a try-lock, which leaves no place in the queue behind.
    answer = client.acquire(bob, ROOT + path, mode, noQueue=True)
    if answer["status"] == "ACQUIRE_STATUS_OK":
        client.release(bob, ROOT + path, mode)
        return "granted"
    return answer["reason"].removeprefix("REASON_CODE_"), answer["path"].removeprefix(ROOT)


client.acquire(alice, ROOT + "/docs/a", READ)
print("alice reads /docs/a")
expect("  bob reads  /docs/a  ", ask(READ, "/docs/a"), "granted")
expect("  bob writes /docs/a  ", ask(WRITE, "/docs/a"), ("READ_LOCKED", "/docs/a"))
expect("  bob writes /docs    ", ask(WRITE, "/docs"), ("DESCENDANT_READ_LOCKED", "/docs/a"))
expect("  bob writes /docs/a/x", ask(WRITE, "/docs/a/x"), "granted")
expect("  bob writes /docs/b  ", ask(WRITE, "/docs/b"), "granted")
client.release(alice, ROOT + "/docs/a", READ)

client.acquire(alice, ROOT + "/docs", WRITE)
print("alice writes /docs")
expect("  bob reads  /docs/a  ", ask(READ, "/docs/a"), ("ANCESTOR_LOCKED", "/docs"))
expect("  bob writes /docs/a  ", ask(WRITE, "/docs/a"), ("ANCESTOR_LOCKED", "/docs"))
expect("  bob writes /        ", ask(WRITE, ""), ("DESCENDANT_WRITE_LOCKED", "/docs"))
expect("  bob writes /other   ", ask(WRITE, "/other"), "granted")
client.release(alice, ROOT + "/docs", WRITE)

# Several paths in one request: all of them, or none.
both = [{"path": f"{ROOT}/{name}"} for name in ("one", "two")]
client.acquire(alice, ROOT + "/two")
answer = client.call("acquire", ownerId=bob, ttlMs=10_000, requests=both, noQueue=True)
expect("bob asks for /one and /two", answer["status"], "ACQUIRE_STATUS_CONFLICT")
expect("  who holds /one", client.call("inspectPath", path=ROOT + "/one")["writeOwner"], "")
client.release(alice, ROOT + "/two")
answer = client.call("acquire", ownerId=bob, ttlMs=10_000, requests=both)
expect("bob asks again", answer["status"], "ACQUIRE_STATUS_OK")
client.call("releaseAll", ownerId=bob)
