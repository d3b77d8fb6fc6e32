#!/usr/bin/env python3
"""A client of the native protocol, written from PROTOCOL.md alone.

It proves that the page is enough: whatever this file needs stands there. It talks
to a fresh server with one node and the default settings, whose address is given as
host and port, and fails at the first answer that is not what the page says.

It takes the msgpack library if that is installed, and makes do without.
"""

import json
import os
import socket
import struct
import sys
import time
import types

try:
    import msgpack
except ImportError:
    msgpack = None

WIRE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


# --- msgpack, as much of it as section 1 needs -------------------------------------


def pack(v):
    if msgpack:
        return msgpack.packb(v)
    if v is None:
        return b"\xc0"
    if v is True or v is False:
        return b"\xc3" if v else b"\xc2"
    if isinstance(v, int):
        if v >= 0:
            for top, form in ((0x7F, ">B"), (0xFF, ">BB"), (0xFFFF, ">BH"), (0xFFFFFFFF, ">BI"), (2**64 - 1, ">BQ")):
                if v <= top:
                    code = {">BB": 0xCC, ">BH": 0xCD, ">BI": 0xCE, ">BQ": 0xCF}.get(form)
                    return struct.pack(form, v) if code is None else struct.pack(form, code, v)
        return struct.pack(">b", v) if v >= -32 else struct.pack(">Bq", 0xD3, v)
    if isinstance(v, str):
        b = v.encode()
        return head(len(b), 0xA0, 31, 0xD9, 0xDA, 0xDB) + b
    if isinstance(v, bytes):
        return head(len(v), None, -1, 0xC4, 0xC5, 0xC6) + v
    if isinstance(v, (list, tuple)):
        return head(len(v), 0x90, 15, None, 0xDC, 0xDD) + b"".join(map(pack, v))
    if isinstance(v, dict):
        return head(len(v), 0x80, 15, None, 0xDE, 0xDF) + b"".join(pack(k) + pack(x) for k, x in v.items())
    raise TypeError(type(v))


def head(n, fix, most, one, two, four):
    if n <= most:
        return bytes([fix | n])
    if one is not None and n <= 0xFF:
        return struct.pack(">BB", one, n)
    if n <= 0xFFFF:
        return struct.pack(">BH", two, n)
    return struct.pack(">BI", four, n)


def unpack(b):
    if msgpack:
        return msgpack.unpackb(b)
    v, at = read(b, 0)
    if at != len(b):
        raise ValueError("bytes follow the value")
    return v


def read(b, at):
    c, at = b[at], at + 1
    number = {0xCC: ">B", 0xCD: ">H", 0xCE: ">I", 0xCF: ">Q", 0xD0: ">b", 0xD1: ">h", 0xD2: ">i", 0xD3: ">q"}
    length = {0xD9: ">B", 0xDA: ">H", 0xDB: ">I", 0xC4: ">B", 0xC5: ">H", 0xC6: ">I",
              0xDC: ">H", 0xDD: ">I", 0xDE: ">H", 0xDF: ">I"}
    if c <= 0x7F:
        return c, at
    if c >= 0xE0:
        return c - 256, at
    if c in (0xC0, 0xC2, 0xC3):
        return {0xC0: None, 0xC2: False, 0xC3: True}[c], at
    if c in number:
        size = struct.calcsize(number[c])
        return struct.unpack_from(number[c], b, at)[0], at + size
    if c in length:
        n = struct.unpack_from(length[c], b, at)[0]
        at += struct.calcsize(length[c])
    elif c <= 0x8F:
        c, n = 0xDE, c & 0x0F
    elif c <= 0x9F:
        c, n = 0xDC, c & 0x0F
    elif c <= 0xBF:
        c, n = 0xD9, c & 0x1F
    else:
        raise ValueError("type byte %#x" % c)
    if c in (0xD9, 0xDA, 0xDB):
        return b[at:at + n].decode(), at + n
    if c in (0xC4, 0xC5, 0xC6):
        return b[at:at + n], at + n
    items = []
    for _ in range(n * 2 if c in (0xDE, 0xDF) else n):
        item, at = read(b, at)
        items.append(item)
    if c in (0xDE, 0xDF):
        return dict(zip(items[::2], items[1::2])), at
    return items, at


