"""A semaphore: so many holders at once, and no more."""

from pathlockd import RUN, Client, expect, owner

NAMESPACE = "example:/python-semaphore"
PATH = f"{NAMESPACE}/{RUN}"
PERMITS = 2

client = Client()
ann, ben, cleo = owner("ann"), owner("ben"), owner("cleo")


def ask(who, permits=PERMITS):
    return client.call("acquire", ownerId=who, ttlMs=10_000, requests=[{"path": PATH, "permits": permits}])


# What a lock means is a policy of its namespace. To set what is set already changes
# nothing, so every process may do it when it starts.
client.call("setNamespacePolicy", namespace=NAMESPACE, algorithm="LOCK_ALGORITHM_SEMAPHORE")

expect("ann asks", ask(ann)["status"], "ACQUIRE_STATUS_OK")
expect("ben asks", ask(ben)["status"], "ACQUIRE_STATUS_OK")
answer = ask(cleo)
expect("cleo asks", answer["status"], "ACQUIRE_STATUS_QUEUED")
expect("  why not", answer["reason"], "REASON_CODE_SEMAPHORE_FULL")
expect("holders", client.call("inspectPath", path=PATH)["semaphoreOwners"], sorted([ann, ben]))

# The first holder has said how many there may be; all others have to agree.
answer = ask(owner("dan"), permits=5)
expect("dan thinks there are 5", answer["reason"], "REASON_CODE_INVALID_PERMITS")
expect("  how many there are", int(answer["owner"]), PERMITS)

client.release(ann, PATH)
expect("ann lets go, cleo asks again", ask(cleo)["status"], "ACQUIRE_STATUS_OK")
client.release(ben, PATH)
client.release(cleo, PATH)
expect("holders", client.call("inspectPath", path=PATH)["semaphoreOwners"], [])
