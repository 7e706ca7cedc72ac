"""A publisher to a gateway over HTTP. It writes reports to disk, then sends them until the gateway accepts them."""

import asyncio
import logging
import random
import time
from collections.abc import Callable
from ipaddress import ip_address
from os import PathLike
from types import TracebackType
from typing import Any, Protocol, Self
from urllib.parse import urlsplit

from hubbub.in_flight import InFlight
from oracles.errors import ParameterError, ReportError, extra
from oracles.frame import HEADER_SIZE, header
from oracles.query import Query
from oracles.query.groups import number_of
from oracles.types import Reports
from producers.errors import DeliveryError, Stopped, StoreError
from producers.pins import Pins, read_pins
from producers.publishers.frames import COST, OutgoingFrame, capacity, pane_of
from producers.publishers.gateway_answers import detail, is_final, reason, seconds
from producers.publishers.gateway_states import GatewayStates
from producers.publishers.known_state import refuse_stopped, usable
from producers.publishers.pinned_query import pin_query
from producers.publishers.spool import Spool

with extra("http"):
    import aiohttp

log = logging.getLogger(__name__)

QUEUE = 16 << 20
"""Default bytes of the queue on disk."""
PATIENCE = 60.0
"""Default seconds that a call waits."""
_LONGEST_PAUSE = 60.0
"""Longest pause between two tries, in seconds. A gateway may ask for more."""
_FIRST_PAUSE = 0.5
"""First pause, in seconds."""
_REQUEST = 30.0
"""Seconds for one request."""
_STATE = 10.0
"""Seconds for a request for the state. An answer waits for it."""
_LISTING = 32 << 20
"""Upper limit of a list of queries, in bytes."""
_REQUESTS = 4
"""Requests at a time."""
_ENDLESS = 1 << 30

Token = str | Callable[[], str] | None


class AnsweringClient(Protocol):
    """A client whose answers a publisher sends, such as a Client."""

    query: Query
    group: int
    answered: float | None

    def answer(self, *value: Any) -> Reports: ...