# --- the tables of section 4 to 6 ----------------------------------------------------

RESULTS = {
    1: ["welcome"], 3: ["status", "path", "owner", "reason", "fencing_token", "current_fencing_token", "namespace", "position"],
    6: ["status", "path", "reason", "revoke_requested"], 8: ["status", "path", "reason"], 9: ["kind", "chain"],
    10: ["blocking"], 11: ["token"], 14: ["alive"], 17: ["algorithm", "explicit"],
    19: ["write_owner", "read_owners", "has_fence", "fence", "semaphore_owners"], 20: ["alive", "locks"],
    21: ["entries", "next_cursor", "done"], 22: ["subscription", "cursor"], 24: ["ok", "detail"],
    26: ["namespace", "algorithm", "has_fence", "fence", "holders", "covering", "waiters", "waiters_total", "writes_below", "reads_below"],
    27: ["topology"], 28: ["entries", "next_cursor", "done"], 29: ["status", "path", "reason", "revoke_requested"],
}
NUMBERS = {
    "hello": 1, "ping": 2, "acquire": 3, "release": 4, "release_all": 5, "renew": 6, "force_release": 7, "assert_fencing": 8,
    "detect_cycle": 9, "is_blocking": 10, "incr_fencing_token": 11, "set_wait_edge": 12, "clear_wait_edge": 13,
    "is_owner_alive": 14, "request_revoke": 15, "set_namespace_policy": 16, "get_namespace_policy": 17,
    "delete_namespace_policy": 18, "inspect_path": 19, "list_owner_locks": 20, "dump_locks": 21, "subscribe": 22,
    "unsubscribe": 23, "health": 24, "cancel": 25, "describe": 26, "topology": 27, "scan_locks": 28, "bind": 29, "unbind": 30,
}
ELEMENTS = {
    "lock": ["owner", "path", "mode", "has_fence", "fence", "since_unix_ms", "expires_in_ms", "algorithm", "permits", "metadata"],
    "waiter": ["owner", "path", "mode", "token", "since_unix_ms", "expires_in_ms", "position", "open", "permits", "metadata"],
    "metadata": ["host", "pid", "start_unix_ms", "boot_id", "command", "labels"],
    "welcome": ["version", "node_id", "cluster_id", "session", "epoch", "features", "limits", "server_version"],
    "limits": ["frame_bytes", "in_flight", "waiting", "subscriptions", "bound_owners", "repeat_ms"],
    "topology": ["version", "self", "nodes", "groups", "leaders"],
    "event": ["subscription", "number", "kind", "owner", "path", "namespace", "token", "position"],
}
DEFAULTS = dict.fromkeys(("path", "owner", "namespace", "write_owner", "detail", "node_id", "cluster_id", "server_version",
                          "host", "boot_id", "command", "self"), "")
DEFAULTS.update(dict.fromkeys(("revoke_requested", "blocking", "alive", "explicit", "has_fence", "ok", "done", "open"), False))
DEFAULTS.update(dict.fromkeys(("chain", "read_owners", "semaphore_owners", "locks", "entries", "holders", "covering", "waiters",
                               "cursor", "nodes", "leaders", "limits", "welcome", "topology"), []))
DEFAULTS.update({"session": b"", "next_cursor": b"", "labels": {}, "metadata": None})  # every other one is 0
WAIT, NO_QUEUE, BULK, BIND = 1, 2, 4, 8
WRITE, READ = 0, 1
OK, CONFLICT, LOST, QUEUED = 0, 1, 2, 3
KILLED, REVOKE, GRANT, EXPIRED = 1, 2, 3, 4
P_QUEUED, P_EVENT, P_PROGRESS, P_GAP, P_TOPOLOGY, P_GOODBYE = 1, 2, 3, 4, 5, 6


def named(names, values):
    """The fields of a positional array: missing and nil ones are their defaults."""
    values = list(values or []) + [None] * len(names)
    return {name: DEFAULTS.get(name, 0) if v is None else v for name, v in zip(names, values)}


