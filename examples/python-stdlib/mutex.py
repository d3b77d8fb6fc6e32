"""Mutual exclusion: who does not get the lock stands in a queue, and asks again."""

import threading
import time

from pathlockd import RUN, Client, expect, owner

WORKERS, ROUNDS = 4, 5
PATH = f"example:/python-mutex/{RUN}"

client = Client()
alice, bob = owner("alice"), owner("bob")

expect("alice asks", client.acquire(alice, PATH)["status"], "ACQUIRE_STATUS_OK")
answer = client.acquire(bob, PATH)
expect("bob asks", answer["status"], "ACQUIRE_STATUS_QUEUED")
expect("who is in bob's way", answer["owner"], alice)
client.release(alice, PATH)
expect("bob asks again", client.acquire(bob, PATH)["status"], "ACQUIRE_STATUS_OK")
client.release(bob, PATH)

# Workers count together. Without the lock they would overwrite each other's count.
count = 0


def work(worker):
    global count
    for _ in range(ROUNDS):
        client.wait(worker, PATH)
        seen = count
        time.sleep(0.001)  # long enough for others to get in between
        count = seen + 1
        client.release(worker, PATH)


workers = [threading.Thread(target=work, args=(owner(f"worker-{n}"),)) for n in range(WORKERS)]
for thread in workers:
    thread.start()
for thread in workers:
    thread.join()
expect("counted together", count, WORKERS * ROUNDS)
