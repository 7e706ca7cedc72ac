"""A temporary folder and a process in it. Both disappear when this process ends, even by a crash."""

import os
import secrets
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

# A shell waits for the end of its input. It comes when we close the pipe, or when the system does because we died.
# Then the shell kills the process with the last number that it read. The pause lets that process finish its writes.
_KEEP = """
while read -r line; do pid=$line; done
if [ -n "$pid" ]; then kill -KILL "$pid"; sleep 0.5; fi
rm -rf -- "$1"
"""
# A process sends its number to the keeper before it starts, so that the keeper always knows it.
_RUN = 'echo $$ >&0; exec "$@" </dev/null'


class Keeper:
    """A temporary folder, and one process at a time in it."""

    def __init__(self, name: str) -> None:
        self.folder = Path(tempfile.gettempdir(), f"hubbub-{name}-{secrets.token_hex(8)}")
        read_end, self._line = os.pipe()

        # In its own session, Ctrl-C reaches only us, and everything that needs the process ends first.
        self._shell = subprocess.Popen(  # noqa: S603 - the command is ours
            ("/bin/sh", "-c", _KEEP, "keeper", str(self.folder)),
            stdin=read_end,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(read_end)

        self.process: subprocess.Popen[bytes] | None = None
        self.folder.mkdir(mode=0o700)

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def run(self, command: Sequence[str], log: Path) -> subprocess.Popen[bytes]:
        """Start a process after the previous one has ended, and append its output to `log`."""
        with log.open("ab") as output:
            self.process = subprocess.Popen(  # noqa: S603
                ("/bin/sh", "-c", _RUN, "run", *command),
                cwd=self.folder,
                stdin=self._line,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        return self.process

    def send(self, number: signal.Signals) -> None:
        if self.process is not None:
            self.process.send_signal(number)

    def stop(self, number: signal.Signals = signal.SIGTERM, seconds: float = 10.0) -> None:
        """End the process, by force if it does not end in time."""
        if self.process is None:
            return
        self.process.send_signal(number)
        self.process.send_signal(signal.SIGCONT)
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.write(self._line, b"\n")  # another process may get its number soon

    def close(self) -> None:
        """End the process at once and remove the folder."""
        self.stop(signal.SIGKILL)
        os.close(self._line)
        self._shell.wait()


@contextmanager
def temporary_file(name: str, text: str) -> Iterator[Path]:
    """Write a file that disappears with the block, or when this process ends."""
    keeper = Keeper("file")
    try:
        path = keeper.folder / name
        path.write_text(text, encoding="utf-8")
        yield path
    finally:
        keeper.close()
