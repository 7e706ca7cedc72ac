"""A broker that refuses classic groups. Apache Kafka cannot be set so yet, so a relay changes answers of a real one."""

import asyncio
import struct
import threading

import pytest

from aggregator.demo.broker import free_port
from tests.brokers import Cluster, Unavailable, skip
from tests.integration.queries import PAGE
from tests.integration.workers import Place

JOIN, VERSIONS, UNSUPPORTED = 11, 18, 35


class Relay(Cluster):
    """A broker behind a relay, which all its clients use."""

    hides = refuses = False

    def __init__(self):
        super().__init__()
        self.relay = free_port()

    def properties(self, number, node, voters):
        text = super().properties(number, node, voters)
        return text.replace(
            f"advertised.listeners=PLAINTEXT://127.0.0.1:{node.port},",
            f"advertised.listeners=PLAINTEXT://127.0.0.1:{self.relay},",
        )

    async def serve(self):
        async with await asyncio.start_server(self.connect, "127.0.0.1", self.relay) as server:
            await server.serve_forever()

    async def connect(self, client, answer):
        broker, ask = await asyncio.open_connection("127.0.0.1", self.nodes[0].port)
        keys = {}

        async def requests():
            size = await client.read(4)
            while size:
                body = await client.readexactly(int.from_bytes(size, "big"))
                key, _, number = struct.unpack_from(">hhi", body)
                keys[number] = key
                ask.write(size + body)
                size = await client.read(4)

        async def answers():
            size = await broker.read(4)
            while size:
                body = bytearray(await broker.readexactly(int.from_bytes(size, "big")))
                (number,) = struct.unpack_from(">i", body)
                body = self.change(keys.pop(number), body)
                answer.write(len(body).to_bytes(4, "big") + body)
                size = await broker.read(4)

        try:
            await asyncio.wait([asyncio.ensure_future(requests()), asyncio.ensure_future(answers())],
                               return_when=asyncio.FIRST_COMPLETED)  # fmt: skip
        finally:
            ask.close()
            answer.close()

    def change(self, key, body):
        if key == JOIN and self.refuses:
            struct.pack_into(">h", body, 8, UNSUPPORTED)  # after the number and the time of throttling
        if key == VERSIONS and self.hides:
            (count,) = struct.unpack_from(">i", body, 6)
            rows = [body[10 + 6 * i : 16 + 6 * i] for i in range(count)]
            other_rows = [row for row in rows if struct.unpack_from(">h", row)[0] != JOIN]
            body = body[:6] + struct.pack(">i", len(other_rows)) + b"".join(other_rows) + body[10 + 6 * count :]
        return body


@pytest.fixture(scope="module")
def relay():
    try:
        broker = Relay()
    except Unavailable as error:
        skip(error)
    threading.Thread(target=lambda: asyncio.run(broker.serve()), daemon=True).start()
    with broker:
        yield broker


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("how", ["hides", "refuses"])
def test_a_worker_names_the_setting_of_a_broker_that_refuses_classic_groups(relay, how, tmp_path, monkeypatch):
    with Place(relay, tmp_path, PAGE) as place:
        monkeypatch.setattr(relay, how, True)
        worker = place.start()
        assert worker.wait() == 4, worker.log_text
        assert "group.coordinator.rebalance.protocols=classic,consumer" in worker.log_text