def element(name, values):
    return named(ELEMENTS[name], values)


class Refused(Exception):
    def __init__(self, code, message):
        super().__init__("%d %s" % (code, message))
        self.code, self.message = code, message


class Client:
    """One connection. Replies and pushes are kept until somebody asks for them."""

    def __init__(self, address, hello=(1, 1), first_id=1):
        self.s = socket.create_connection(address, timeout=20)
        self.next_id, self.replies, self.pushes, self.asked = first_id, {}, [], {}
        if hello:
            self.welcome = element("welcome", self.call("hello", list(hello))["welcome"])
            self.limits = element("limits", self.welcome["limits"])

    def close(self):
        self.s.close()

    def raw(self, payload):
        self.s.sendall(struct.pack(">I", len(payload)) + payload)

    def frame(self, op, *args, id=None):
        if id is None:
            id, self.next_id = self.next_id, self.next_id + 1
        op = NUMBERS.get(op, op)
        self.asked[id] = op
        payload = pack([id, op, *args])
        return id, struct.pack(">I", len(payload)) + payload

    def send(self, op, *args, id=None):
        id, frame = self.frame(op, *args, id=id)
        self.s.sendall(frame)
        return id

    def call(self, op, *args):
        return self.reply(self.send(op, *args))

    def receive(self):
        """The next frame, None when the server has closed."""
        head = self.exactly(4)
        if head is None:
            return None
        return unpack(self.exactly(struct.unpack(">I", head)[0]))

    def exactly(self, n):
        b = b""
        while len(b) < n:
            try:
                more = self.s.recv(n - len(b))
            except ConnectionResetError:
                more = b""
            if not more:
                return None
            b += more
        return b

    def take(self):
        """Receives one frame and files it."""
        f = self.receive()
        if f is None:
            raise EOFError("the server closed the connection: %s" % self.pushes)
        if f[0] == 0:
            self.pushes.append(f[1:])
        else:
            self.replies[f[0]] = f[1:]

    def reply(self, id):
        while id not in self.replies:
            self.take()
        code, *rest = self.replies.pop(id)
        if code != 0:
            raise Refused(code, (rest or [""])[0])
        return named(RESULTS.get(self.asked[id], []), rest)

    def push(self, kind):
        """The fields of the next push of a kind; progress comes when it likes."""
        while True:
            for i, p in enumerate(self.pushes):
                if p[0] == kind:
                    return self.pushes.pop(i)[1:]
            self.take()

    def event(self):
        return element("event", self.push(P_EVENT))


checks = 0


def check(what, got, want=True):
    global checks
    checks += 1
    if got != want:
        raise AssertionError("%s: got %r, want %r" % (what, got, want))


def refused(what, code, says, f, *args):
    """f must be refused with a code and a message that says something."""
    try:
        got = f(*args)
    except Refused as e:
        check(what + ": code", e.code, code)
        check("%s: %r says %r" % (what, e.message, says), says in e.message)
        return
    raise AssertionError("%s: got %r, want code %d" % (what, got, code))


def closed(what, c, code, says):
    """The server says goodbye and closes."""
    f = c.receive()
    check(what + ": a goodbye", f and f[:3], [0, P_GOODBYE, code])
    check("%s: %r says %r" % (what, f[3], says), says in f[3])
    check(what + ": closed", c.receive(), None)
    c.close()


# --- what the page promises --------------------------------------------------------------


def hello(address):
    c = Client(address, hello=None)
    refused("ping before hello", 9, "hello", c.call, "ping")
    refused("no common version", 9, "version", c.call, "hello", [2, 3])
    w = element("welcome", c.call("hello", [1, 1])["welcome"])
    check("version", w["version"], 1)
    check("session", (type(w["session"]), len(w["session"])), (bytes, 16))
    check("epoch", w["epoch"], 1)
    limits = element("limits", w["limits"])
    check("frame_bytes", limits["frame_bytes"], 4259840)
    check("other limits", all(limits[k] > 0 for k in ("in_flight", "waiting", "subscriptions", "bound_owners", "repeat_ms")))
    refused("hello again", 9, "hello", c.call, "hello", [1, 1])
    check("ping", c.call("ping"), {})
    until = time.monotonic() + 30
    health = c.call("health")
    while not health["ok"] and time.monotonic() < until:
        health = c.call("health")  # a server that has just been started elects a leader
    check("health", (health["ok"], health["detail"]), (True, "ready"))
    # Nil, missing, and more than the server knows.
    d = Client(address, hello=[1, 9, None, None, None, "python", None, None, None, None, "later", [[]]])
    check("version of 1 to 9", d.welcome["version"], 1)
    d.close()
    c.close()


