"""Where Kafka is, how to log in there, and what its topics are called, for clients and daemon alike.

A client imports this, so what is heavy (aiokafka, asyncio, ssl) is imported where it is used.
"""

import os
import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from oracles.errors import HubbubError

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from ssl import SSLContext

SERVERS = "127.0.0.1:9092"
PREFIX = "hubbub."
SECURITY = "HUBBUB_KAFKA_SECURITY_PROTOCOL"
MECHANISM = "HUBBUB_KAFKA_SASL_MECHANISM"
USERNAME = "HUBBUB_KAFKA_USERNAME"
PASSWORD = "HUBBUB_KAFKA_PASSWORD"  # noqa: S105 - the name of the variable, not what it holds
CA_FILE = "HUBBUB_KAFKA_CA_FILE"
PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
PATIENCE = 30.0
"""Seconds for a client to start: enough to pass over one of several brokers that hangs."""

_SERVER = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):([0-9]{1,5})")
_PREFIX = re.compile(r"[A-Za-z0-9._-]{0,150}")
_FLAGS = {"": False, "0": False, "false": False, "no": False, "1": True, "true": True, "yes": True}
_REFUSED = re.compile(r"Unable (?:connect to|to request metadata from) (.*?: (.*))", re.DOTALL)
_Client = TypeVar("_Client")


class KafkaSettingError(HubbubError, ValueError):
    """An option or environment variable that does not say where Kafka is or how to log in."""

    exit_code = 2


class KafkaUnreachable(HubbubError, ConnectionError):
    """No broker answers, or none lets us in; the message says why."""

    exit_code = 3


@dataclass(frozen=True)
class Kafka:
    """Where Kafka is: an immutable value that every client and every topic's name is made from."""

    servers: str = SERVERS
    prefix: str = PREFIX
    embedded: bool = False
    protocol: str = "PLAINTEXT"
    mechanism: str | None = None
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    ca_file: str | None = None

    def __post_init__(self) -> None:
        parse_servers(self.servers)
        parse_prefix(self.prefix)
        for name, value, valid in (SECURITY, self.protocol, PROTOCOLS), (MECHANISM, self.mechanism, MECHANISMS):
            if value is not None and value not in valid:
                raise KafkaSettingError(f"{name} must be one of {', '.join(valid)}, got {value!r}")
        login = {MECHANISM: self.mechanism, USERNAME: self.username, PASSWORD: self.password}
        missing = [name for name, value in login.items() if value is None]
        if self.sasl and missing:
            raise KafkaSettingError(f"{SECURITY} is {self.protocol}, which needs {' and '.join(missing)} too")
        if not self.sasl and len(missing) < len(login):
            given = ", ".join(name for name in login if name not in missing)
            raise KafkaSettingError(f"{given} would not be used: set {SECURITY} to SASL_SSL or SASL_PLAINTEXT")
        if self.ca_file is not None and not self.tls:
            raise KafkaSettingError(f"{CA_FILE} would not be used: set {SECURITY} to SSL or SASL_SSL")

    @property
    def sasl(self) -> bool:
        return self.protocol.startswith("SASL_")

    @property
    def tls(self) -> bool:
        return self.protocol.endswith("SSL")

    @classmethod
    def read(cls, options: "Namespace", environment: Mapping[str, str] = os.environ) -> "Kafka":
        """From the options of `add_options`, and how to log in from the environment only: arguments show in `ps`."""
        return cls(
            servers=options.kafka,
            prefix=options.prefix,
            embedded=bool(getattr(options, "embedded", False)),
            protocol=(environment.get(SECURITY) or "PLAINTEXT").upper(),
            mechanism=environment.get(MECHANISM) or None,
            username=environment.get(USERNAME) or None,
            password=environment.get(PASSWORD) or None,
            ca_file=environment.get(CA_FILE) or None,
        )

    def topic(self, name: str) -> str:
        return self.prefix + name

    def ssl_context(self) -> "SSLContext | None":
        if not self.tls:
            return None
        import ssl

        try:
            return ssl.create_default_context(cafile=self.ca_file)
        except OSError as error:
            raise KafkaSettingError(f"{CA_FILE}: {self.ca_file} cannot be used: {error}") from error

    def client(self) -> dict[str, Any]:
        """The keyword arguments that all of aiokafka's clients share."""
        arguments: dict[str, Any] = {"bootstrap_servers": self.servers, "security_protocol": self.protocol}
        if self.tls:
            arguments["ssl_context"] = self.ssl_context()
        if self.sasl:
            arguments["sasl_mechanism"] = self.mechanism
            arguments["sasl_plain_username"] = self.username
            arguments["sasl_plain_password"] = self.password
        return arguments


