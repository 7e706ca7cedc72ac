"""A publisher to Kafka. It collects reports in frames and sends them until Kafka acknowledges, in bounded memory."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from os import PathLike
from types import TracebackType
from typing import Any, Self

from hubbub.in_flight import InFlight
from hubbub.kafka.clients import producer as kafka_producer
from hubbub.kafka.clients import started, stop
from hubbub.kafka.settings import QUERIES, Kafka
from hubbub.kafka.settings import REPORTS as TOPIC
from oracles.errors import HubbubError, ParameterError, ReportError, extra
from oracles.query import Query
from oracles.query.groups import number_of
from oracles.types import Reports
from producers.errors import DeliveryError
from producers.publishers.frames import BYTES, COST, LINGER, REPORTS, Batches, OutgoingFrame, pane_of, wait
from producers.publishers.routes import Routes, open_routes
from producers.publishers.spool import Spool

with extra("kafka"):
    from aiokafka.errors import KafkaError, ProducerClosed

log = logging.getLogger(__name__)

MEMORY = 16 << 20
"""Default bytes for reports that Kafka has not acknowledged."""
PATIENCE = 60.0
"""Default seconds that a call waits."""
_REQUEST = 10_000
"""Milliseconds until a request to a silent broker is sent again, perhaps to another broker."""
_RETRY = 0.2
"""Seconds between two tries."""
_ENVELOPE = 4096
"""Upper limit of the bytes of a request in addition to its frame."""


class Publisher:
    """A publisher to the topic `reports`: `async with Publisher(kafka) as publisher`.

    It sends a frame when the frame holds `reports` reports or `size` bytes, when its first report has waited
    `linger` seconds, or when its pane ends. It sends the frame again, under the same id, until Kafka has it.
    Unacknowledged reports take at most `memory` bytes. If the memory is full, `put` waits. A call that has waited
    `patience` seconds raises a DeliveryError, but the publisher keeps trying until `close`.

    `spool` is a folder for this publisher alone. Each frame stays there until Kafka has it. If a publisher is killed,
    the next one sends its frames, and workers count them once. A record states the start of its pane, and no finer
    time.
    """

    def __init__(
        self,
        kafka: Kafka,
        *,
        reports: int = REPORTS,
        size: int = BYTES,
        linger: float = LINGER,
        memory: int = MEMORY,
        patience: float = PATIENCE,
        spool: str | PathLike[str] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        if memory < size + COST:
            raise ParameterError(f"memory must be at least size + {COST} = {size + COST} bytes, got {memory}")
        if linger < 0 or patience <= 0:
            raise ParameterError(f"linger must be at least 0 s and patience above 0 s, got {linger} and {patience}")

        self._kafka = kafka
        self._topic = kafka.topic(TOPIC)
        self._size = size
        self._linger = linger
        self._memory = memory
        self._patience = patience
        self._spool = None if spool is None else Spool(spool)
        self._clock = clock

        self._batches = Batches(reports, size)
        self._producer: Any = None
        self._routes = Routes(kafka, 0, None)
        self._stack = AsyncExitStack()
        self._in_flight = InFlight(memory, others=lambda: self._batches.weight)
        self._timer: asyncio.TimerHandle | None = None

    async def start(self) -> None:
        """Connect, and send the frames that an earlier publisher left in the spool."""
        producer = kafka_producer(
            self._kafka,
            acks="all",
            enable_idempotence=False,  # a producer id would link frames, and their ids prevent duplicates already
            max_request_size=max(self._size + _ENVELOPE, 1 << 20),
            request_timeout_ms=_REQUEST,
        )

        try:
            self._producer = await self._stack.enter_async_context(started(producer, self._kafka))
            self._routes = await self._stack.enter_async_context(await self._find_routes())
            frames = self._spool.frames() if self._spool else iter(())
            for frame in frames:
                async with self._room(frame.weight):
                    self._send(frame)
        except BaseException as error:
            await self._stop()
            if isinstance(error, KafkaError):
                raise DeliveryError(f"Kafka at {self._kafka.servers} refused this publisher: {error}") from error
            raise

    async def put(
        self, query: Query, reports: Reports, at: float | None = None, *, group: str | int | None = None
    ) -> None:
        """Accept reports of a query: uint8, (n, width), as `Client.answer` and `perturb` return them.

        `at` is the time of the answers, in seconds since the Unix epoch. The default is now. `group` is that of all
        these reports, such as `Client.group`. If earlier reports have errors, they are raised here, and none of these
        reports is accepted. Only if the memory is full, some of them may be.
        """
        self._check()
        self._routes.note(query)

        malformed_report = query.oracle.check(reports)
        if malformed_report is not None:
            raise ReportError(f"report {malformed_report} is malformed", malformed_report)

        time_s = self._clock() if at is None else at
        number = number_of(query.groups, group)
        pane = pane_of(query, time_s)
        linger = wait(query, time_s, self._linger)
        capacity = self._batches.capacity(query.oracle.width)

        for start in range(0, len(reports), capacity):
            part = reports[start : start + capacity]
            async with self._room(part.nbytes + COST):
                deadline = asyncio.get_running_loop().time() + linger
                for frame in self._batches.add(query, pane, part, deadline, number):
                    self._send(frame)
                self._set_timer()

    async def flush(self) -> None:
        """Send all reports, and wait until Kafka has them."""
        for frame in self._batches.rest():
            self._send(frame)
        reports = await self._in_flight.flush(self._patience)
        if reports:
            raise DeliveryError(f"{reports} reports are not acknowledged{self._after()}", reports)
        self._raise_refused()

    async def close(self) -> None:
        """Flush and disconnect. Without a spool, reports that are not acknowledged by then are lost."""
        if self._producer is None:
            return
        try:
            await self.flush()
        finally:
            await self._stop()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self.close()
        except HubbubError as failure:
            if error is None:
                raise
            # The caller needs the error of the block first.
            log.error("%s", failure)  # noqa: TRY400 - the message says it all

    async def _find_routes(self) -> AbstractAsyncContextManager[Routes]:
        # List all topics: a request for one by name may create it.
        metadata = await self._producer.client.fetch_all_metadata()
        partitions = metadata.partitions_for_topic(self._topic)
        if not partitions:
            raise DeliveryError(f"Kafka has no topic {self._topic}; create it with `hubbub topics`")
        # Kafka lists the topics that this publisher may see.
        sees_definitions = bool(metadata.partitions_for_topic(self._kafka.topic(QUERIES)))
        return open_routes(self._kafka, len(partitions), sees_definitions=sees_definitions)

    @asynccontextmanager
    async def _room(self, size: int) -> AsyncIterator[None]:
        """Wait until `size` more bytes fit into the memory, and reserve them during the block."""
        try:
            async with self._in_flight.room(size, self._patience):
                self._check()
                yield
        except TimeoutError:
            message = f"{self._memory} bytes are not acknowledged{self._after()}"
            raise DeliveryError(message) from self._in_flight.trouble

    def _send(self, frame: OutgoingFrame) -> None:
        task = asyncio.get_running_loop().create_task(self._deliver(frame))
        self._in_flight.add(task, frame.weight, frame.n)

    async def _deliver(self, frame: OutgoingFrame) -> None:
        """Send a frame until Kafka has it, or refuses it for good."""
        # On disk before it is sent, so that a later publisher can send it under the same id.
        if self._spool:
            await asyncio.to_thread(self._spool.write, frame)

        while True:
            try:
                ack = await self._producer.send(
                    self._topic,
                    frame.data,
                    # Asked again for each try, because the spread may change meanwhile.
                    partition=await self._routes.partition(frame),
                    timestamp_ms=1000 * frame.pane,  # the time of sending stays private
                )
                await ack
                break
            except KafkaError as error:
                if not error.retriable:
                    raise
                self._in_flight.trouble = error
                await asyncio.sleep(_RETRY)

        if self._spool:
            await asyncio.to_thread(self._spool.remove, frame)

    def _set_timer(self) -> None:
        """Set the timer for the next open frame that must be sent."""
        deadline = self._batches.until
        if self._timer is not None:
            if deadline is not None and self._timer.when() <= deadline:
                return
            self._timer.cancel()
        self._timer = None if deadline is None else asyncio.get_running_loop().call_at(deadline, self._send_overdue)

    def _send_overdue(self) -> None:
        self._timer = None
        for frame in self._batches.overdue(asyncio.get_running_loop().time()):
            self._send(frame)
        self._set_timer()

    def _check(self) -> None:
        if self._producer is None:
            raise DeliveryError("the publisher is not started, or it is closed")
        self._raise_refused()

    def _raise_refused(self) -> None:
        """Raise a DeliveryError if reports were refused, once for each."""
        reports = self._in_flight.take_refused()
        if reports:
            message = f"{reports} reports could not be sent{self._in_flight.reason}"
            raise DeliveryError(message, reports) from self._in_flight.trouble

    def _after(self) -> str:
        return f" after {self._patience:g} s{self._in_flight.reason}"

    async def _stop(self) -> None:
        producer = self._producer
        self._producer = None
        if self._timer is not None:
            self._timer.cancel()
        if await self._in_flight.cancel():
            await abandon(producer)
        await self._stack.aclose()


async def abandon(producer: Any) -> None:
    """Stop a producer without waiting for missing acknowledgements. `stop` alone would wait for ever."""
    sender = producer._sender.sender_task  # noqa: SLF001 - aiokafka has no public way
    while not sender.done():
        # The first cancel ends its loop. A second one ends its request to a silent broker.
        sender.cancel()
        await asyncio.wait({sender}, timeout=_RETRY)
    await stop(producer)
    producer._message_accumulator.fail_all(ProducerClosed())  # noqa: SLF001
