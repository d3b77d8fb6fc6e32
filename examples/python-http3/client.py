"""HTTP/3 with aioquic: a second connection that asks before its handshake is over (0-RTT)."""

import asyncio
import json
import os
import uuid

from aioquic.asyncio.client import connect
from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.h3.connection import H3_ALPN, H3Connection
from aioquic.h3.events import DataReceived, HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import HandshakeCompleted

HOST, PORT = os.environ.get("PATHLOCKD_H3", "127.0.0.1:50443").rsplit(":", 1)
CA = os.environ.get("PATHLOCKD_CA", "pathlockd-data/dev-cert.pem")
TIMEOUT = 10  # seconds that all this may take
RUN = uuid.uuid4().hex[:8]
PATH = f"example:/python-http3/{RUN}"
ACQUIRE = {"ownerId": f"alice-{RUN}", "ttlMs": 10_000, "requests": [{"path": PATH}]}
RELEASE = {"ownerId": f"alice-{RUN}", "requests": [{"path": PATH}]}


class Client(QuicConnectionProtocol):
    """Requests over one connection, any number at once."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self._http = H3Connection(self._quic)
        self._answers = {}  # by stream: [status, body so far, future of both]
        # Done when the handshake is: whether the server took what was sent before.
        self.took_early_data = asyncio.get_running_loop().create_future()

    def send(self, method, path, body=None):
        """Sends a request now, and returns the future of its status and its answer."""
        stream = self._quic.get_next_available_stream_id()
        answered = asyncio.get_running_loop().create_future()
        self._answers[stream] = [0, b"", answered]
        headers = {":method": method, ":scheme": "https", ":authority": f"{HOST}:{PORT}", ":path": path}
        if body is not None:
            headers["content-type"] = "application/json"
        self._http.send_headers(stream, [(k.encode(), v.encode()) for k, v in headers.items()], body is None)
        if body is not None:
            self._http.send_data(stream, json.dumps(body).encode(), end_stream=True)
        self.transmit()
        return answered

    def quic_event_received(self, event):
        if isinstance(event, HandshakeCompleted):
            self.took_early_data.set_result(event.early_data_accepted)
        for got in self._http.handle_event(event):
            if got.stream_id not in self._answers:
                continue
            answer = self._answers[got.stream_id]
            if isinstance(got, HeadersReceived):
                answer[0] = int(dict(got.headers)[b":status"])
            elif isinstance(got, DataReceived):
                answer[1] += got.data
            if got.stream_ended:
                del self._answers[got.stream_id]
                answer[2].set_result((answer[0], json.loads(answer[1])))


def expect(what, got, wanted):
    if got != wanted:
        raise SystemExit(f"{what}: got {got!r}, wanted {wanted!r}")
    print(f"{what}: {got}")


async def main():
    tickets = asyncio.Queue()  # what lets a later connection begin where this one was
    config = QuicConfiguration(alpn_protocols=H3_ALPN, cafile=CA)
    async with connect(
        HOST, int(PORT), configuration=config, create_protocol=Client, session_ticket_handler=tickets.put_nowait
    ) as client:
        status, health = await client.send("GET", "/v1/health")
        expect("first connection: health", (status, health["ok"]), (200, True))
        config.session_ticket = await tickets.get()

    # Not waiting until it is connected: what is sent first goes out with the first packets.
    async with connect(
        HOST, int(PORT), configuration=config, create_protocol=Client, wait_connected=False
    ) as client:
        get, post = client.send("GET", "/v1/health"), client.send("POST", "/v1/acquire", ACQUIRE)
        status, health = await get
        expect("0-RTT: health", (status, health["ok"]), (200, True))
        # Early data could be played back by somebody who listened in. So what changes
        # something is not carried out; 425 asks to send it again after the handshake.
        status, refused = await post
        expect("0-RTT: acquire", status, 425)
        print("  " + refused["error"]["message"])
        expect("after the handshake: early data was taken", await client.took_early_data, True)
        status, answer = await client.send("POST", "/v1/acquire", ACQUIRE)
        expect("the same, sent again", (status, answer["status"]), (200, "ACQUIRE_STATUS_OK"))
        status, _ = await client.send("POST", "/v1/release", RELEASE)
        expect("release", status, 200)


asyncio.run(asyncio.wait_for(main(), TIMEOUT))