class HttpPublisher:
    """A publisher to a gateway: `async with HttpPublisher(url, queue="folder", token=...) as publisher`.

    Each frame stays in the folder `queue`, of at most `most` bytes, until the gateway accepts it, also through
    restarts. Every try sends the frame under the same key, so workers count it once, even if several tries or several
    gateways sent it. `token` is a text, or a function that returns a short-lived token before each try. Use one folder
    for each publisher.
    """

    def __init__(
        self,
        url: str,
        *,
        queue: str | PathLike[str],
        token: Token = None,
        most: int = QUEUE,
        patience: float = PATIENCE,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme != "https" and not (parts.scheme == "http" and is_local(parts.hostname or "")):
            raise ParameterError(
                f"a gateway's address must be https://HOST[:PORT] (http:// only on this machine), got {url!r}"
            )

        self._url = url.rstrip("/")
        self._spool = Spool(queue)
        self._token = token
        self._most = most
        self._patience = patience
        self._clock = clock
        self._states = GatewayStates(self._spool.folder, self._read_state, clock, monotonic)
        self._session: aiohttp.ClientSession | None = None
        self._in_flight = InFlight(most)
        self._slots = asyncio.Semaphore(_REQUESTS)

    async def start(self) -> None:
        """Connect, and send the frames that an earlier publisher left in the queue."""
        self._session = aiohttp.ClientSession(
            headers={"User-Agent": "hubbub"},  # the same for all devices
            # A cookie would link the requests of a device.
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=_REQUEST),
        )
        for frame in await asyncio.to_thread(lambda: list(self._spool.frames())):
            self._send(frame)

    async def query(self, name: str, *, max_epsilon: float, pinned: Pins = None) -> Query:
        """Return the gateway's definition of a query. Raise NotAllowed if it is outside the application's limits.

        `pinned` has members of an item of `GET /v1/queries`, as `hubbub pin` prints them, or is a Query.
        """
        pins = read_pins(pinned)
        session = self._open()
        try:
            async with asyncio.timeout(self._patience):
                for tries in range(_ENDLESS):
                    status, body, requested_pause = await self._request(session, "GET", "/v1/queries")
                    if status == 200:
                        return pin_query(body, name, max_epsilon, self._url, pins)
                    await asyncio.sleep(_pause(tries, requested_pause))
        except TimeoutError:
            pass
        raise DeliveryError(f"{self._url} did not list its queries within {self._patience:g} s{self._in_flight.reason}")

    async def answer(self, client: AnsweringClient, *value: Any) -> None:
        """Let the client answer, and write its report to the queue on disk.

        The gateway's state must be at most 10 minutes old. Without contact a state within the query's `lateness` is
        enough. Raise Stopped or NotAllowed if the query must not be answered, and DeliveryError if no state is known
        or the queue is full. Nothing is charged then.
        """
        self._open()
        query = client.query
        state = await self._states.newest()
        state = usable(state, self._states.moment(), query.lateness, self._in_flight.reason)
        await self._states.keep()
        refuse_stopped(state, query.name, query.digest.hex())

        # Before the charge, which is never given back.
        self._raise_refused()
        self._check_room(query.oracle.width + COST, 1)
        report = client.answer(*value)
        await self.put(query, report, at=client.answered, group=client.group)

    async def put(
        self, query: Query, reports: Reports, at: float | None = None, *, group: str | int | None = None
    ) -> None:
        """Write reports to the queue on disk, then return. The publisher sends them later.

        `at` is the time of the answers, in seconds since the Unix epoch. The default is now. `group` is that of all
        these reports, such as `Client.group`. If earlier reports were refused, or if the queue is full, a DeliveryError
        is raised, and none of these reports is accepted.
        """
        self._open()
        self._raise_refused()

        malformed_report = query.oracle.check(reports)
        if malformed_report is not None:
            raise ReportError(f"report {malformed_report} is malformed", malformed_report)

        pane = pane_of(query, self._clock() if at is None else at)
        limit = capacity(query.oracle.width)
        parts = (reports[start : start + limit] for start in range(0, len(reports), limit))
        number = number_of(query.groups, group)
        frames = [OutgoingFrame.of(query.digest, pane, part, number) for part in parts]

        self._check_room(sum(frame.weight for frame in frames), len(reports))

        for frame in frames:
            # On disk before it is sent: after a crash the next publisher sends it under the same key.
            await asyncio.to_thread(self._spool.write, frame)
            self._send(frame)

    def _check_room(self, size: int, reports: int) -> None:
        total = self._in_flight.bytes
        if total + size > self._most:
            message = f"the queue is full: {total} of {self._most} bytes are in use, and these reports need {size}"
            raise DeliveryError(f"{message}{self._in_flight.reason}", reports)

    async def flush(self) -> None:
        """Wait until all reports are accepted, or refused for good. Raise a DeliveryError if that takes too long."""
        reports = await self._in_flight.flush(self._patience)
        if reports:
            message = f"{reports} reports are not accepted after {self._patience:g} s{self._in_flight.reason}"
            raise DeliveryError(message, reports)
        self._raise_refused()

    async def close(self) -> None:
        """Disconnect. Frames that are not accepted yet stay in the queue for the next publisher."""
        await self._in_flight.cancel()
        session = self._session
        self._session = None
        if session is not None:
            await session.close()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is None:
                await self.flush()
        finally:
            await self.close()

    def _send(self, frame: OutgoingFrame) -> None:
        self._in_flight.add(asyncio.create_task(self._deliver(frame)), frame.weight, frame.n)

    async def _deliver(self, frame: OutgoingFrame) -> None:
        """Send a frame until the gateway accepts it, or refuses it for good."""
        async with self._slots:
            for tries in range(_ENDLESS):
                if await self._is_stopped(frame):
                    await self._remove(frame)
                    raise Stopped("the query is stopped, so the report was deleted unsent")

                status, body, requested_pause = await self._request(self._open(), "POST", "/v1/reports", frame)
                if status == 202 or is_final(status, body):
                    # Removed first: a refusal that stays on disk would be sent again after each start.
                    await self._remove(frame)
                    if reason(body) == "stopped":
                        self._states.forget()
                    if status != 202:
                        raise DeliveryError(f"{status} {detail(body)}")
                    return
                await asyncio.sleep(_pause(tries, requested_pause))

    async def _is_stopped(self, frame: OutgoingFrame) -> bool:
        """Wait for a fresh state, and return whether it stops the query of a frame."""
        head = header(bytes(frame.data[:HEADER_SIZE]))
        for tries in range(_ENDLESS):
            state = await self._states.newest()
            if state is not None and state.is_fresh(self._states.moment()):
                return head is not None and state.is_stopped(head.digest.hex())
            await asyncio.sleep(_pause(tries, 0.0))
        return False

    async def _read_state(self) -> tuple[int, bytes]:
        """Ask for the state, which is the same for all, so without a token. Return its status and body."""
        try:
            async with asyncio.timeout(_STATE):
                status, body, _ = await self._request(self._open(), "GET", "/v1/state", needs_token=False)
        except TimeoutError:
            return 0, b""
        return status, body

    async def _remove(self, frame: OutgoingFrame) -> None:
        try:
            await asyncio.to_thread(self._spool.remove, frame)
        except StoreError as error:
            log.error("%s", error)  # noqa: TRY400 - the message says it all
            self._in_flight.trouble = error

    async def _request(
        self,
        session: aiohttp.ClientSession,
        method: str,
        path: str,
        frame: OutgoingFrame | None = None,
        *,
        needs_token: bool = True,
    ) -> tuple[int, bytes, float]:
        """Return status, body and requested pause in seconds. Without an answer the status is 0."""
        headers = {}
        if frame is not None:
            headers = {"Content-Type": "application/vnd.hubbub.frames", "Idempotency-Key": frame.id.hex()}
        try:
            token = None
            if needs_token:
                token = self._token() if callable(self._token) else self._token
            if token is not None:
                headers["Authorization"] = "Bearer " + token.strip()  # a file of a token ends with a line end
        except Exception as error:  # noqa: BLE001 - it is the application's, and it may fail in any way while offline
            # A device that is offline gets no token, and its reports must wait instead of counting as refused.
            self._in_flight.trouble = DeliveryError(f"the function `token` failed: {error!r}")
            return 0, b"", 0.0

        data = None if frame is None else frame.data
        try:
            async with session.request(
                method, self._url + path, data=data, headers=headers, allow_redirects=False
            ) as answer:
                # A read returns what has come so far, and never more than is asked for.
                body = await answer.content.read(_LISTING)
                chunk = body
                while chunk and len(body) < _LISTING:
                    chunk = await answer.content.read(_LISTING - len(body))
                    body += chunk
                if answer.status not in (200, 202):
                    self._in_flight.trouble = DeliveryError(f"{answer.status} {detail(body)}")
                return answer.status, body, seconds(answer.headers.get("Retry-After"))
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:  # the last: a token with line breaks
            self._in_flight.trouble = error
            return 0, b"", 0.0

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            raise DeliveryError("the publisher is not started, or it is closed")
        return self._session

    def _raise_refused(self) -> None:
        """Raise a DeliveryError if reports were refused, once for each."""
        reports = self._in_flight.take_refused()
        if reports:
            raise DeliveryError(f"{reports} reports were refused{self._in_flight.reason}", reports)


def _pause(tries: int, requested_pause: float) -> float:
    """Return the seconds until the next try. They grow, and a random part keeps devices from acting together."""
    wait = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2.0 ** min(tries, 20))
    return max(requested_pause, wait * random.uniform(0.5, 1.0))


def is_local(host: str) -> bool:
    """Whether this host is the present machine."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
