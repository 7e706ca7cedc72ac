"""The server of the gateway, with the handlers of its routes and the checks before them."""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import version
from math import inf

import orjson
from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from hubbub.file_watch import FileWatch
from hubbub.http.addresses import Networks, network_path
from hubbub.http.fair_shares import CallerPath
from hubbub.http.health import Handlers, health
from hubbub.http.port_metrics import PortMetrics
from hubbub.http.port_protocol import Unsigned, client_of, connection_of, unsigned
from hubbub.http.port_shares import PortShares
from hubbub.http.prepared_answer import PreparedAnswer
from hubbub.http.problem import Problem
from hubbub.http.scrape import scrape_handler
from hubbub.http.server import Direct, guard, hostname, refusal, route
from producers.gateway.access.limits import Quotas, Work
from producers.gateway.access.origins import cors_headers, preflight
from producers.gateway.access.tokens import ANYBODY, Caller, Tokens
from producers.gateway.bodies import Bodies, Body
from producers.gateway.body_decoder import BodyDecoder
from producers.gateway.intake.active_definitions import ActiveDefinitions
from producers.gateway.intake.appender import Appender
from producers.gateway.intake.keyed_frames import keyed_frames
from producers.gateway.intake.pipeline import Intake, unavailable
from producers.gateway.intake.submission import FRAMES, JSON, Submission
from producers.gateway.metrics import GatewayMetrics
from producers.gateway.openapi import KEY, QUERIES, REPORTS, ROUTES, STATE, describe
from producers.publishers.frames import OutgoingFrame

log = logging.getLogger(__name__)

_METHODS = {route.path: route.method for route in ROUTES if route.for_clients}


@dataclass(frozen=True)
class Rules:
    """The operator's rules for requests."""

    max_body: int
    max_frame: int
    origins: frozenset[str] = frozenset()
    proxies: Networks = ()
    """The networks of trusted proxies."""
    hosts: frozenset[str] | None = None
    """Without tokens, the host names that a request may use. With None it may use any name."""
    work: float = inf
    """The decoding work of a caller in a second."""
    has_tls: bool = False
    """Whether the gateway ends TLS itself."""


