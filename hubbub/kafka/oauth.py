"""OAuth tokens for the login at Kafka: from a file that somebody renews, or from a command that prints one.

aiokafka asks for a token at each new connection. A broker closes a connection when its token expires.
"""

import asyncio
import logging
import re
import subprocess
import threading
import time
from functools import cache
from typing import Any, NamedTuple, Protocol

from hubbub.kafka.errors import KafkaUnreachable
from hubbub.kafka.settings import TOKEN_COMMAND, TOKEN_FILE, Kafka, split_command
from hubbub.secret import MOST, read
from oracles.errors import ParameterError

log = logging.getLogger(__name__)

PATIENCE = 30.0
"""Seconds that the command may take."""
MARGIN = 0.2
"""Share of a token's life that is left when it is renewed."""
LONGEST_MARGIN = 300.0
"""Most seconds of a token's life that are left when it is renewed."""
_TOKEN = re.compile(r"[!-~]+")
_EXPIRY = re.compile(r"[0-9]{1,19}")
_MILLISECONDS = 10**11
"""The least number that cannot be a time in seconds, because it would be in the year 5138."""


class Token(NamedTuple):
    """A token and the time of its expiry in Unix seconds."""

    text: str
    expiry: int

    def __repr__(self) -> str:
        # The text is a secret, and a representation ends up in logs and tracebacks.
        return f"Token(expiry={self.expiry})"


class TokenSource(Protocol):
    """A source of tokens for connections."""

    def current(self) -> str:
        """Return a token that is valid now. It may wait for a file or a command."""


class TokenFile:
    """A file with a token, which is read for each connection."""

    def __init__(self, path: str) -> None:
        self._path = path

    def current(self) -> str:
        return read(TOKEN_FILE, self._path)


class TokenCommand:
    """A command that prints a token, which serves all connections of the process until shortly before its expiry."""

    def __init__(self, command: str) -> None:
        self._arguments = split_command(command)
        self._lock = threading.Lock()
        self._token = Token("", 0)
        self._renewal = 0.0
        """The time from which a new token is needed."""

    def current(self) -> str:
        # Connections ask from threads at the same time, and the command should run once for all of them.
        with self._lock:
            if time.time() >= self._renewal:
                self._renew()
            return self._token.text

    def _renew(self) -> None:
        """Run the command. If it fails, keep the present token as long as it is valid."""
        try:
            self._token = self._run()
        except KafkaUnreachable as error:
            if time.time() >= self._token.expiry:
                raise
            log.warning("%s; the present token is valid for %.0f s more", error, self._token.expiry - time.time())
            return
        life = self._token.expiry - time.time()
        self._renewal = self._token.expiry - min(LONGEST_MARGIN, MARGIN * life)

    def _run(self) -> Token:
        program = self._arguments[0]
        try:
            # It gets no input, or a command that asks a question would wait at the operator's terminal.
            process = subprocess.run(  # noqa: S603 - the operator's command, without a shell
                self._arguments, stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE, check=False
            )
        except subprocess.TimeoutExpired:
            raise KafkaUnreachable(f"{TOKEN_COMMAND}: {program} took longer than {PATIENCE:.0f} s") from None
        except OSError as error:
            raise KafkaUnreachable(f"{TOKEN_COMMAND}: {program} cannot run: {error.strerror or error}") from None

        if process.returncode:
            # Its output may hold a secret, so the log shows none of it.
            hint = "run the command by hand to see the reason"
            raise KafkaUnreachable(f"{TOKEN_COMMAND}: {program} exited with code {process.returncode}; {hint}")
        return parse_token(process.stdout, time.time())


def parse_token(output: bytes, now: float) -> Token:
    """Return the token of the first line and the expiry of the second. If it is no token, raise KafkaUnreachable."""
    form = "must print the token on its first line and its expiry in Unix seconds on the second"
    try:
        text, expiry, *further_lines = output.decode("ascii").splitlines()
    except ValueError:
        raise KafkaUnreachable(f"{TOKEN_COMMAND} {form}") from None

    # A message never quotes the output, because it can be a secret in the wrong form.
    is_token = _TOKEN.fullmatch(text) and len(text) <= MOST
    if any(further_lines) or not is_token or not _EXPIRY.fullmatch(expiry):
        raise KafkaUnreachable(f"{TOKEN_COMMAND} {form}")
    if int(expiry) >= _MILLISECONDS:
        raise KafkaUnreachable(f"{TOKEN_COMMAND} {form}, not in milliseconds")
    if int(expiry) <= now:
        raise KafkaUnreachable(f"{TOKEN_COMMAND} printed a token that has expired; look at the clock of this machine")
    return Token(text, int(expiry))


@cache
def command_source(command: str) -> TokenCommand:
    """Return the source of a command, one for all clients of this process."""
    return TokenCommand(command)


def token_provider(kafka: Kafka) -> Any:
    """Return the provider that aiokafka asks for a token at each connection."""
    from aiokafka.abc import AbstractTokenProvider

    command = kafka.token_command
    source: TokenSource = TokenFile(kafka.token_file or "") if command is None else command_source(command)

    class Provider(AbstractTokenProvider):  # type: ignore[misc] # aiokafka ships no types
        async def token(self) -> str:
            try:
                # A command may take as long as PATIENCE, and the event loop must answer brokers meanwhile.
                return await asyncio.to_thread(source.current)
            except ParameterError as error:  # an error that aiokafka reports, and after which it tries again
                raise KafkaUnreachable(str(error)) from error

    return Provider()