def garbage(address):
    c = Client(address)
    c.s.sendall(b"\0\0\0\0")
    closed("length 0", c, 3, "length 0")
    c = Client(address)
    c.s.sendall(struct.pack(">I", c.limits["frame_bytes"] + 1))
    closed("over-long frame", c, 3, "limit")
    for what, payload in (("no array", pack(7)), ("no id", pack(["a", 2])), ("id 0", pack([0, 2])), ("id 2^53", pack([2**53, 2]))):
        c = Client(address)
        c.raw(payload)
        closed(what, c, 3, "id")
    c = Client(address)
    refused("unknown operation", 12, "99", c.call, 99, "x")
    refused("owner_id as integer", 3, "owner_id", c.call, "acquire", 7, 1000, [])
    refused("no owner_id", 3, "owner_id", c.call, "release")
    refused("ttl_ms too long", 3, "604800000", c.call, "renew", "alice", 604800001)
    refused("bad path", 3, "must not end with a slash", c.call, "acquire", "alice", 1000, [["db:/a/"]])
    refused("path that lies in no namespace", 3, "segments", c.call, "acquire", "alice", 1000, [["db:/"]])
    refused("two namespaces", 3, "namespace", c.call, "acquire", "alice", 1000, [["db:/a/x"], ["db:/b/x"]])
    refused("flags that exclude each other", 3, "flags", c.call, "acquire", "alice", 1000, [["db:/a/x"]], 0, [], "", 0, WAIT | NO_QUEUE)
    c.asked[c.next_id] = 2
    c.raw(pack([c.next_id, 2]) + b"\0")
    refused("bytes after the array", 3, "follow", c.reply, c.next_id)
    c.next_id += 1
    check("the connection goes on", c.call("ping"), {})
    # A frame may come in many packets, many frames in one.
    id, frame = c.frame("ping")
    for i in range(len(frame)):
        c.s.sendall(frame[i:i + 1])
    check("ping, byte by byte", c.reply(id), {})
    frames = [c.frame("ping") for _ in range(100)]
    c.s.sendall(b"".join(f for _, f in frames))
    check("100 pings in one write", [c.reply(id) for id, _ in frames], [{}] * 100)
    c.close()


