"""Two ways to start the command of a container: with runc, or as a process in namespaces of its own."""

import json
import os
import shutil
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from tests.deploy.containers import ROOT

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
        root = container.root
        folder = container.plan.image.folder
        command = [
            program("nsenter"),
            f"--net=/run/netns/{container.plan.name}",
            "unshare",
            "--mount",
            "--uts",
            "--pid",
            "--fork",
            "--kill-child",
            f"--root={root}",
            f"--wd={folder}",
            "--mount-proc",
            "sh",
            "-c",
            'echo "$0" > /proc/sys/kernel/hostname && exec "$@"',
            container.plan.name,
            *restricted(container),
            *container.plan.command,
        ]
        return popen(command, container.plan.environment)

    def init(self, container):
        parent = container._process.pid
        children = Path(f"/proc/{parent}/task/{parent}/children")
        for _ in range(500):
            try:
                numbers = children.read_text().split()
                if numbers:
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


class Runc(Processes):
    """Containers of runc, with the limits of compose.yaml."""

    name = "containers of runc"

    def start(self, container):
        bundle = container.folder / "bundle"
        number = container.folder / "pid"
        bundle.mkdir(exist_ok=True)
        number.unlink(missing_ok=True)
        (bundle / "config.json").write_text(json.dumps(specification(container)))
        self._call(container, "delete", "--force", container.plan.name)
        return popen([*self._runc(container), "run", f"--bundle={bundle}", f"--pid-file={number}", container.plan.name])

    def init(self, container):
        number = container.folder / "pid"
        for _ in range(500):
            if container._process.poll() is not None:
                break
            if number.exists() and (text := number.read_text()):
                return int(text)
            time.sleep(0.01)
        raise ProcessLookupError(f"{container.plan.name} has ended")

    def inside(self, container, command):
        return [*self._runc(container), "exec", container.plan.name, *command], dict(os.environ)

    @staticmethod
    def _runc(container):
        return [runc(), f"--root={container.folder.parent / 'runc'}"]

    def _call(self, container, *words):
        subprocess.run([*self._runc(container), *words], check=False, capture_output=True)


def runc():
    """Return the path of runc, or None."""
    folders = (ROOT / "build" / "runc" / "usr" / "sbin", os.environ["PATH"])
    return shutil.which("runc", path=os.pathsep.join(map(str, folders)))


def specification(container):
    """Return the settings of a container for runc (config.json of the OCI runtime specification)."""
    plan = container.plan
    user = {"uid": plan.image.user, "gid": plan.image.user}
    variables = [f"{name}={value}" for name, value in plan.environment.items()]
    network = {"type": "network", "path": f"/run/netns/{plan.name}"}
    return {
        "ociVersion": "1.0.2",
        "process": {
            "user": user,
            "args": plan.command,
            "env": variables,
            "cwd": plan.image.folder,
            "capabilities": {kind: [] for kind in ("bounding", "effective", "inheritable", "permitted", "ambient")},
            "noNewPrivileges": True,
        },
        "root": {"path": str(container.root), "readonly": not plan.writable},
        "hostname": plan.name,
        "mounts": [{"destination": "/proc", "type": "proc", "source": "proc"}],
        "linux": {
            "namespaces": [*({"type": kind} for kind in ("pid", "mount", "uts", "ipc")), network],
            "cgroupsPath": f"/hubbub-stack-{os.getpid()}-{container.folder.parent.parent.name}/{plan.name}",
            "resources": {
                "memory": {"limit": size(plan.limits["memory"])},
                "pids": {"limit": plan.limits["pids"]},
                "cpu": {"period": 100_000, "quota": int(100_000 * float(plan.limits["cpus"]))},
            },
        },
    }


def size(text):
    """Return the bytes of a size of compose.yaml, for example `512m`."""
    return int(text[:-1]) << {"k": 10, "m": 20, "g": 30}[text[-1]]


def best_runner(*, plain):
    """Return the runner for this machine: runc if it is there, unless `plain` processes are asked for."""
    return Processes() if plain or runc() is None else Runc()


def restricted(container):
    """Return the command that gives up all rights of the system's administrator."""
    user = str(container.plan.image.user)
    rights = ("--no-new-privs", "--inh-caps=-all", "--bounding-set=-all")
    return ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", *rights]


def popen(command, environment=None):
    return subprocess.Popen(
        command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )


def program(name):
    path = shutil.which(name)
    if path is None:
        raise FileNotFoundError(f"this machine has no {name}")
    return path
