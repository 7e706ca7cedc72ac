"""Two ways to start the command of a container: with runc, or as a process in namespaces of its own."""

import os
import shutil
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from tests.deploy.stack.container import Container


class Runner(Protocol):
    """Starts and stops the command of a container."""

    def start(self, container: "Container") -> subprocess.Popen: ...

    def init(self, container: "Container") -> int: ...

    def inside(self, container: "Container", command: list[str]) -> tuple[list[str], dict[str, str]]: ...

    def stop(self, container: "Container") -> None: ...

    def kill(self, container: "Container") -> None: ...


class Processes:
    """Processes in namespaces for mounts, processes and network, as an ordinary user without rights."""

    name = "processes in namespaces of their own (no runc)"

    def start(self, container):
        root, folder = container.root, container.plan.image.folder
        command = [
            program("nsenter"),
            f"--net=/run/netns/{container.plan.name}",
            *("unshare", "--mount", "--uts", "--pid", "--fork", "--kill-child"),
            *(f"--root={root}", f"--wd={folder}", "--mount-proc"),
            *("sh", "-c", 'echo "$0" > /proc/sys/kernel/hostname && exec "$@"', container.plan.name),
            *restricted(container),
            *container.plan.command,
        ]
        return popen(command, container.plan.environment)

    def init(self, container):
        parent = container._process.pid
        children = Path(f"/proc/{parent}/task/{parent}/children")
        for _ in range(500):
            try:
                if numbers := children.read_text().split():
                    return int(numbers[0])
            except FileNotFoundError:
                break
            time.sleep(0.01)
        raise ProcessLookupError(f"{container.plan.name} has ended")

    def inside(self, container, command):
        entry = [program("nsenter"), f"--target={container.init}", "--mount", "--uts", "--net", "--pid"]
        entry += [
            f"--root=/proc/{container.init}/root",
            f"--wd=/proc/{container.init}/root{container.plan.image.folder}",
        ]
        return [*entry, *restricted(container), *command], container.plan.environment

    def stop(self, container):
        self._send(container, signal.SIGTERM)

    def kill(self, container):
        self._send(container, signal.SIGKILL)

    @staticmethod
    def _send(container, number):
        with suppress(ProcessLookupError):  # it may have just ended
            os.kill(container.init, number)


def restricted(container):
    """Return the command that gives up all rights of the system's administrator."""
    user = str(container.plan.image.user)
    rights = ("--no-new-privs", "--inh-caps=-all", "--bounding-set=-all")
    return ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", *rights]


def popen(command, environment):
    return subprocess.Popen(
        command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )


def program(name):
    path = shutil.which(name)
    if path is None:
        raise FileNotFoundError(f"this machine has no {name}")
    return path
