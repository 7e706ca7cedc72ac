"""A container: a command of a service with its files, its address, its log, its health and its restarts."""

import os
import shutil
import signal
import subprocess
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from tests.deploy.stack.images import Image, machine_folders
from tests.deploy.stack.network import Network
from tests.deploy.stack.runners import Runner

FIRST_PAUSE, LONGEST_PAUSE, STABLE = 0.1, 60.0, 10.0
"""The pauses before restarts double from the first to the longest. A run of ten seconds resets them, as with Docker."""
LINES = 100_000
"""The newest lines of a log that are kept in memory. All are in the file."""


@dataclass
class Mount:
    """A file or folder of this machine at a path of the container. Without a source it is a tmpfs."""

    target: str
    source: Path | None = None
    options: str = "ro"


@dataclass
class Plan:
    """All that a container is made from."""

    name: str
    service: str
    image: Image
    command: list[str]
    environment: dict[str, str]
    mounts: list[Mount]
    restart: str = "no"
    grace: float = 10.0
    healthcheck: dict[str, object] | None = None
    writable: bool = False
    limits: dict[str, str | int] = field(default_factory=dict)


class Container:
    """A container. `state` is created, running, restarting or exited."""

    def __init__(self, plan: Plan, folder: Path, network: Network, runner: Runner) -> None:
        self.plan, self.network, self.runner = plan, network, runner
        self.folder = folder / plan.name
        self.root = self.folder / "root"
        self.address = network.attach(plan.name)
        self.state, self.code, self.health = "created", 0, ""
        self.since = time.time()
        self.restarts = 0
        self.lines: list[tuple[float, str]] = []
        self._on = False
        self._process: subprocess.Popen | None = None
        self._monitor: threading.Thread | None = None
        self._mount()

    @property
    def running(self) -> bool:
        return self.state == "running"

    @property
    def init(self) -> int:
        """The number of the container's first process."""
        return self.runner.init(self)

    def _mount(self) -> None:
        layer = self.folder / "layer"
        self.root.mkdir(parents=True)
        layer.mkdir()
        self.plan.image.write(layer)
        for folder in ("proc", "tmp", "root"):  # others cannot read /root, which may hold the programs of this machine
            (layer / folder).mkdir(mode=0o755)
        (layer / "etc").mkdir(exist_ok=True)
        (layer / "etc" / "hostname").write_text(f"{self.plan.name}\n")
        (layer / "etc" / "hosts").write_text(f"127.0.0.1 localhost\n{self.address} {self.plan.name}\n")
        (layer / "etc" / "resolv.conf").write_bytes(Path("/etc/resolv.conf").read_bytes())
        for mount in self.plan.mounts:
            place = layer / mount.target.lstrip("/")
            if mount.source is None or mount.source.is_dir():
                place.mkdir(parents=True, exist_ok=True)
            else:
                place.parent.mkdir(parents=True, exist_ok=True)
                place.touch()
        # The root of this machine does not hold folders of its other file systems.
        for folder in machine_folders():
            (layer / folder.relative_to("/")).mkdir(parents=True, exist_ok=True)
        options = f"lowerdir={layer}:/"
        if self.plan.writable:
            for name in ("upper", "work"):
                (self.folder / name).mkdir()
            options += f",upperdir={self.folder / 'upper'},workdir={self.folder / 'work'}"
        run("mount", "-t", "overlay", "overlay", "-o", options, str(self.root))
        run("mount", "--rbind", "/dev", f"{self.root}/dev")
        if self.plan.writable:
            (self.root / "tmp").chmod(0o1777)
        for mount in self.plan.mounts:
            target = f"{self.root}{mount.target}"
            if mount.source is None:
                run("mount", "-t", "tmpfs", "-o", mount.options, "tmpfs", target)
            else:
                run("mount", "--bind", "-o", mount.options, str(mount.source), target)
        for folder in machine_folders():
            self._show(folder)

    def _show(self, folder: Path) -> None:
        """Mount a folder of this machine at its own path if another file system hides it."""
        place = self.root / folder.relative_to("/")
        if not place.is_dir() or not any(place.iterdir()):
            place.mkdir(parents=True, exist_ok=True)
            run("mount", "--bind", "-o", "ro", str(folder), str(place))

    def start(self) -> None:
        """Start the command, and keep it running as the restart policy says."""
        if self._monitor is not None and self._monitor.is_alive():
            return
        self._on = True
        self._launch()
        self._monitor = threading.Thread(target=self._watch, daemon=True)
        self._monitor.start()

    def _launch(self) -> None:
        self.health = "starting" if self.plan.healthcheck else ""
        self._process = self.runner.start(self)
        self.state = "running"
        self.since = time.time()
        threading.Thread(target=self._log, args=(self._process,), daemon=True).start()
        if self.plan.healthcheck:
            threading.Thread(target=self._check, args=(self._process,), daemon=True).start()

    def _watch(self) -> None:
        pause = FIRST_PAUSE
        while True:
            code = self._process.wait()
            ran = time.time() - self.since
            self.code = 128 - code if code < 0 else code
            again = self.plan.restart in ("always", "unless-stopped") or (self.plan.restart == "on-failure" and code)
            self.state = "restarting"
            self.since = time.time()
            self.health = ""
            pause = FIRST_PAUSE if ran > STABLE else pause
            deadline = time.monotonic() + pause
            while self._on and again and time.monotonic() < deadline:
                time.sleep(0.05)
            if not (self._on and again):
                self.state = "exited"
                return
            pause = min(2 * pause, LONGEST_PAUSE)
            self.restarts += 1
            self._launch()

    def _log(self, process: subprocess.Popen) -> None:
        with (self.folder / "log").open("a") as file:
            for raw in process.stdout:
                line = raw.decode(errors="replace").rstrip("\n")
                self.lines.append((time.time(), line))
                del self.lines[:-LINES]
                file.write(line + "\n")
                file.flush()

    def _check(self, process: subprocess.Popen) -> None:
        check = self.plan.healthcheck
        interval = seconds(check.get("interval", "30s"))
        timeout = seconds(check.get("timeout", "30s"))
        begin = time.time()
        failures = 0
        while process.poll() is None:
            time.sleep(min(interval, 1.0) if self.health == "starting" else interval)
            try:
                healthy = self.run(check["test"][1:], timeout).returncode == 0
            except (subprocess.TimeoutExpired, ProcessLookupError):
                healthy = False
            if process.poll() is not None:
                return
            failures = 0 if healthy else failures + 1
            if healthy:
                self.health = "healthy"
            elif failures >= int(check.get("retries", 3)) and time.time() - begin > seconds(
                check.get("start_period", "0s")
            ):
                self.health = "unhealthy"

    def run(self, command: list[str], timeout: float = 60.0) -> subprocess.CompletedProcess:
        """Run a command in the container."""
        arguments, environment = self.runner.inside(self, command)
        with subprocess.Popen(
            arguments,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        ) as process:
            try:
                output, errors = process.communicate(timeout=timeout)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)  # the command in the container too
                raise
        return subprocess.CompletedProcess(arguments, process.returncode, output, errors)

    def last_lines(self, number: int = 10) -> str:
        """Return the newest lines of the log, each with the name of the container."""
        return "".join(f"\n{self.plan.name}: {line}" for _, line in self.lines[-number:])

    def signal(self, number: int) -> None:
        """Send a signal to the container's first process."""
        os.kill(self.init, number)

    def stop(self) -> None:
        """End the command in order, or by force after its grace."""
        self._on = False
        if self.running:
            self.runner.stop(self)
            try:
                self._process.wait(self.plan.grace)
            except subprocess.TimeoutExpired:
                self.runner.kill(self)
        if self._monitor is not None:
            self._monitor.join()

    def remove(self) -> None:
        """Stop the container, and remove its files and its address."""
        self.stop()
        run("umount", "--recursive", str(self.root))
        self.network.detach(self.plan.name)
        shutil.rmtree(self.folder)


def run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True)


def seconds(text: str) -> float:
    """Return a duration of compose.yaml, for example `10s` or `1m30s`."""
    units = {"h": 3600.0, "m": 60.0, "s": 1.0}
    total, number = 0.0, ""
    for letter in str(text):
        if letter in units:
            total = total + float(number) * units[letter]
            number = ""
        else:
            number += letter
    return total + float(number or 0)
