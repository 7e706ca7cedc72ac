"""Reports on their way to a gateway over HTTP: on disk first, tried until they are accepted, counted once."""

import asyncio
import logging
import random
import time
from collections.abc import Callable
from ipaddress import ip_address
from os import PathLike
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

from oracles.errors import HubbubError, ParameterError, ReportError, extra
from oracles.frame import HEADER_SIZE, encode
from oracles.query import Query
from oracles.types import Reports
from producers.advertised import pinned
from producers.batch import BYTES, REPORTS, Sealed, pane_of, random_id
from producers.errors import DeliveryError
from producers.spool import Spool

with extra("http"):
    import aiohttp

log = logging.getLogger(__name__)

QUEUE = 16 << 20
PATIENCE = 60.0
_SLOWEST = 60.0
"""Seconds between two tries, at most, unless the gateway asks for more."""
_FIRST = 0.5
_REQUEST = 30.0
_LISTING = 32 << 20
"""Bytes of the longest list of queries that is read."""
_SENDERS = 4
_FOR_GOOD = (400, 409, 413, 415)
"""Answers that no other try would change."""

Token = str | Callable[[], str] | None


class HttpPublisher:
    """Sends reports to a gateway: `async with HttpPublisher(url, queue="folder", token=...) as publisher`.

    What was put stands in the folder `queue`, of at most `most` bytes, until the gateway has
    accepted it: through restarts, and for as long as that takes. A frame is sent again under the
    same key, so it counts once whatever became of a try, and whichever gateway got it. `token` is a
    text, or is called before each try: for tokens that are short-lived. One folder for each
    publisher.
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
            raise ParameterError(f"a gateway's address is https://HOST[:PORT] (http:// on this machine), got {url!r}")
        self._url = url.rstrip("/")
        self._spool = Spool(queue)
        self._token = token
        self._most = most
        self._patience = patience
        self._clock = clock
        self._session: aiohttp.ClientSession | None = None
        self._waiting: asyncio.Queue[Sealed] = asyncio.Queue()
        self._senders: list[asyncio.Task[None]] = []
        self._held = 0
        """Bytes of what is not accepted yet."""
        self._moved = asyncio.Event()
        self._refused = 0
        self._trouble = ""
        """Why the last try failed."""

    async def start(self) -> None:
        """Go on with what an earlier publisher left in the queue."""
        self._session = aiohttp.ClientSession(
            headers={"User-Agent": "hubbub"},  # nothing that tells devices apart
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=_REQUEST),
        )
        for frame in await asyncio.to_thread(lambda: list(self._spool.frames())):
            self._take(frame)
        self._senders = [asyncio.create_task(self._send()) for _ in range(_SENDERS)]

    async def query(self, name: str, *, max_epsilon: float) -> Query:
        """The definition that the gateway has of a query, within what the application pins: NotAllowed beyond."""
        session = self._open()
        try:
            async with asyncio.timeout(self._patience):
                for tries in range(1 << 30):
                    status, body, after = await self._ask(session, "GET", "/v1/queries")
                    if status == 200:
                        return pinned(body, name, max_epsilon, self._url)
                    await asyncio.sleep(_pause(tries, after))
        except TimeoutError:
            pass
        raise DeliveryError(f"{self._url} does not say what its queries are: {self._trouble}")

    async def put(self, query: Query, reports: Reports, at: float | None = None) -> None:
        """Keep reports until they are accepted; they are on disk when this returns.

        `at` is when they were given, in seconds since the Unix epoch; now, unless it is said.
        Refusals of earlier reports come out here, as a DeliveryError, and so does a full queue:
        then none of these was taken.
        """
        self._open()
        self._tell()
        bad = query.oracle.check(reports)
        if bad is not None:
            raise ReportError(f"report {bad} is malformed", bad)
        pane = pane_of(query, self._clock() if at is None else at)
        most = max(1, min(REPORTS, (BYTES - HEADER_SIZE) // query.oracle.width))
        frames = [_sealed(query, pane, reports[start : start + most]) for start in range(0, len(reports), most)]
        size = sum(frame.weight for frame in frames)
        if self._held + size > self._most:
            full = f"the queue holds {self._held} of {self._most} bytes, and these reports take {size}"
            raise DeliveryError(f"{full}{self._because()}", len(reports))
        for frame in frames:
            await asyncio.to_thread(self._spool.write, frame)
            self._take(frame)

    async def flush(self) -> None:
        """Wait until all that was put is accepted, or refused for good; a DeliveryError where that takes too long."""
        try:
            async with asyncio.timeout(self._patience):
                while self._held:
                    self._moved.clear()
                    await self._moved.wait()
        except TimeoutError:
            raise DeliveryError(
                f"{self._held} bytes are not accepted after {self._patience:g} s{self._because()}"
            ) from None
        self._tell()

    async def close(self) -> None:
        """Disconnect; what is not accepted yet stands in the queue for the next publisher."""
        for sender in self._senders:
            sender.cancel()
        if self._senders:
            await asyncio.wait(self._senders)
        self._senders = []
        session, self._session = self._session, None
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

    def _take(self, frame: Sealed) -> None:
        self._held += frame.weight
        self._waiting.put_nowait(frame)

    async def _send(self) -> None:
        while True:
            frame = await self._waiting.get()
            try:
                await self._deliver(frame)
            except HubbubError as error:
                log.error("%s", error)  # noqa: TRY400 - the message says it all
                self._trouble = str(error)
            self._held -= frame.weight
            self._moved.set()

    async def _deliver(self, frame: Sealed) -> None:
        """Try until the gateway accepts a frame, or refuses it for good."""
        for tries in range(1 << 30):
            status, body, after = await self._ask(self._open(), "POST", "/v1/reports", frame)
            if status == 202 or status in _FOR_GOOD:
                if status != 202:
                    self._refused += frame.n
                    self._trouble = f"{status} {_detail(body)}"
                await asyncio.to_thread(self._spool.remove, frame)
                return
            await asyncio.sleep(_pause(tries, after))

    async def _ask(
        self, session: aiohttp.ClientSession, method: str, path: str, frame: Sealed | None = None
    ) -> tuple[int, bytes, float]:
        """Status, body and the seconds after which to try again; status 0 where there was no answer."""
        headers = {}
        if frame is not None:
            headers = {"Content-Type": "application/vnd.hubbub.frames", "Idempotency-Key": frame.id.hex()}
        token = self._token() if callable(self._token) else self._token
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        data = None if frame is None else frame.data
        try:
            async with session.request(
                method, self._url + path, data=data, headers=headers, allow_redirects=False
            ) as answer:
                body = await answer.content.read(_LISTING)
                while len(body) < _LISTING and (more := await answer.content.read(_LISTING - len(body))):
                    body += more
                if answer.status not in (200, 202):
                    self._trouble = f"{answer.status} {_detail(body)}"
                return answer.status, body, _seconds(answer.headers.get("Retry-After"))
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            self._trouble = f"{type(error).__name__}: {error}"
            return 0, b"", 0.0

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            raise DeliveryError("the publisher is not started, or closed")
        return self._session

    def _tell(self) -> None:
        """Raise, once, what became of reports that were refused for good."""
        if self._refused:
            reports, self._refused = self._refused, 0
            raise DeliveryError(f"{reports} reports were refused{self._because()}", reports)

    def _because(self) -> str:
        return f": {self._trouble}" if self._trouble else ""


def _sealed(query: Query, pane: int, reports: Reports) -> Sealed:
    name = random_id()
    return Sealed(name, pane, len(reports), encode(query.digest, pane, reports, name))


def _pause(tries: int, after: float) -> float:
    """Seconds until the next try: longer each time, and not all devices at once."""
    wait = min(_SLOWEST, _FIRST * 2.0 ** min(tries, 20))
    return max(after, wait * random.uniform(0.5, 1.0))


def _seconds(text: str | None) -> float:
    return float(text) if text is not None and text.isascii() and text.isdecimal() and len(text) < 6 else 0.0


def _detail(body: bytes) -> str:
    """The words of a problem, as far as a log should have it."""
    return body[:500].decode(errors="replace")


def is_local(host: str) -> bool:
    """Whether what this host is sent stays on this machine."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
