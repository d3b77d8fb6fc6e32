"""A lock's life: lease, renewal, the token that keeps late writers out, release."""

from pathlockd import RUN, Client, expect, owner, until

PATH = f"example:/python-lifecycle/{RUN}"
SHORT = 1000  # ms


class Resource:
    """What the lock protects. It takes no write under a token older than one it has seen."""

    def __init__(self):
        self.token, self.value = 0, None

    def write(self, token, value):
        if token < self.token:
            return f"refused: {value}"
        self.token, self.value = token, value
        return f"written: {value}"


client = Client()
alice, bob = owner("alice"), owner("bob")
file = Resource()

answer = client.acquire(alice, PATH, ttl_ms=SHORT)
expect("alice asks", answer["status"], "ACQUIRE_STATUS_OK")
old = int(answer["fencingToken"])  # 64-bit numbers are strings in JSON
expect("alice writes", file.write(old, "from alice"), "written: from alice")

# A holder renews its lease well before it ends: every third of it is a good measure.
expect("alice renews", client.call("renew", ownerId=alice, ttlMs=SHORT)["status"], "RENEW_STATUS_OK")

# Now alice is held up (a long pause, a lost network), and her lease runs out.
until(lambda: client.call("isOwnerAlive", ownerId=alice)["alive"], lambda alive: not alive)
print("alice's lease has run out")

answer = client.acquire(bob, PATH)
expect("bob asks", answer["status"], "ACQUIRE_STATUS_OK")
new = int(answer["fencingToken"])
expect("bob's token is higher", new > old, True)
expect("bob writes", file.write(new, "from bob"), "written: from bob")

# Alice wakes up and does not know yet. What she writes comes too late.
expect("alice writes", file.write(old, "late, from alice"), "refused: late, from alice")
expect("what stands there", file.value, "from bob")

# A resource that cannot remember a token asks the server instead.
mine = client.call("assertFencing", ownerId=bob, fencingToken=new, paths=[PATH])
expect("is bob's token the one", mine["status"], "ASSERT_STATUS_OK")
mine = client.call("assertFencing", ownerId=alice, fencingToken=old, paths=[PATH])
expect("is alice's", (mine["status"], mine["reason"]), ("ASSERT_STATUS_FAIL", "REASON_CODE_STALE_OWNER"))
answer = client.call("renew", ownerId=alice, ttlMs=SHORT)
expect("alice renews", (answer["status"], answer["reason"]), ("RENEW_STATUS_LOST", "REASON_CODE_MISSING_ALIVE"))

client.release(bob, PATH)
answer = client.call("inspectPath", path=PATH)
expect("who holds it", answer["writeOwner"], "")
expect("the last token is remembered", int(answer["fence"]), new)