def locking(address):
    a, b = Client(address), Client(address)
    p = "db:/mail/box"
    meta = ["web-1", 4711, 1767225600000, "b-7", "worker", {"job": "mail"}]
    got = a.call("acquire", "alice", 30000, [[p]], 0, [], "", 0, 0, meta)
    check("acquire", (got["status"], got["namespace"]), (OK, "db:/mail"))
    first = got["fencing_token"]
    check("fencing token", first > 0)
    check("acquire again keeps the token", a.call("acquire", "alice", 30000, [[p]])["fencing_token"], first)
    check("held", a.call("acquire", "alice", 30000, [[p, WRITE, 1]])["status"], OK)
    lost = b.call("acquire", "bob", 30000, [[p, WRITE, 1]])
    check("held by another", (lost["status"], lost["reason"]), (LOST, 14))

    got = b.call("acquire", "bob", 30000, [[p]], 0, None, None, None, NO_QUEUE)
    check("no_queue", [got[k] for k in ("status", "path", "owner", "reason")], [CONFLICT, p, "alice", 2])
    got = b.call("acquire", "bob", 30000, [["db:/mail/box/1"]], 0, None, None, None, NO_QUEUE)
    check("below a write", [got[k] for k in ("status", "path", "owner", "reason")], [CONFLICT, p, "alice", 1])
    got = b.call("acquire", "bob", 30000, [[p]])
    check("queued", [got[k] for k in ("status", "path", "owner", "reason", "namespace", "position")], [QUEUED, p, "alice", 2, "db:/mail", 1])
    check("its token", got["fencing_token"] > first)
    check("asked again", b.call("acquire", "bob", 30000, [[p]])["status"], QUEUED)
    check("release_all", b.call("release_all", "bob"), {})

    waits = b.send("acquire", "bob", 30000, [[p]], 0, [], "", 5000, WAIT)
    q = named(["request_id"] + RESULTS[3], b.push(P_QUEUED))
    check("queued push", [q[k] for k in ("request_id", "status", "path", "owner", "reason", "position")], [waits, QUEUED, p, "alice", 2, 1])
    check("other requests go on", b.call("ping"), {})
    d = b.call("describe", p)
    holder = element("lock", d["holders"][0])
    check("describe: holder", [holder[k] for k in ("owner", "path", "mode", "has_fence", "fence")], ["alice", p, WRITE, True, first])
    check("describe: lease", 0 < holder["expires_in_ms"] <= 30000)
    check("describe: since", abs(holder["since_unix_ms"] - time.time() * 1000) < 60000)
    check("describe: metadata", element("metadata", holder["metadata"]), element("metadata", meta))
    waiter = element("waiter", d["waiters"][0])
    check("describe: waiter", [waiter[k] for k in ("owner", "path", "mode", "position", "open")], ["bob", p, WRITE, 1, True])
    check("describe: the rest", (d["namespace"], d["algorithm"], d["has_fence"], d["fence"], d["waiters_total"]), ("db:/mail", 0, True, first, 1))
    check("release", a.call("release", "alice", [[p]]), {})
    got = b.reply(waits)
    check("granted", (got["status"], got["namespace"]), (OK, "db:/mail"))
    check("its token is higher", got["fencing_token"] > first)
    check("assert_fencing", b.call("assert_fencing", "bob", got["fencing_token"], [p])["status"], OK)
    stale = b.call("assert_fencing", "alice", first, [p])
    check("assert_fencing of the old one", (stale["status"], stale["path"], stale["reason"]), (1, p, 18))

    waits = a.send("acquire", "alice", 30000, [[p]], 0, [], "", 0, WAIT)
    a.push(P_QUEUED)
    check("cancel", a.call("cancel", waits), {})
    refused("cancelled", 1, "cancel", a.reply, waits)
    check("cancel of nothing", a.call("cancel", waits), {})
    waits = a.send("acquire", "alice", 30000, [[p]], 0, [], "", 50, WAIT)
    refused("waited too long", 4, "queue_ttl_ms", a.reply, waits)
    refused("id that waits", 3, "request id", in_use, a, p)

    # Release and the next acquire in one write, then reads beside reads.
    (r, f1), (q, f2) = b.frame("release", "bob", [[p]]), b.frame("acquire", "bob", 30000, [[p, READ]])
    b.s.sendall(f1 + f2)
    b.reply(r)
    check("read after release", b.reply(q)["status"], OK)
    check("read beside it", a.call("acquire", "alice", 30000, [[p, READ]])["status"], OK)
    got = a.call("inspect_path", p)
    check("inspect_path", (got["write_owner"], got["read_owners"], got["has_fence"]), ("", ["alice", "bob"], True))
    got = a.call("list_owner_locks", "alice")
    locks = [element("lock", l) for l in got["locks"]]
    check("list_owner_locks", (got["alive"], [(l["path"], l["mode"]) for l in locks]), (True, [(p, READ)]))
    check("is_owner_alive", a.call("is_owner_alive", "alice", ["db:/mail"])["alive"])
    check("is_owner_alive elsewhere", not a.call("is_owner_alive", "alice", ["db:/other"])["alive"])
    for op, args in (("scan_locks", ("db:/mail",)), ("dump_locks", ())):
        entries, cursor, done = [], b"", False
        while not done:
            page = a.call(op, *args, cursor, 1)
            entries += [element("lock", l) for l in page["entries"]]
            cursor, done = page["next_cursor"], page["done"]
        check(op, sorted((l["owner"], l["path"], l["mode"]) for l in entries), [("alice", p, READ), ("bob", p, READ)])
    refused("a cursor of our own", 3, "cursor", a.call, "dump_locks", b"xyz")
    renewed = a.call("renew", "alice", 60000, ["db:/mail"])
    check("renew", (renewed["status"], renewed["revoke_requested"]), (OK, False))
    lost = a.call("renew", "nobody", 60000)
    check("renew of nothing", (lost["status"], lost["reason"]), (1, 14))
    for c, owner in ((a, "alice"), (b, "bob")):
        check("release_all", c.call("release_all", owner), {})
        c.close()


