"""A publisher to a gateway over HTTP. It writes reports to disk, then sends them until the gateway accepts them."""

import asyncio
import json
import logging
import random
import time
from collections.abc import Callable
from ipaddress import ip_address
from os import PathLike
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

from hubbub.in_flight import InFlight
from oracles.errors import ParameterError, ReportError, extra
from oracles.query import Query
from oracles.query.groups import number_of
from oracles.types import Reports
from producers.errors import DeliveryError, StoreError
from producers.pins import Pins, read_pins
from producers.publishers.frames import OutgoingFrame, capacity, pane_of
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
_LONGEST_REQUESTED_PAUSE = 3600.0
"""Longest pause that a gateway may ask for, in seconds."""
_FIRST_PAUSE = 0.5
"""First pause, in seconds."""
_REQUEST = 30.0
"""Seconds for one request."""
_LISTING = 32 << 20
"""Upper limit of a list of queries, in bytes."""
_REQUESTS = 4
"""Requests at a time."""
_FINAL = (400, 409, 413, 415)
"""Statuses of refusals that another try would not change."""
_FULL_REASONS = ("quota", "ids")
"""The reasons of a 429 for a pane that never gets more room."""
_ENDLESS = 1 << 30

Token = str | Callable[[], str] | None


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

        size = sum(frame.weight for frame in frames)
        total = self._in_flight.bytes
        if total + size > self._most:
            message = f"the queue is full: {total} of {self._most} bytes are in use, and these reports need {size}"
            raise DeliveryError(f"{message}{self._in_flight.reason}", len(reports))

        for frame in frames:
            # On disk before it is sent: after a crash the next publisher sends it under the same key.
            await asyncio.to_thread(self._spool.write, frame)
            self._send(frame)

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
                status, body, requested_pause = await self._request(self._open(), "POST", "/v1/reports", frame)
                if status == 202 or _is_final(status, body):
                    # Removed first: a refusal that stays on disk would be sent again after each start.
                    await self._remove(frame)
                    if status != 202:
                        raise DeliveryError(f"{status} {_detail(body)}")
                    return
                await asyncio.sleep(_pause(tries, requested_pause))

    async def _remove(self, frame: OutgoingFrame) -> None:
        try:
            await asyncio.to_thread(self._spool.remove, frame)
        except StoreError as error:
            log.error("%s", error)  # noqa: TRY400 - the message says it all
            self._in_flight.trouble = error

    async def _request(
        self, session: aiohttp.ClientSession, method: str, path: str, frame: OutgoingFrame | None = None
    ) -> tuple[int, bytes, float]:
        """Return status, body and requested pause in seconds. Without an answer the status is 0."""
        headers = {}
        if frame is not None:
            headers = {"Content-Type": "application/vnd.hubbub.frames", "Idempotency-Key": frame.id.hex()}
        try:
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
                    self._in_flight.trouble = DeliveryError(f"{answer.status} {_detail(body)}")
                return answer.status, body, _seconds(answer.headers.get("Retry-After"))
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


def _is_final(status: int, body: bytes) -> bool:
    # A pane never gets more room. Such a frame would be tried until it is late, in one of four places.
    return status in _FINAL or (status == 429 and _reason(body) in _FULL_REASONS)


def _reason(body: bytes) -> object:
    try:
        problem = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return problem.get("reason") if isinstance(problem, dict) else None


def _pause(tries: int, requested_pause: float) -> float:
    """Return the seconds until the next try. They grow, and a random part keeps devices from acting together."""
    wait = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2.0 ** min(tries, 20))
    return max(requested_pause, wait * random.uniform(0.5, 1.0))


def _seconds(header: str | None) -> float:
    """Return the pause of a Retry-After header in seconds, at most an hour. It is 0 if the header is no number above 0.

    >>> _seconds("30"), _seconds("99999"), _seconds("Infinity"), _seconds("-5"), _seconds("nan"), _seconds(None)
    (30.0, 3600.0, 3600.0, 0.0, 0.0, 0.0)
    """
    try:
        seconds = float(header or 0)
    except ValueError:
        return 0.0  # a date, for example: the pauses grow without it

    # Not a number is not above 0 either.
    return min(seconds, _LONGEST_REQUESTED_PAUSE) if seconds > 0 else 0.0


def _detail(body: bytes) -> str:
    """Return the start of a problem's text, short enough for a log."""
    return body[:500].decode(errors="replace")


def is_local(host: str) -> bool:
    """Whether this host is the present machine."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
