"""A folder and the process that works in it, both gone when this process is, however it dies."""

import os
import secrets
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

# A shell waits for the end of its input, which comes when the last of our ends of the pipe is closed: by us, or
# by the system if we die. Then it ends the process it was told of last. The pause lets that one write its last.
_KEEP = """
while read -r line; do pid=$line; done
if [ -n "$pid" ]; then kill -KILL "$pid"; sleep 0.5; fi
rm -rf -- "$1"
"""
# A process names itself to the keeper before it begins, so that there is no moment in which only we know of it.
_RUN = 'echo $$ >&0; exec "$@" </dev/null'


class Keeper:
    """One temporary folder, and one process at a time that works there."""

    def __init__(self, name: str) -> None:
        self.folder = Path(tempfile.gettempdir(), f"hubbub-{name}-{secrets.token_hex(8)}")
        reading, self._line = os.pipe()
        # In a session of its own, Ctrl-C reaches neither it nor the process, only us; what needs them ends first.
        self._shell = subprocess.Popen(  # noqa: S603 - the command is ours
            ("/bin/sh", "-c", _KEEP, "keeper", str(self.folder)),
            stdin=reading,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(reading)
        self.process: subprocess.Popen[bytes] | None = None
        self.folder.mkdir(mode=0o700)

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def run(self, command: Sequence[str], log: Path) -> subprocess.Popen[bytes]:
        """Start a process, once the one before has ended; what it prints goes to the end of `log`."""
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
        """End the process, by force where it does not listen in time."""
        if self.process is None:
            return
        self.process.send_signal(number)
        self.process.send_signal(signal.SIGCONT)
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.write(self._line, b"\n")  # its number may soon be another's

    def close(self) -> None:
        """End the process at once and remove the folder."""
        self.stop(signal.SIGKILL)
        os.close(self._line)
        self._shell.wait()