def in_use(a, p):
    """Asks under the id of an acquire that waits; ends that wait."""
    waits = a.send("acquire", "alice", 30000, [[p]], 0, [], "", 0, WAIT)
    a.push(P_QUEUED)
    a.send("acquire", "alice", 30000, [[p]], 0, [], "", 0, WAIT, id=waits)
    try:
        a.reply(waits)
    finally:
        a.call("cancel", waits)
        refused("cancelled", 1, "cancel", a.reply, waits)


def events(address):
    a, b = Client(address), Client(address)
    p = "ev:/x/y"
    sub = a.call("subscribe", "alice")
    check("subscribe", (sub["subscription"], len(sub["cursor"]) > 0), (1, True))
    cursor = {position[0]: position for position in sub["cursor"]}
    check("lock", a.call("acquire", "alice", 30000, [[p]])["status"], OK)
    check("request_revoke", b.call("request_revoke", "alice"), {})
    e = a.event()
    check("REVOKE", [e[k] for k in ("subscription", "number", "kind", "owner", "namespace")], [1, 1, REVOKE, "alice", ""])
    cursor[e["position"][0]] = e["position"]
    check("revoke_requested", a.call("renew", "alice", 30000)["revoke_requested"])
    check("lock of bob", b.call("acquire", "bob", 30000, [["ev:/x/z"]])["status"], OK)
    check("queued", a.call("acquire", "alice", 30000, [["ev:/x/z"]])["status"], QUEUED)
    check("release", b.call("release", "bob", [["ev:/x/z"]]), {})
    e = a.event()
    check("GRANT", [e[k] for k in ("number", "kind", "path", "namespace")], [2, GRANT, "ev:/x/z", "ev:/x"])
    check("its token", a.call("acquire", "alice", 30000, [["ev:/x/z"]])["fencing_token"], e["token"])
    a.close()
    # What happens meanwhile comes after a reconnect with the cursor.
    check("force_release", b.call("force_release", "alice"), {})
    a = Client(address)
    sub = a.call("subscribe", "alice", 0, list(cursor.values()))["subscription"]
    check("the reply comes before the pushes", a.pushes, [])
    e = a.event()
    check("GRANT again", [e[k] for k in ("number", "kind", "path")], [1, GRANT, "ev:/x/z"])
    e = a.event()
    check("KILLED", [e[k] for k in ("number", "kind", "owner")], [2, KILLED, "alice"])
    check("unsubscribe", a.call("unsubscribe", sub), {})
    check("it holds nothing", a.call("list_owner_locks", "alice"), {"alive": False, "locks": []})
    # One that asked for it hears of a lease that ran out.
    a.call("subscribe", "carol", 1 << EXPIRED)
    check("short lease", a.call("acquire", "carol", 50, [[p]])["status"], OK)
    e = a.event()
    check("EXPIRED", [e[k] for k in ("kind", "owner", "namespace")], [EXPIRED, "carol", "ev:/x"])
    refused("unknown kinds", 3, "kinds", a.call, "subscribe", "alice", 1 << 40)
    # A killed owner's wait ends with code 10.
    check("lock", b.call("acquire", "bob", 30000, [[p]])["status"], OK)
    waits = a.send("acquire", "alice", 30000, [[p]], 0, [], "", 0, WAIT)
    a.push(P_QUEUED)
    b.call("force_release", "alice")
    refused("killed while it waited", 10, "killed", a.reply, waits)
    b.call("release_all", "bob")
    a.close()
    b.close()


