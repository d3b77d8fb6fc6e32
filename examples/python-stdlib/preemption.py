"""Taking a lock from somebody: ask first, then take."""

from pathlockd import RUN, Client, expect, owner

PATH = f"example:/python-preemption/{RUN}"

client = Client()
batch, urgent = owner("batch"), owner("urgent")


def renew():
    return client.call("renew", ownerId=batch, ttlMs=10_000)


expect("batch asks", client.acquire(batch, PATH)["status"], "ACQUIRE_STATUS_OK")
expect("batch renews; shall it let go?", renew()["revokeRequested"], False)
expect("urgent asks", client.acquire(urgent, PATH)["status"], "ACQUIRE_STATUS_QUEUED")

# A polite holder sees this at its next renewal, finishes its work and releases.
client.call("requestRevoke", ownerId=batch)
expect("batch renews; shall it let go?", renew()["revokeRequested"], True)
expect("urgent asks again", client.acquire(urgent, PATH)["status"], "ACQUIRE_STATUS_QUEUED")

# Batch goes on regardless. Now everything is taken from it: its token is worth
# nothing any more, and who waited has the lock in the same step.
client.call("forceRelease", victimId=batch)
answer = renew()
expect("batch renews", (answer["status"], answer["reason"]), ("RENEW_STATUS_LOST", "REASON_CODE_MISSING_ALIVE"))
expect("who holds it", client.call("inspectPath", path=PATH)["writeOwner"], urgent)
expect("urgent asks again", client.acquire(urgent, PATH)["status"], "ACQUIRE_STATUS_OK")
client.release(urgent, PATH)
