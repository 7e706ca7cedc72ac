"""Reports on their way to Kafka: gathered into frames, sent until they are acknowledged, in bounded memory."""

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from os import PathLike
from types import TracebackType
from typing import Any, Self

from hubbub.kafka import Kafka, started
from hubbub.names import REPORTS as TOPIC
from oracles.errors import HubbubError, ParameterError, ReportError, extra
from oracles.frame import partition_of
from oracles.query import Query
from oracles.types import Reports
from producers.batch import BYTES, COST, LINGER, REPORTS, Batches, Sealed, pane_of, wait
from producers.errors import DeliveryError
from producers.spool import Spool

with extra("kafka"):
    from aiokafka import AIOKafkaProducer
    from aiokafka.errors import KafkaError, ProducerClosed

log = logging.getLogger(__name__)

MEMORY = 16 << 20
PATIENCE = 60.0
_REQUEST = 10_000
"""Milliseconds until a request to a broker that is silent is sent again, perhaps to another."""
_RETRY = 0.2
_ENVELOPE = 4096
"""Bytes that a request has beside its frame, at most."""


class Publisher:
    """Sends reports to the topic `reports`: `async with Publisher(kafka) as publisher`.

    A frame is sent when it holds `reports` or `size` bytes, when its first report has waited
    `linger` seconds, or when its pane ends; and again, under the same id, until Kafka has it.
    `memory` bytes hold what is not acknowledged; with no room for more, `put` waits. Whoever has
    waited `patience` seconds gets a DeliveryError, and what was put is tried on until `close`.

    With a `spool`, a folder for this publisher alone, frames stand on disk meanwhile: those of one
    that was killed are sent by the next, and count once. Reports tell the start of their pane, and
    no finer time.
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
            raise ParameterError(f"memory must hold a frame of {size} bytes and {COST} more, got {memory}")
        if linger < 0 or patience <= 0:
            raise ParameterError(f"linger is at least 0 s and patience above that, got {linger} and {patience}")
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
        self._partitions = 0
        self._stack = AsyncExitStack()
        self._flying: dict[asyncio.Task[None], Sealed] = {}
        self._weight = 0
        """Of what is flying."""
        self._moved = asyncio.Event()
        """Set when something flying has ended."""
        self._timer: asyncio.TimerHandle | None = None
        self._refused = 0
        """Reports that were given up since somebody was last told, because of the trouble."""
        self._trouble: BaseException | None = None

    async def start(self) -> None:
        """Connect, and send what an earlier publisher left in the spool."""
        producer = AIOKafkaProducer(
            **self._kafka.client(),
            acks="all",
            enable_idempotence=False,  # its producer id would link a session's frames, which count once by their own
            max_request_size=max(self._size + _ENVELOPE, 1 << 20),
            request_timeout_ms=_REQUEST,
        )
        try:
            self._producer = await self._stack.enter_async_context(started(producer, self._kafka))
            self._partitions = await self._count_partitions()
            for frame in self._spool.frames() if self._spool else ():
                await self._room(frame.weight)
                self._send(frame)
        except BaseException as error:
            await self._stop()
            if isinstance(error, KafkaError):
                raise DeliveryError(f"Kafka at {self._kafka.servers} refuses this publisher: {error}") from error
            raise

    async def put(self, query: Query, reports: Reports, at: float | None = None) -> None:
        """Take reports of a query on their way: uint8, (n, width), as `Client.answer` and `perturb` give them.

        `at` is when they were given, in seconds since the Unix epoch; now, unless it is said.
        Errors of earlier reports come out here: then none of these was taken, unless memory was
        full, when some of several may have been.
        """
        self._check()
        bad = query.oracle.check(reports)
        if bad is not None:
            raise ReportError(f"report {bad} is malformed", bad)
        at = self._clock() if at is None else at
        pane, waits = pane_of(query, at), wait(query, at, self._linger)
        most = self._batches.capacity(query.oracle.width)
        for start in range(0, len(reports), most):
            part = reports[start : start + most]
            await self._room(part.nbytes + COST)
            for frame in self._batches.add(query, pane, part, asyncio.get_running_loop().time() + waits):
                self._send(frame)
            self._watch()

    async def flush(self) -> None:
        """Send all that was put, and wait until Kafka has it."""
        for frame in self._batches.rest():
            self._send(frame)
        if self._flying:
            _, late = await asyncio.wait(set(self._flying), timeout=self._patience)
            reports = sum(self._flying[task].n for task in late)
            if late:
                raise DeliveryError(f"{reports} reports are not acknowledged{self._after()}", reports)
        self._tell()

    async def close(self) -> None:
        """Flush and disconnect. What is not acknowledged by then is lost, but for the spool."""
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
            # What went wrong in the block is for its caller to know first.
            log.error("%s", failure)  # noqa: TRY400 - the message says it all

    async def _count_partitions(self) -> int:
        # All topics are listed: asking for one by name may create it.
        metadata = await self._producer.client.fetch_all_metadata()
        partitions = metadata.partitions_for_topic(self._topic)
        if not partitions:
            raise DeliveryError(f"there is no topic {self._topic}; `hubbub topics` creates what is needed")
        return len(partitions)

    async def _room(self, size: int) -> None:
        """Wait until so much more may be held."""
        if self._full(size):
            try:
                async with asyncio.timeout(self._patience):
                    while self._full(size):
                        self._moved.clear()
                        await self._moved.wait()
            except TimeoutError:
                raise DeliveryError(f"{self._memory} bytes are not acknowledged{self._after()}") from self._trouble
            self._check()

    def _full(self, size: int) -> bool:
        held = self._weight + self._batches.weight
        return held > 0 and held + size > self._memory

    def _send(self, frame: Sealed) -> None:
        task = asyncio.get_running_loop().create_task(self._deliver(frame))
        self._flying[task] = frame
        self._weight += frame.weight
        task.add_done_callback(self._landed)

    async def _deliver(self, frame: Sealed) -> None:
        """Send one frame until Kafka has it or refuses it for good."""
        if self._spool:
            await asyncio.to_thread(self._spool.write, frame)
        while True:
            try:
                sent = await self._producer.send(
                    self._topic,
                    frame.data,
                    partition=partition_of(frame.id, self._partitions),
                    timestamp_ms=1000 * frame.pane,  # the time of sending is nobody's business
                )
                await sent
                break
            except KafkaError as error:
                if not error.retriable:
                    raise
                self._trouble = error
                await asyncio.sleep(_RETRY)
        if self._spool:
            await asyncio.to_thread(self._spool.remove, frame)

    def _landed(self, task: asyncio.Task[None]) -> None:
        frame = self._flying.pop(task)
        self._weight -= frame.weight
        self._moved.set()
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._refused += frame.n
            self._trouble = error
        elif not self._refused:
            self._trouble = None

    def _watch(self) -> None:
        """Set the timer for the frame that has to go first."""
        until = self._batches.until
        if self._timer is not None:
            if until is not None and self._timer.when() <= until:
                return
            self._timer.cancel()
        self._timer = None if until is None else asyncio.get_running_loop().call_at(until, self._ring)

    def _ring(self) -> None:
        self._timer = None
        for frame in self._batches.overdue(asyncio.get_running_loop().time()):
            self._send(frame)
        self._watch()

    def _check(self) -> None:
        if self._producer is None:
            raise DeliveryError("the publisher is not started, or closed")
        self._tell()

    def _tell(self) -> None:
        """Raise, once, what became of reports that were given up."""
        if self._refused:
            reports, self._refused = self._refused, 0
            raise DeliveryError(f"{reports} reports could not be sent{self._because()}", reports) from self._trouble

    def _after(self) -> str:
        return f" after {self._patience:g} s{self._because()}"

    def _because(self) -> str:
        return f": {type(self._trouble).__name__}: {self._trouble}" if self._trouble else ""

    async def _stop(self) -> None:
        producer, self._producer = self._producer, None
        if self._timer is not None:
            self._timer.cancel()
        if self._flying:
            for task in self._flying:
                task.cancel()
            await asyncio.wait(set(self._flying))
            await abandon(producer)
        await self._stack.aclose()


async def abandon(producer: Any) -> None:
    """Stop a producer without waiting for what Kafka never acknowledged: `stop` alone would wait for ever."""
    sender = producer._sender.sender_task  # noqa: SLF001 - aiokafka has no public way
    while not sender.done():
        # Asked once it leaves its loop, asked again it leaves a request that a silent broker has.
        sender.cancel()
        await asyncio.wait({sender}, timeout=_RETRY)
    await producer.stop()
    producer._message_accumulator.fail_all(ProducerClosed())  # noqa: SLF001