def sessions(address):
    p = "se:/x"
    session = os.urandom(16)
    a = Client(address, hello=[1, 1, session, 1], first_id=1)
    check("session", (a.welcome["session"], a.welcome["epoch"]), (session, 1))
    asked = a.send("acquire", "alice", 30000, [[p]])
    token = a.reply(asked)["fencing_token"]
    b = Client(address, hello=None, first_id=10)
    refused("epoch that is not higher", 9, "epoch", b.call, "hello", [1, 1, session, 1])
    b.close()
    # A later connection takes over; the earlier one is told and closed.
    b = Client(address, hello=[1, 1, session, 2], first_id=20)
    closed("the earlier connection", a, 10, "later connection")
    b.asked[asked] = 3
    b.send("acquire", "alice", 30000, [[p]], id=asked)
    got = b.reply(asked)
    check("repeated", (got["status"], got["fencing_token"]), (OK, token))
    b.send("acquire", "alice", 30000, [["se:/x/y"]], id=asked)
    refused("another request under a used id", 3, "request id", b.reply, asked)
    b.call("release", "alice", [[p]])
    b.asked[asked] = 3
    b.send("acquire", "alice", 30000, [[p]], id=asked)
    got = b.reply(asked)
    check("repeated after the release: never a second time", got["status"], LOST)
    b.call("release_all", "alice")
    b.close()


def leases(address):
    p = "le:/x"
    # Flag 8 and the hello's grace.
    a, b = Client(address, hello=[1, 1, b"", 1, "", "py", 0, 0, None, 100]), Client(address)
    check("bound acquire", a.call("acquire", "alice", 600000, [[p]], 0, [], "", 0, BIND)["status"], OK)
    waits = b.send("acquire", "bob", 600000, [[p]], 0, [], "", 20000, WAIT)
    b.push(P_QUEUED)
    began = time.monotonic()
    a.close()
    check("granted when the connection closed", b.reply(waits)["status"], OK)
    check("and not when the TTL was over", time.monotonic() - began < 10)
    # bind: an owner as a whole.
    got = b.call("bind", "bob", 100, 600000)
    check("bind", (got["status"], got["revoke_requested"]), (OK, False))
    c = Client(address)
    check("bind before it holds anything", c.call("bind", "carol", 100)["status"], 1)
    check("unbind", c.call("unbind", "carol"), {})
    waits = c.send("acquire", "carol", 600000, [[p]], 0, [], "", 20000, WAIT)
    c.push(P_QUEUED)
    b.close()
    check("granted when the owner's connection closed", c.reply(waits)["status"], OK)
    c.call("release_all", "carol")
    c.close()


def semaphores(address):
    a, b = Client(address), Client(address)
    p = "sem:/pool/db"
    check("set_namespace_policy", a.call("set_namespace_policy", "sem:/pool", 4), {})
    got = b.call("get_namespace_policy", "sem:/pool")
    check("get_namespace_policy", (got["algorithm"], got["explicit"]), (4, True))
    check("first permit", a.call("acquire", "alice", 30000, [[p, WRITE, 0, 2]])["status"], OK)
    got = b.call("acquire", "bob", 30000, [[p, WRITE, 0, 3]])
    check("another capacity", [got[k] for k in ("status", "owner", "reason")], [CONFLICT, "2", 8])
    check("second permit", b.call("acquire", "bob", 30000, [[p, WRITE, 0, 2]])["status"], OK)
    got = b.call("acquire", "carol", 30000, [[p, WRITE, 0, 2]], 0, [], "", 0, NO_QUEUE)
    check("full", [got[k] for k in ("status", "owner", "reason")], [CONFLICT, "alice", 9])
    check("is_blocking", b.call("is_blocking", p, "alice", 9)["blocking"])
    check("reads are refused", b.call("acquire", "carol", 30000, [[p, READ]])["reason"], 6)
    check("semaphore_owners", b.call("inspect_path", p)["semaphore_owners"], ["alice", "bob"])
    check("delete_namespace_policy", a.call("delete_namespace_policy", "sem:/pool"), {})
    got = b.call("get_namespace_policy", "sem:/pool")
    check("the default", (got["algorithm"], got["explicit"]), (0, False))
    check("a new algorithm clears the locks", not b.call("is_owner_alive", "alice")["alive"])
    a.close()
    b.close()


