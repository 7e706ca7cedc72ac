"""The settings of Kafka: its brokers, the login, and the names of the topics.

Devices import this module too. So it loads aiokafka nowhere, and ssl only when it is used.
"""

import os
import re
import shlex
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hubbub.kafka.errors import KafkaSettingError
from hubbub.secret import read, secret

if TYPE_CHECKING:
    from argparse import Namespace
    from ssl import SSLContext


SERVERS = "127.0.0.1:9092"
PREFIX = "hubbub."
SECURITY = "HUBBUB_KAFKA_SECURITY_PROTOCOL"
MECHANISM = "HUBBUB_KAFKA_SASL_MECHANISM"
USERNAME = "HUBBUB_KAFKA_USERNAME"
PASSWORD = "HUBBUB_KAFKA_PASSWORD"  # noqa: S105 - the name of a variable, not a secret
PASSWORD_FILE = "HUBBUB_KAFKA_PASSWORD_FILE"  # noqa: S105 - the name of a variable
TOKEN_FILE = "HUBBUB_KAFKA_OAUTH_TOKEN_FILE"  # noqa: S105 - the name of a variable
TOKEN_COMMAND = "HUBBUB_KAFKA_OAUTH_TOKEN_COMMAND"  # noqa: S105 - the name of a variable
CA_FILE = "HUBBUB_KAFKA_CA_FILE"
CERT_FILE = "HUBBUB_KAFKA_CERT_FILE"
KEY_FILE = "HUBBUB_KAFKA_KEY_FILE"
PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
OAUTH = "OAUTHBEARER"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", OAUTH)

REPORTS = "reports"
REJECTS = "rejects"
SNAPSHOTS = "snapshots"
CLOCKS = "clocks"
QUERIES = "queries"
ESTIMATES = "estimates"
MAPS = "maps"
ALERTS = "alerts"
STATUS = "status"
TRUTH = "truth"
WORKER = "worker"
TALLIES = "tallies"
CHANGELOG = f"{WORKER}-{TALLIES}-changelog"
"""The name that Faust gives to it: the app's id (prefix and WORKER), the table's name, "changelog"."""
LARGEST = 64 << 20
"""Bytes of the largest record that hubbub ever writes or reads."""

_SERVER = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):([0-9]{1,5})")
_INSTANCE = re.compile(r"[A-Za-z0-9._-]{1,249}")
# Kafka allows 249 characters. The rest is for the names after the prefix.
_PREFIX = re.compile(r"[A-Za-z0-9._-]{0,150}")


@dataclass(frozen=True)
class Dialect:
    """The abilities of a broker. Only this class and the topics' settings know the embedded broker."""

    ends_are_exact: bool
    """Whether the end of a partition is exact. Tansu gives the start of the last batch instead."""
    log_has_time: bool
    """Whether the broker stamps each record (LogAppendTime). If not, only ticks move a clock."""
    is_idempotent: bool
    """Whether the broker takes the records of idempotent producers."""
    has_topic_ids: bool
    """Whether each topic has an id, so that a deleted and newly created one is noticed."""
    keeps_everything: bool
    """Whether the broker neither compacts nor deletes records."""
    trusts_generations: bool
    """Whether a worker may keep its counts over a rebalance, because the group's generation rose by exactly one."""
    names_members: bool
    """Whether the broker lists the client ids of a group's members."""
    allows_leaving: bool
    """Whether a worker may leave its group. Tansu keeps a leader that leaves during a rebalance, so the group hangs."""
    session_seconds: float
    """Seconds without a heartbeat until others take over the partitions of a worker. Tansu delays a join by half."""


APACHE = Dialect(
    ends_are_exact=True,
    log_has_time=True,
    is_idempotent=True,
    has_topic_ids=True,
    keeps_everything=False,
    trusts_generations=True,
    names_members=True,
    allows_leaving=True,
    # The shortest session that brokers allow by default.
    session_seconds=6.0,
)
TANSU = Dialect(
    ends_are_exact=False,
    log_has_time=False,
    is_idempotent=False,
    has_topic_ids=False,
    keeps_everything=True,
    trusts_generations=False,
    names_members=False,
    allows_leaving=False,
    session_seconds=2.0,
)


