"""The gateway's server: POST /v1/reports, GET /v1/queries, and what operators look at."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import version

import orjson
from aiohttp import web
from aiohttp.typedefs import Handler, Middleware
from prometheus_client.aiohttp import make_aiohttp_handler

from hubbub.http import ConnectionLimits, Direct, Unsigned, guard, hostname, refusal, route, unsigned
from hubbub.prepared import Prepared
from hubbub.problem import Problem
from hubbub.watched import Watched
from producers.batch import Sealed
from producers.gateway.addresses import Networks, client
from producers.gateway.appender import Appender
from producers.gateway.bodies import Bodies
from producers.gateway.definitions import Standing
from producers.gateway.intake import Intake, away
from producers.gateway.metrics import GatewayMetrics
from producers.gateway.openapi import describe
from producers.gateway.origins import allowed, preflight
from producers.gateway.parts import parts
from producers.gateway.quotas import Quotas
from producers.gateway.rates import Rates
from producers.gateway.submission import FRAMES, JSON, Lot, read
from producers.gateway.tokens import ANYBODY, Caller, Tokens

REPORTS, QUERIES = "/v1/reports", "/v1/queries"
METHODS = {REPORTS: "POST", QUERIES: "GET"}
KEY = (16, 256)
"""Bytes of an Idempotency-Key: enough for none to be guessed or drawn twice, and no more than a log line."""


@dataclass(frozen=True)
class Rules:
    """The rules that an operator has set."""

    max_body: int
    max_frame: int
    origins: frozenset[str] = frozenset()
    trusted: Networks = ()
    hosts: frozenset[str] | None = None
    """The names under which the gateway may be spoken to where no token is asked for; None: any."""


class Gateway:
    """The handlers, and what they share."""

    def __init__(
        self,
        rules: Rules,
        definitions: Standing,
        tokens: Watched[Tokens] | None,
        rates: Rates,
        appender: Appender,
        intake: Intake,
        limits: ConnectionLimits,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.rules = rules
        self.draining = False
        self._definitions = definitions
        self._tokens = tokens
        self._rates = rates
        self._quotas = Quotas()
        self._appender = appender
        self._intake = intake
        self._clock = clock
        self._bodies = Bodies(rules.max_body)
        self.metrics = GatewayMetrics(
            {
                "held_bytes": lambda: self._bodies.held,
                "unacknowledged_bytes": lambda: appender.weight,
                "connections": lambda: limits.open,
                "connections_refused": lambda: limits.refused,
                "ready": lambda: self.missing is None,
            },
            definitions.value.names(),
        )

    @property
    def missing(self) -> str | None:
        """Why no request is taken, None where all is well."""
        if self.draining:
            return "it ends, and takes nothing new"
        return self._appender.missing or self._definitions.missing

    def application(self) -> web.Application:
        app = web.Application(middlewares=[guard(self._answered), self._gate()])
        app.on_response_prepare.append(unsigned)
        described = orjson.dumps(describe(version("hubbub"), protected=self._tokens is not None))
        app.add_routes(
            [
                web.post(REPORTS, self._take),
                web.get(QUERIES, self._list, allow_head=False),
                web.get("/openapi.json", _fixed(lambda: described, JSON), allow_head=False),
                web.get("/healthz", _fixed(lambda: b"ok\n", "text/plain"), allow_head=False),
                web.get("/readyz", self._ready, allow_head=False),
                web.get("/metrics", make_aiohttp_handler(self.metrics.registry), allow_head=False),
            ]
        )
        return app

    @property
    def direct(self) -> dict[tuple[str, str], Direct]:
        """The handler of reports, for whoever serves to ask before all routes."""
        return {("POST", REPORTS): self._answer_reports}

    async def _answer_reports(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            response: web.StreamResponse = await self._take(request)
        except Exception as error:  # noqa: BLE001 - whatever it is, a client gets an answer
            response = self._refusal(error, f"POST {REPORTS}")
        self._name_origin(request, response)
        self.metrics.answered(REPORTS, response.status)
        return response

    def _refusal(self, error: Exception, what: str) -> web.StreamResponse:
        if isinstance(error, Problem):
            self.metrics.refused(error.more.get("reason"))
        return refusal(error, what)

    def _name_origin(self, request: web.BaseRequest, response: web.StreamResponse) -> None:
        if self.rules.origins:
            response.headers.update(allowed(request.headers.get("Origin"), self.rules.origins))

    def _answered(self, request: web.Request, status: int) -> None:
        self.metrics.answered(route(request), status)

    def _gate(self) -> Middleware:
        """The middleware that lets nobody in who must not be."""

        @web.middleware
        async def gated(request: web.Request, handler: Handler) -> web.StreamResponse:
            methods = METHODS.get(request.path)
            if methods is None:
                return await handler(request)
            if request.method == "OPTIONS" and "Access-Control-Request-Method" in request.headers:
                headers = preflight(request.headers.get("Origin"), self.rules.origins, methods)
                if headers is None:
                    raise Problem(403, "pages of this origin may not send; --origins names those that may")
                return web.Response(status=204, headers=headers)
            try:
                response = await handler(request)
            except Exception as error:  # noqa: BLE001 - a page has to see it too
                response = self._refusal(error, f"{request.method} {route(request)}")
            self._name_origin(request, response)
            return response

        return gated

    def _admit(self, request: web.BaseRequest, now: float) -> Caller:
        """Who sends; a Problem where it is nobody who may, or too often."""
        rules = self.rules
        if self._rates.limited:
            address = client(request.remote or "", request.headers.getall("X-Forwarded-For", ()), rules.trusted)
            wait = self._rates.take(address, now)
        else:
            wait = 0.0
        if wait:
            raise Problem(429, "too many requests from this address", retry_after=wait, reason="rate")
        if self._tokens is not None:
            return self._tokens.value.caller(request.headers.get("Authorization"), now)
        if rules.hosts is not None and hostname(request) not in rules.hosts:
            raise Problem(403, "without tokens the gateway answers under the name that it listens on alone")
        return ANYBODY

    async def _list(self, request: web.Request) -> web.Response:
        now = self._clock()
        self._admit(request, now)
        headers = {"Content-Type": JSON, "Cache-Control": "no-cache"}
        return web.Response(body=self._definitions.value.listing(now), headers=headers)

    async def _take(self, request: web.BaseRequest) -> web.Response:
        now = self._clock()
        caller = self._admit(request, now)
        key = _idempotency_key(request)
        kind = _kind(request)
        missing = self.missing
        if missing is not None:
            raise away(missing, counted=_counted(key))
        try:
            body = await self._bodies.read(request)
            try:
                n = await self._bring(caller, key, kind, body)
            finally:
                self._bodies.release(body)
        except Problem as problem:
            if problem.status in (409, 503):
                problem.more.setdefault("counted", _counted(key))
            raise
        if self.rules.origins or not Prepared.suits(request):
            return Unsigned(status=202, body=_told(n), content_type=JSON)
        return _accepted(n)

    async def _bring(self, caller: Caller, key: bytes | None, kind: str, body: bytes) -> int:
        """How many reports are in the log."""
        rules, now, begun = self.rules, self._clock(), time.perf_counter()
        lots = read(body, kind, self._definitions.value, int(1000 * now), rules.max_frame)
        taken = self._quotas.take(caller, lots, now)
        try:
            if key is None:
                await self._intake.mix(lots)
            else:
                await self._pass_on(list(parts(caller.account.name, key, lots)), now)
        except BaseException:
            self._quotas.give_back(taken)
            raise
        accepted = 0
        for lot in lots:
            accepted += lot.n
            self.metrics.took(lot.query.name, lot.n, keyed=key is not None)
        self.metrics.seconds.observe(time.perf_counter() - begun)
        return accepted

    async def _pass_on(self, made: list[tuple[Lot, Sealed]], now: float) -> None:
        self._quotas.take_ids([(lot, self._appender.partition(frame)) for lot, frame in made], now)
        await self._intake.pass_on(made)

    async def _ready(self, _: web.Request) -> web.Response:
        missing = self.missing
        return web.Response(text=f"{missing or 'ready'}\n", status=503 if missing else 200)


@lru_cache(maxsize=1024)
def _accepted(n: int) -> Prepared:
    return Prepared(202, JSON, _told(n))


def _told(n: int) -> bytes:
    return b'{"accepted":%d}' % n


def _counted(key: bytes | None) -> str:
    """The word for `counted` where nothing of this request was sent: an earlier one of the same key may count."""
    return "none" if key is None else "unknown"


def _idempotency_key(request: web.BaseRequest) -> bytes | None:
    given = request.headers.getall("Idempotency-Key", ())
    if not given:
        return None
    key = given[0].encode(errors="surrogateescape")
    least, most = KEY
    if len(given) > 1 or not least <= len(key) <= most:
        raise Problem(400, f"Idempotency-Key stands once and has {least} to {most} bytes", reason="malformed")
    return key


def _kind(request: web.BaseRequest) -> str:
    kind = request.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    if kind not in (JSON, FRAMES):
        raise Problem(415, f"Content-Type must be {JSON} or {FRAMES}")
    if request.headers.get("Content-Encoding", "gzip").strip().lower() not in ("gzip", "identity"):
        raise Problem(415, "Content-Encoding must be gzip, or absent")
    return kind


def _fixed(body: Callable[[], bytes], kind: str) -> Handler:
    async def handler(_: web.Request) -> web.Response:
        return web.Response(body=body(), headers={"Content-Type": kind})

    return handler
