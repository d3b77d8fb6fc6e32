"""A client of pathlockd's JSON interface, with the standard library alone.

Every RPC is POST /v1/<rpc> with a JSON body. An answer with status 200 is an outcome
(OK, CONFLICT, QUEUED, LOST); anything else is an error with code and message.
"""

import http.client
import json
import os
import pathlib
import ssl
import threading
import time
import urllib.parse
import uuid

TIMEOUT = 10.0  # seconds that a request, or a wait of these examples, may take


class Error(Exception):
    """What the server refused: nothing was changed."""

    def __init__(self, code, message):
        super().__init__(f"{code}: {message}")
        self.code = code


class Client:
    """One connection for each thread that uses it, kept open between calls."""

    def __init__(self):
        self._address = urllib.parse.urlsplit(os.environ.get("PATHLOCKD_WEB", "https://127.0.0.1:50443"))
        trusted = pathlib.Path(os.environ.get("PATHLOCKD_CA", "pathlockd-data/dev-cert.pem"))
        self._tls = ssl.create_default_context(cadata=trusted.read_text())
        self._mine = threading.local()

    def call(self, rpc, **fields):
        """Calls an RPC with the fields of its request, and returns those of its answer."""
        if not hasattr(self._mine, "connection"):
            self._mine.connection = http.client.HTTPSConnection(
                self._address.hostname, self._address.port, timeout=TIMEOUT, context=self._tls
            )
        connection = self._mine.connection
        connection.request("POST", f"/v1/{rpc}", json.dumps(fields), {"Content-Type": "application/json"})
        response = connection.getresponse()
        answer = json.load(response)
        if response.status != 200:
            raise Error(**answer["error"])
        return answer

    def acquire(self, owner, path, mode="MODE_WRITE", ttl_ms=10_000, **more):
        """Asks for one lock, once."""
        return self.call("acquire", ownerId=owner, ttlMs=ttl_ms, requests=[{"path": path, "mode": mode}], **more)

    def wait(self, owner, path, **more):
        """Asks until the lock is ours. To ask again keeps the place in the queue."""
        return until(lambda: self.acquire(owner, path, **more), lambda answer: answer["status"] == "ACQUIRE_STATUS_OK")

    def release(self, owner, path, mode="MODE_WRITE"):
        self.call("release", ownerId=owner, requests=[{"path": path, "mode": mode}])


def until(look, good, pause=0.02):
    """Looks again and again until what it sees is good, and returns that."""
    give_up = time.monotonic() + TIMEOUT
    while not good(seen := look()):
        if time.monotonic() > give_up:
            raise TimeoutError(f"after {TIMEOUT} s it is still {seen}")
        time.sleep(pause)
    return seen


def expect(what, got, wanted):
    """Says what came out, and ends the program if that is not what was to be shown."""
    if got != wanted:
        raise SystemExit(f"{what}: got {got!r}, wanted {wanted!r}")
    print(f"{what}: {got}")


RUN = uuid.uuid4().hex[:8]  # no two runs share an owner or a path


def owner(name):
    """An owner's id belongs to one process: it gets a part that no other one has."""
    return f"{name}-{RUN}"
