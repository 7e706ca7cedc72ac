"""Where Kafka is, how to log in there, and how clients, consumers and lists of partitions are had, for all alike.

A client imports this, so what is heavy (aiokafka, asyncio, ssl) is imported where it is used.
"""

import os
import re
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from hubbub.errors import KafkaSettingError, KafkaUnreachable, TopicMissing
from hubbub.names import REPORTS
from hubbub.secret import read, secret

if TYPE_CHECKING:
    from argparse import Namespace
    from ssl import SSLContext

    from aiokafka import AIOKafkaConsumer

SERVERS = "127.0.0.1:9092"
PREFIX = "hubbub."
SECURITY = "HUBBUB_KAFKA_SECURITY_PROTOCOL"
MECHANISM = "HUBBUB_KAFKA_SASL_MECHANISM"
USERNAME = "HUBBUB_KAFKA_USERNAME"
PASSWORD = "HUBBUB_KAFKA_PASSWORD"  # noqa: S105 - the name of the variable, not what it holds
PASSWORD_FILE = "HUBBUB_KAFKA_PASSWORD_FILE"  # noqa: S105 - likewise
TOKEN_FILE = "HUBBUB_KAFKA_OAUTH_TOKEN_FILE"  # noqa: S105 - likewise
CA_FILE = "HUBBUB_KAFKA_CA_FILE"
CERT_FILE = "HUBBUB_KAFKA_CERT_FILE"
KEY_FILE = "HUBBUB_KAFKA_KEY_FILE"
PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
OAUTH = "OAUTHBEARER"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", OAUTH)
PATIENCE = 30.0
"""Seconds for a client to start: enough to pass over one of several brokers that hangs."""

_SERVER = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):([0-9]{1,5})")
_PREFIX = re.compile(r"[A-Za-z0-9._-]{0,150}")
_REFUSED = re.compile(r"Unable (?:connect to|to request metadata from) (.*?: (.*))", re.DOTALL)
_Client = TypeVar("_Client")


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
    cert_file: str | None = None
    key_file: str | None = None
    token_file: str | None = None

    def __post_init__(self) -> None:
        parse_servers(self.servers)
        parse_prefix(self.prefix)
        for name, value, valid in (SECURITY, self.protocol, PROTOCOLS), (MECHANISM, self.mechanism, MECHANISMS):
            if value is not None and value not in valid:
                raise KafkaSettingError(f"{name} must be one of {', '.join(valid)}, got {value!r}")
        needed = {MECHANISM: self.mechanism, USERNAME: self.username, PASSWORD: self.password}
        unused = {TOKEN_FILE: self.token_file}
        if self.mechanism == OAUTH:
            needed, unused = {MECHANISM: self.mechanism, TOKEN_FILE: self.token_file}, needed
            del unused[MECHANISM]
        missing = [name for name, value in needed.items() if value is None]
        if self.sasl and missing:
            either = [f"{name} or {PASSWORD_FILE}" if name == PASSWORD else name for name in missing]
            raise KafkaSettingError(f"{SECURITY} is {self.protocol}, which needs {' and '.join(either)} too")
        if self.sasl:
            _unused(unused, f"{self.mechanism} logs in without")
        else:
            _unused({**needed, **unused}, f"set {SECURITY} to SASL_SSL or SASL_PLAINTEXT")
        if not self.tls:
            files = {CA_FILE: self.ca_file, CERT_FILE: self.cert_file, KEY_FILE: self.key_file}
            _unused(files, f"set {SECURITY} to SSL or SASL_SSL")
        if self.key_file is not None and self.cert_file is None:
            raise KafkaSettingError(f"{KEY_FILE} is the key of a certificate: set {CERT_FILE} too")

    @property
    def sasl(self) -> bool:
        return self.protocol.startswith("SASL_")

    @property
    def tls(self) -> bool:
        return self.protocol.endswith("SSL")

    @classmethod
    def read(cls, options: "Namespace", environment: Mapping[str, str] = os.environ) -> "Kafka":
        """From the options of every command, and how to log in from the environment only: arguments show in `ps`."""
        token_file = environment.get(TOKEN_FILE) or None
        if token_file is not None:
            read(TOKEN_FILE, token_file)  # now, where it is an error of settings
        return cls(
            servers=options.kafka,
            prefix=options.prefix,
            embedded=bool(getattr(options, "embedded", False)),
            protocol=(environment.get(SECURITY) or "PLAINTEXT").upper(),
            mechanism=environment.get(MECHANISM) or None,
            username=environment.get(USERNAME) or None,
            password=secret(PASSWORD, environment),
            ca_file=environment.get(CA_FILE) or None,
            cert_file=environment.get(CERT_FILE) or None,
            key_file=environment.get(KEY_FILE) or None,
            token_file=token_file,
        )

    def topic(self, name: str) -> str:
        return self.prefix + name

    def ssl_context(self) -> "SSLContext | None":
        if not self.tls:
            return None
        import ssl

        try:
            context = ssl.create_default_context(cafile=self.ca_file)
        except OSError as error:
            raise KafkaSettingError(f"{CA_FILE}: {self.ca_file} cannot be used: {error}") from error
        if self.cert_file is not None:
            try:
                context.load_cert_chain(self.cert_file, self.key_file, password="")  # never asked for in a terminal
            except OSError as error:
                files = " and ".join(filter(None, (self.cert_file, self.key_file)))
                raise KafkaSettingError(f"{CERT_FILE}, {KEY_FILE}: {files} cannot be used: {error}") from error
        return context

    def token_provider(self) -> Any:
        """The provider that aiokafka asks at each connection, so that a token may be renewed in its file."""
        from aiokafka.abc import AbstractTokenProvider

        path = self.token_file or ""

        class File(AbstractTokenProvider):  # type: ignore[misc] # aiokafka ships no types
            async def token(self) -> str:
                return read(TOKEN_FILE, path)

        return File()

    def client(self) -> dict[str, Any]:
        """The keyword arguments that all of aiokafka's clients share."""
        arguments: dict[str, Any] = {"bootstrap_servers": self.servers, "security_protocol": self.protocol}
        if self.tls:
            arguments["ssl_context"] = self.ssl_context()
        if self.sasl:
            arguments["sasl_mechanism"] = self.mechanism
        if self.mechanism == OAUTH:
            arguments["sasl_oauth_token_provider"] = self.token_provider()
        elif self.sasl:
            arguments["sasl_plain_username"] = self.username
            arguments["sasl_plain_password"] = self.password
        return arguments