def deadlocks(address):
    a = Client(address)
    paths = {"alice": "dl:/x/1", "bob": "dl:/x/2"}
    for owner, p in paths.items():
        check("lock of " + owner, a.call("acquire", owner, 30000, [[p]])["status"], OK)
    check("no edge", a.call("detect_cycle", "alice", 8)["kind"], 0)
    check("edge", a.call("set_wait_edge", "alice", "bob", 30000, paths["bob"], 2), {})
    check("edge back", a.call("set_wait_edge", "bob", "alice", 30000), {})
    got = a.call("detect_cycle", "alice", 8)
    check("a cycle", (got["kind"], got["chain"]), (1, ["alice", "bob"]))
    refused("a path without a reason", 3, "conflict_path and reason", a.call, "set_wait_edge", "alice", "bob", 30000, "dl:/x/2")
    check("clear_wait_edge", a.call("clear_wait_edge", "bob"), {})
    check("no cycle", a.call("detect_cycle", "alice", 8)["kind"], 0)
    one = a.call("incr_fencing_token", "key-1")["token"]
    check("incr_fencing_token", a.call("incr_fencing_token")["token"], one + 1)
    check("the same key, the same answer", a.call("incr_fencing_token", "key-1")["token"], one)
    t = element("topology", a.call("topology", True)["topology"])
    check("topology", ([n[0] for n in t["nodes"]], t["self"] in t["leaders"]), ([t["self"]], True))
    check("topology unwatched", element("topology", a.call("topology")["topology"])["groups"], t["groups"])
    for owner in paths:
        a.call("release_all", owner)
    a.close()


def bulk(address):
    a = Client(address)
    many = [["bu:/x/%d" % i] for i in range(2000)]
    refused("2000 paths", 3, "1024", a.call, "acquire", "alice", 30000, many)
    check("2000 paths in bulk", a.call("acquire", "alice", 30000, many, 0, [], "", 0, BULK)["status"], OK)
    check("list_owner_locks", len(a.call("list_owner_locks", "alice")["locks"]), 2000)
    check("writes_below", a.call("describe", "bu:/x")["writes_below"], 2000)
    a.call("release_all", "alice")
    a.close()


# --- sections 8 and 10 -----------------------------------------------------------------------


def ten_lines(address):
    """Runs the client that the page prints."""
    code = page().split("```python\n")[1].split("```")[0]
    printed = []
    sys.modules.setdefault("msgpack", types.SimpleNamespace(packb=pack, unpackb=unpack))
    exec(code.replace("50050", str(address[1])), {"print": printed.append})
    check("the page's client: ids and codes", [p[:2] for p in printed], [[1, 0], [2, 0], [3, 0]])
    check("the page's client: a token", printed[1][6] > 0)


def vectors(address):
    """Reads every request, reply and push of the vectors with this file's msgpack."""
    for v in json.load(open(os.path.join(WIRE, "testdata", "vectors.json"), encoding="utf-8"))["vectors"]:
        if "reject" in v:
            continue
        frame = bytes.fromhex(v["hex"])
        check(v["name"], struct.unpack(">I", frame[:4])[0], len(frame) - 4)
        if v.get("canonical"):
            check(v["name"], pack(unpack(frame[4:])), frame[4:])


def page():
    return open(os.path.join(WIRE, "PROTOCOL.md"), encoding="utf-8").read()


def main():
    address = (sys.argv[1], int(sys.argv[2]))
    for part in (hello, garbage, locking, events, sessions, leases, semaphores, deadlocks, bulk, ten_lines, vectors):
        before = checks
        part(address)
        print("%s: %d checks" % (part.__name__, checks - before), flush=True)
    print("ok: %d checks, %s" % (checks, "the msgpack library" if msgpack else "a msgpack of its own"))


main()