class Gateway:
    """The handlers of all routes, with their shared state."""

    def __init__(
        self,
        rules: Rules,
        definitions: ActiveDefinitions,
        tokens: FileWatch[Tokens] | None,
        appender: Appender,
        intake: Intake,
        shares: PortShares,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.rules = rules
        self.draining = False
        self._definitions = definitions
        self._tokens = tokens
        self._quotas = Quotas(self._count_full)
        self._appender = appender
        self._intake = intake
        self._clock = clock

        # Decoding costs each caller its own work, so one token cannot give everybody else 503.
        self._work = Work(rules.work)
        self._bodies = Bodies(rules.max_body, self._work, has_tls=rules.has_tls)
        self._decoder = BodyDecoder(definitions, rules.max_frame, self._work, shares.turns)
        self.metrics = GatewayMetrics(
            {
                "held_bytes": lambda: self._bodies.held,
                "unacknowledged_bytes": lambda: appender.weight,
                "connections": lambda: shares.open,
                "connections_refused": lambda: shares.refused,
                "unlimited_tokens": lambda: 0 if tokens is None else len(tokens.value.undecided),
                "ready": lambda: self.missing is None,
            },
            definitions.value.names(),
        )
        things = {"body_bytes": self._bodies.shares, "handshakes": shares.handshakes.shares}
        self.metrics.registry.register(PortMetrics("gateway", shares, **things))
        intake.on_small_mix = self.metrics.small_mixes.inc

    @property
    def missing(self) -> str | None:
        """Why the gateway accepts no request, or None if it does."""
        if self.draining:
            return "The gateway is shutting down. Try again."
        return self._appender.missing or self._definitions.missing

    @property
    def health(self) -> Handlers:
        return health(scrape_handler(self.metrics.registry), lambda: self.missing)

    def application(self, *, with_health: bool = True) -> web.Application:
        """Return the application with all routes, or without those of health and metrics."""
        app = web.Application(middlewares=[guard(self._count), self._access()])
        app.on_response_prepare.append(unsigned)
        routes = [route_row for route_row in ROUTES if with_health or route_row.path not in self.health]
        description = orjson.dumps(describe(version("hubbub"), routes, needs_token=self._tokens is not None))

        async def openapi(_: web.Request) -> web.Response:
            return web.Response(body=description, headers={"Content-Type": JSON})

        handlers = {
            REPORTS.path: self._handle_reports,
            QUERIES.path: self._handle_queries,
            STATE.path: self._handle_state,
            "/openapi.json": openapi,
            **self.health,
        }
        app.add_routes([web.route(route_row.method, route_row.path, handlers[route_row.path]) for route_row in routes])
        return app

    @property
    def direct(self) -> dict[tuple[str, str], Direct]:
        """The handlers that a server may call without the overhead of routes and middlewares."""
        return {
            (REPORTS.method, REPORTS.path): self._handle_directly,
            (STATE.method, STATE.path): self._handle_state_directly,
        }

    async def _handle_directly(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            response: web.StreamResponse = await self._handle_reports(request)
        except Exception as error:  # noqa: BLE001 - every error needs an answer
            response = self._refuse(error, f"{REPORTS.method} {REPORTS.path}")
        self._add_cors_headers(request, response)
        self.metrics.count_answer(REPORTS.path, response.status)
        return response

    def refuse_rate(self, request: web.BaseRequest, problem: Problem) -> web.StreamResponse:
        """Return the answer to a request above the rate of its address."""
        response = self._refuse(problem, "")
        self._add_cors_headers(request, response)
        self.metrics.count_answer(request.path, response.status)
        return response

    def _refuse(self, error: Exception, action: str) -> web.StreamResponse:
        if isinstance(error, Problem):
            self.metrics.count_refusal(error.more.get("reason"))
        return refusal(error, action)

    def _count_full(self, token: str, query: str) -> None:
        """Count and log the refusal of a pane's quota, by the name of the token."""
        self.metrics.count_full_quota(token, query)
        log.warning("Token %r has used up its quota for query %s. See `hubbub_quota_refused_total`.", token, query)

    def _add_cors_headers(self, request: web.BaseRequest, response: web.StreamResponse) -> None:
        if self.rules.origins:
            varying = response.headers.get("Vary")
            response.headers.update(cors_headers(request.headers.get("Origin"), self.rules.origins))
            if varying is not None:
                response.headers["Vary"] = f"{varying}, Origin"

    def _count(self, request: web.Request, status: int) -> None:
        self.metrics.count_answer(route(request), status)

    def _access(self) -> Middleware:
        """Make the middleware that answers preflight requests and adds CORS headers."""

        @web.middleware
        async def access(request: web.Request, handler: Handler) -> web.StreamResponse:
            methods = _METHODS.get(request.path)
            if methods is None:
                return await handler(request)
            if request.method == "OPTIONS" and "Access-Control-Request-Method" in request.headers:
                headers = preflight(request.headers.get("Origin"), self.rules.origins, methods)
                if headers is None:
                    detail = "Pages of this origin may not send. The operator lists origins with --origins."
                    raise Problem(403, detail)
                return web.Response(status=204, headers=headers)

            try:
                response = await handler(request)
            except Exception as error:  # noqa: BLE001 - a page must be able to read this answer too
                response = self._refuse(error, f"{request.method} {route(request)}")
            self._add_cors_headers(request, response)
            return response

        return access

    def _check_access(self, request: web.BaseRequest, time_s: float) -> Caller:
        """Return the sender, or raise a Problem if it may not send."""
        rules = self.rules
        connection = connection_of(request)
        network = network_path(client_of(request, rules.proxies)) if connection is None else connection.path

        if self._tokens is not None:
            return self._tokens.value.caller(request.headers.get("Authorization"), time_s, network)
        if rules.hosts is not None and hostname(request) not in rules.hosts:
            raise Problem(403, "The host name is not allowed. Without tokens use the name that the gateway listens on.")
        return _anybody(network)

    async def _handle_queries(self, request: web.Request) -> web.Response:
        time_s = self._clock()
        self._check_access(request, time_s)
        return self._definitions.value.listing(time_s).answer(request)

    async def _handle_state(self, request: web.BaseRequest) -> web.Response:
        """Answer from memory, and without a token: the answer is the same for everybody."""
        return self._definitions.value.state(self._clock()).answer(request)

    async def _handle_state_directly(self, request: web.BaseRequest) -> web.Response:
        response = await self._handle_state(request)
        self.metrics.count_answer(STATE.path, response.status)
        return response

    async def _handle_reports(self, request: web.BaseRequest) -> web.Response:
        time_s = self._clock()
        caller = self._check_access(request, time_s)
        key = _idempotency_key(request)
        kind = _media_type(request)
        missing = self.missing

        if missing is not None:
            raise unavailable(missing, counted=_counted(key))

        try:
            self._work.check(caller)
            # Before the body is read: a caller without room would cost as much as one with room.
            self._quotas.check_room(caller, self._definitions.value.open_panes(time_s), time_s)
            body = await self._bodies.read(request, caller)
            try:
                n = await self._append(caller, key, kind, body)
            finally:
                body.release()
        except Problem as problem:
            if problem.status in (409, 429, 503):
                problem.more.setdefault("counted", _counted(key))
            raise
        # A browser needs the headers of CORS, and the prepared answer has none.
        if self.rules.origins or not PreparedAnswer.suits(request):
            return Unsigned(status=202, body=_accepted_body(n), content_type=JSON)
        return _accepted_answer(n)

    async def _append(self, caller: Caller, key: bytes | None, kind: str, body: Body) -> int:
        """Bring the reports of a body into the log, and return their number."""
        time_s = self._clock()
        start = time.perf_counter()

        with body:
            submissions = await self._decoder.submissions(body.content, kind, caller, time_s, body.connection)
        counts = self._quotas.take(caller, submissions, time_s)
        try:
            if key is None:
                await self._intake.mix(submissions)
            else:
                await self._send_keyed(caller, list(keyed_frames(caller.account.name, key, submissions)))
        except BaseException:
            # Reports that Kafka has not acknowledged must not use up a quota, since the client sends them again.
            self._quotas.give_back(counts)
            raise

        n = 0
        for submission in submissions:
            n += submission.n
            self.metrics.count_reports(submission.query.name, submission.n, has_key=key is not None)
        self.metrics.seconds.observe(time.perf_counter() - start)
        return n

    async def _send_keyed(self, caller: Caller, frames: list[tuple[Submission, OutgoingFrame]]) -> None:
        partitions = [(submission, self._appender.partition(frame)) for submission, frame in frames]
        self._quotas.take_ids(caller.path, partitions)
        await self._intake.send(frames)


@lru_cache(maxsize=4096)
def _anybody(network: CallerPath) -> Caller:
    return Caller(ANYBODY, network=network, address=network[-1])


@lru_cache(maxsize=1024)
def _accepted_answer(n: int) -> PreparedAnswer:
    return PreparedAnswer(202, JSON, _accepted_body(n))


def _accepted_body(n: int) -> bytes:
    return b'{"accepted":%d}' % n


def _counted(key: bytes | None) -> str:
    """Return the value of `counted` if this request has sent nothing. An earlier request with its key may count."""
    return "none" if key is None else "unknown"


def _idempotency_key(request: web.BaseRequest) -> bytes | None:
    values = request.headers.getall("Idempotency-Key", ())
    if not values:
        return None
    # A header may hold bytes that are no text.
    key = values[0].encode(errors="surrogateescape")
    min_bytes, max_bytes = KEY
    if len(values) > 1 or not min_bytes <= len(key) <= max_bytes:
        detail = f"A request must have one Idempotency-Key of {min_bytes} to {max_bytes} bytes, or none."
        raise Problem(400, detail, reason="malformed")
    return key


def _media_type(request: web.BaseRequest) -> str:
    kind = request.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    if kind not in (JSON, FRAMES):
        raise Problem(415, f"Content-Type must be {JSON} or {FRAMES}.")
    if request.headers.get("Content-Encoding", "gzip").strip().lower() not in ("gzip", "identity"):
        raise Problem(415, "Content-Encoding must be gzip or absent.")
    return kind