def _unused(settings: Mapping[str, str | None], instead: str) -> None:
    """An error where one of them is set: a login that is left out by mistake is worse than one that fails."""
    given = [name for name, value in settings.items() if value is not None]
    if given:
        raise KafkaSettingError(f"{', '.join(given)} would not be used: {instead}")


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


def consumer(kafka: Kafka, **settings: Any) -> "AIOKafkaConsumer":
    """A reader outside of any group: it begins where it is told to, and takes nothing from anybody."""
    from aiokafka import AIOKafkaConsumer

    from hubbub import inflation

    inflation.install(kafka.topic(REPORTS))
    defaults: dict[str, Any] = {"auto_offset_reset": "earliest", "metadata_max_age_ms": 5_000}
    return AIOKafkaConsumer(group_id=None, enable_auto_commit=False, **kafka.client(), **(defaults | settings))


async def partitions(kafka: Kafka, *names: str) -> dict[str, int]:
    """How many partitions each of these topics has, by its name without the prefix; TopicMissing where there is none.

    All topics are listed, since asking for one by name may create it.
    """
    from aiokafka.admin import AIOKafkaAdminClient

    async with started(AIOKafkaAdminClient(**kafka.client()), kafka) as admin:
        counts = {topic["topic"]: len(topic["partitions"]) for topic in await admin.describe_topics()}
    missing = [topic for name in names if not counts.get(topic := kafka.topic(name))]
    if missing:
        raise TopicMissing(*missing)
    return {name: counts[kafka.topic(name)] for name in names}


async def read_all(kafka: Kafka, name: str, largest: int) -> list[tuple[bytes, bytes | None]]:
    """Key and value of all records in a topic's one partition; `largest` is what a record may have in bytes."""
    from aiokafka import TopicPartition

    tp = TopicPartition(kafka.topic(name), 0)
    async with started(consumer(kafka, max_partition_fetch_bytes=largest), kafka) as reader:
        reader.assign([tp])
        await reader.seek_to_beginning(tp)
        ends = await reader.end_offsets([tp])
        return [(record.key, record.value) async for records in through(reader, ends, kafka) for record in records]


async def through(reader: "AIOKafkaConsumer", ends: Mapping[Any, int], kafka: Kafka) -> AsyncIterator[list[Any]]:
    """The records that a reader brings of its partitions, up to these ends at least, however busy they are."""
    while True:
        records = [record for batch in (await reader.getmany(timeout_ms=500)).values() for record in batch]
        yield records
        if records and kafka.embedded:
            continue  # it states ends that are too low: all is read when nothing more comes
        if all([await reader.position(tp) >= end for tp, end in ends.items()]):
            return


def unreachable(kafka: Kafka, error: BaseException, reasons: list[str] | None = None) -> KafkaUnreachable:
    """The sentence about `error`, or of the `reasons` where aiokafka logged some."""
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