def add_options(
    parser: "ArgumentParser", environment: Mapping[str, str] = os.environ, *, embedded: bool = False
) -> None:
    """The options of every command that speaks Kafka; `embedded` for those that have to know the broker."""
    servers, prefix = environment.get("HUBBUB_KAFKA") or SERVERS, environment.get("HUBBUB_PREFIX", PREFIX)
    where = f"Kafka's brokers (HUBBUB_KAFKA; default: {SERVERS})"
    parser.add_argument("--kafka", type=_argument(parse_servers), default=servers, metavar="HOST:PORT", help=where)
    starts = f"starts the names of topics and of the consumer group (HUBBUB_PREFIX; default: {PREFIX})"
    parser.add_argument("--prefix", type=_argument(parse_prefix), default=prefix, metavar="P", help=starts)
    if embedded:
        tansu = "the broker is the embedded one, Tansu (HUBBUB_EMBEDDED=1)"
        said = environment.get("HUBBUB_EMBEDDED", "").lower()
        if said not in _FLAGS:
            parser.error(f"HUBBUB_EMBEDDED must be 1 or 0, got {said!r}")
        parser.add_argument("--embedded", action="store_true", default=_FLAGS[said], help=tansu)


def _argument(parse: Callable[[str], str]) -> Callable[[str], str]:
    from argparse import ArgumentTypeError

    def parsed(text: str) -> str:
        try:
            return parse(text)
        except KafkaSettingError as error:
            raise ArgumentTypeError(str(error)) from None

    return parsed


def parse_servers(text: str) -> str:
    """HOST:PORT[,...] without blanks."""
    servers = [server.strip() for server in text.split(",")]
    for server in servers:
        match = _SERVER.fullmatch(server)
        if not match or not 0 < int(match[2]) < 65_536:
            raise KafkaSettingError(f"brokers are named HOST:PORT[,HOST:PORT...], got {text!r}")
    return ",".join(servers)


def parse_prefix(text: str) -> str:
    if not _PREFIX.fullmatch(text):
        raise KafkaSettingError(f"a prefix has up to 150 of the characters A-Z a-z 0-9 . _ -, got {text!r}")
    return text


@asynccontextmanager
async def started(client: _Client, kafka: Kafka, seconds: float = PATIENCE) -> AsyncIterator[_Client]:
    """An aiokafka client, started and in the end stopped; KafkaUnreachable if Kafka is lost before or meanwhile."""
    import asyncio

    from aiokafka.errors import KafkaConnectionError, KafkaTimeoutError, NodeNotReadyError, RequestTimedOutError

    lost = (KafkaConnectionError, KafkaTimeoutError, NodeNotReadyError, RequestTimedOutError)
    anything: Any = client
    stop = anything.stop if hasattr(anything, "stop") else anything.close
    try:
        with _reasons() as reasons:
            try:
                async with asyncio.timeout(seconds):
                    await anything.start()
            except (*lost, TimeoutError, OSError) as error:
                raise unreachable(kafka, error, reasons) from error
        try:
            yield client
        except lost as error:
            raise unreachable(kafka, error) from error
    finally:
        await stop()


def unreachable(kafka: Kafka, error: BaseException, reasons: list[str] | None = None) -> KafkaUnreachable:
    """What to say of `error`, or of the `reasons` where aiokafka logged some."""
    silent = "no answer in time" if isinstance(error, TimeoutError) else type(error).__name__
    why = "; ".join(dict.fromkeys(reasons or [])) or str(error) or silent
    return KafkaUnreachable(f"Kafka at {kafka.servers} cannot be reached: {why}")


@contextmanager
def _reasons() -> Iterator[list[str]]:
    """Why clients that start meanwhile are refused: aiokafka raises "Unable to bootstrap" and only logs the reason."""
    import logging

    reasons: list[str] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if refused := _REFUSED.match(record.getMessage()):
                reasons.append(refused[1] if refused[2] else f"{refused[1]}no answer")

    keep, log = Keep(), logging.getLogger("aiokafka")
    log.addHandler(keep)
    try:
        yield reasons
    finally:
        log.removeHandler(keep)