@dataclass(frozen=True)
class Kafka:
    """The address, login and topic prefix of a Kafka cluster. All clients and names of topics are made from it."""

    servers: str = SERVERS
    prefix: str = PREFIX
    embedded: bool = False
    protocol: str = "PLAINTEXT"
    mechanism: str | None = None
    username: str | None = None
    # A representation ends up in logs and tracebacks. A command may contain a secret too.
    password: str | None = field(default=None, repr=False)
    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None
    token_file: str | None = None
    token_command: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        parse_servers(self.servers)
        parse_prefix(self.prefix)
        for name, value, valid in (SECURITY, self.protocol, PROTOCOLS), (MECHANISM, self.mechanism, MECHANISMS):
            if value is not None and value not in valid:
                raise KafkaSettingError(f"{name} must be one of {', '.join(valid)}, got {value!r}")
        if self.token_file is not None and self.token_command is not None:
            raise KafkaSettingError(f"{TOKEN_FILE} and {TOKEN_COMMAND} are both set: keep one of them")

        token = self.token_command if self.token_file is None else self.token_file
        needs = {MECHANISM: self.mechanism, USERNAME: self.username, PASSWORD: self.password}
        extras = {TOKEN_FILE: self.token_file, TOKEN_COMMAND: self.token_command}
        if self.mechanism == OAUTH:
            needs = {MECHANISM: self.mechanism, TOKEN_FILE: token}
            extras = {USERNAME: self.username, PASSWORD: self.password}

        missing = [name for name, value in needs.items() if value is None]
        if self.sasl and missing:
            alternatives = {PASSWORD: PASSWORD_FILE, TOKEN_FILE: TOKEN_COMMAND}
            either = [f"{name} or {alternatives[name]}" if name in alternatives else name for name in missing]
            raise KafkaSettingError(f"{SECURITY} is {self.protocol}, which needs {' and '.join(either)} too")

        # A setting without an effect is refused. An operator who sets a password expects that it protects something.
        if self.sasl:
            _refuse(extras, f"remove it, because {self.mechanism} does not use it")
        else:
            _refuse({**needs, **extras}, f"remove it, or set {SECURITY} to SASL_SSL or SASL_PLAINTEXT")
        if not self.tls:
            files = {CA_FILE: self.ca_file, CERT_FILE: self.cert_file, KEY_FILE: self.key_file}
            _refuse(files, f"remove it, or set {SECURITY} to SSL or SASL_SSL")
        if self.key_file is not None and self.cert_file is None:
            raise KafkaSettingError(f"{KEY_FILE} needs its certificate; set {CERT_FILE} too")

    @property
    def dialect(self) -> Dialect:
        """The abilities of its brokers."""
        return TANSU if self.embedded else APACHE

    @property
    def sasl(self) -> bool:
        """Whether clients log in by SASL."""
        return self.protocol.startswith("SASL_")

    @property
    def tls(self) -> bool:
        """Whether connections are encrypted."""
        return self.protocol.endswith("SSL")

    @classmethod
    def read(cls, options: "Namespace", environment: Mapping[str, str] = os.environ) -> "Kafka":
        """Read the options of a command, and the login from the environment only, because `ps` shows arguments."""
        token_file = environment.get(TOKEN_FILE) or None
        if token_file is not None:
            read(TOKEN_FILE, token_file)  # so that a wrong path is an error at start
        token_command = environment.get(TOKEN_COMMAND) or None
        if token_command is not None:
            split_command(token_command)  # so that a wrong program is an error at start
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
            token_command=token_command,
        )

    def topic(self, name: str) -> str:
        """Return the full name of a topic."""
        return self.prefix + name

    def ssl_context(self) -> "SSLContext | None":
        """Return the TLS context of all connections, or None without TLS."""
        if not self.tls:
            return None
        import ssl

        try:
            context = ssl.create_default_context(cafile=self.ca_file)
        except OSError as error:
            raise KafkaSettingError(f"{CA_FILE}: {self.ca_file} cannot be used: {error}") from error
        if self.cert_file is not None:
            try:
                context.load_cert_chain(
                    self.cert_file, self.key_file, password=""
                )  # so that OpenSSL never asks in the terminal
            except OSError as error:
                files = " and ".join(filter(None, (self.cert_file, self.key_file)))
                raise KafkaSettingError(f"{CERT_FILE}, {KEY_FILE}: {files} cannot be used: {error}") from error
        return context


def _refuse(settings: Mapping[str, str | None], remedy: str) -> None:
    """Raise an error if one of these settings is set. An ignored login would be worse than a failed one."""
    names = [name for name, value in settings.items() if value is not None]
    if names:
        raise KafkaSettingError(f"{', '.join(names)} has no effect with this login; {remedy}")


def parse_servers(text: str) -> str:
    """Check HOST:PORT[,HOST:PORT...] and return it without blanks."""
    servers = [server.strip() for server in text.split(",")]
    for server in servers:
        match = _SERVER.fullmatch(server)
        if not match or not 0 < int(match[2]) < 65_536:
            raise KafkaSettingError(f"brokers must be HOST:PORT[,HOST:PORT...], got {text!r}")
    return ",".join(servers)


def split_command(text: str) -> list[str]:
    """Return the program and the arguments of a token command. Quotes work as in a shell, and nothing else does."""
    try:
        arguments = shlex.split(text)
    except ValueError as error:
        raise KafkaSettingError(f"{TOKEN_COMMAND}: the quotes of the command are not closed") from error
    if not arguments:
        raise KafkaSettingError(f"{TOKEN_COMMAND} must name a program")
    if shutil.which(arguments[0]) is None:
        raise KafkaSettingError(f"{TOKEN_COMMAND}: there is no program {arguments[0]}")
    return arguments


def parse_prefix(text: str) -> str:
    """Check the prefix of the topics' names and return it."""
    if not _PREFIX.fullmatch(text):
        raise KafkaSettingError(f"a prefix may have up to 150 of the characters A-Z a-z 0-9 . _ -, got {text!r}")
    return text


def parse_instance(text: str) -> str:
    """Check the name of a worker in its group and return it."""
    # Kafka checks an instance like the name of a topic, which must not be `.` or `..`.
    if not _INSTANCE.fullmatch(text) or text in (".", ".."):
        raise KafkaSettingError(f"an instance may have 1 to 249 of the characters A-Z a-z 0-9 . _ -, got {text!r}")
    return text
