"""The stack: the project of deploy/compose.yaml on a network of its own, with a stand-in for `docker` on PATH."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Self

import yaml

from tests.deploy.compose import DEPLOY, ROOT, make_secrets
from tests.deploy.stack.container import seconds
from tests.deploy.stack.daemon import Daemon
from tests.deploy.stack.engine import Project
from tests.deploy.stack.network import GATEWAY, Network
from tests.deploy.stack.pager import Pager, connect
from tests.deploy.stack.runners import Runner
from tests.deploy.stack.secured import BROKERS, add_users, secure
from tests.slowness import patience

INSIDE = "HUBBUB_STACK_INSIDE"
PROMETHEUS = "http://127.0.0.1:9090"
RULES = "alerts.rules.yaml"
ROUTES = "alertmanager.yml"
PARTITIONS = 5
SECOND = "staging"
"""The name of the second installation."""


def enter() -> None:
    """Run this program again in namespaces of its own: its processes, mounts, addresses and ports end with it."""
    if os.environ.get(INSIDE):
        return
    namespaces = ("unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
    user = () if os.geteuid() == 0 else ("--user", "--map-root-user")
    reaper = ("bash", "-c", '"$@"; exit $?', "stack")  # the first process must wait for orphans
    program = (sys.executable, "-m", "tests.deploy.stack", *sys.argv[1:])
    command = ("setpriv", "--pdeathsig=KILL", *namespaces, *user, *reaper, *program)
    with tempfile.TemporaryDirectory(prefix="hubbub-stack-") as folder:
        environment = os.environ | {INSIDE: folder, "PYTHONPATH": str(ROOT)}
        with subprocess.Popen(command, env=environment) as process:
            signal.signal(signal.SIGTERM, lambda *_: process.kill())
            try:
                code = process.wait()
            except KeyboardInterrupt:
                process.kill()
                code = 130
    sys.exit(code)


class Stack:
    """The project with its folder. `factor` divides the times of the alerts, for the short form only."""

    def __init__(self, runner: Runner, factor: float = 1.0, *, second: bool = True, with_logins: bool = False) -> None:
        self.folder = Path(os.environ[INSIDE])
        subprocess.run(("mount", "-t", "tmpfs", "tmpfs", self.folder), check=True)
        self.folder.chmod(0o755)
        shutil.copytree(DEPLOY, self.folder / "deploy", ignore=shutil.ignore_patterns("secrets", "__pycache__"))
        make_secrets(self.folder)
        (self.folder / "deploy" / "secrets").chmod(0o755)
        if factor != 1:
            for name in (RULES, ROUTES):
                shorten(self.folder / "deploy" / "prometheus" / name, factor)
            quicken(self.folder / "deploy" / "prometheus" / "prometheus.yml")
        connect(self.folder / "deploy" / "prometheus" / "alertmanager.yml")
        self.with_logins = with_logins
        self.secrets = self.folder / "deploy" / "secrets"
        self.query_file = self.folder / "deploy" / "hubbub.toml"
        logins = secure(self.secrets) if with_logins else None

        def change(definition: dict) -> None:
            publish_observers(definition)
            use_partitions(definition, PARTITIONS)
            if logins is not None:
                logins(definition)

        self._resolve_names()
        self.network = Network(self.addresses)
        compose = self.folder / "deploy" / "compose.yaml"
        project = Project(compose, self.folder, self.network, runner, change=change)
        self.projects = [project]
        self.project = project
        if second:
            watch_second(self.folder / "deploy" / "prometheus" / "prometheus.yml")
            self.projects.append(
                Project(project.file, self.folder / SECOND, self.network, runner, SECOND, other_installation)
            )
        self.pager = Pager()
        self.daemon = Daemon(self.folder / "docker.socket", project)
        (self.folder / "bin").mkdir()
        (self.folder / "bin" / "docker").symlink_to(Path(__file__).with_name("docker.py"))
        self.environment = os.environ | {
            "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}",
            "HUBBUB_STACK": str(self.folder / "docker.socket"),
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for project in self.projects:
            project.close()

    def _resolve_names(self) -> None:
        """Let this program ask the name server too."""
        file = self.folder / "resolv.conf"
        file.write_text(f"nameserver {GATEWAY}\n")
        subprocess.run(("mount", "--bind", file, "/etc/resolv.conf"), check=True)

    def addresses(self, name: str, client: str) -> list[str]:
        """Return the addresses of a service in the project of the client. `NAME.PROJECT` is that of another project."""
        service, _, of = name.partition(".")
        for project in self.projects:
            inside = any(client == container.address for container in project.containers.values())
            if project.name == of or (not of and inside):
                return project.addresses(service)
        return [] if of else self.project.addresses(service)  # this program is outside

    def sh(self, line: str, timeout: float = 600.0) -> subprocess.CompletedProcess:
        """Run a line of a page in the folder of the project."""
        return subprocess.run(
            ("bash", "-c", line),
            cwd=self.folder,
            env=self.environment,
            timeout=patience(timeout),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )

    def must(self, line: str) -> None:
        """Run a line that must not fail."""
        process = self.sh(line)
        if process.returncode:
            raise OSError(f"{line}: {process.stdout}")

    @property
    def brokers(self) -> tuple[str, ...]:
        """The services that are brokers."""
        return BROKERS if self.with_logins else BROKERS[:1]

    def up(self) -> None:
        if self.with_logins:
            self.must(f"docker compose -f deploy/compose.yaml up --detach {' '.join(BROKERS)}")
            until(lambda: all(self.project.first(each).health == "healthy" for each in BROKERS), "brokers answer", 300)
            add_users(lambda line: self.must(f"docker compose -f deploy/compose.yaml exec kafka {line}"), self.secrets)
        self.must("docker compose -f deploy/compose.yaml --profile demo up --detach --build")
        for project in self.projects[1:]:
            project.up(["worker", "gateway", "board", "simulator"])

    def ready(self) -> bool:
        """Whether no container is unhealthy, and Prometheus reaches every process."""
        ones = [one for project in self.projects for one in project.containers.values() if one.state != "exited"]
        if any(container.health not in ("", "healthy") for container in ones):
            return False
        try:
            targets = self.get("/api/v1/targets?state=active")["data"]["activeTargets"]
        except OSError:
            return False
        processes = [one for one in ones if one.plan.service in ("worker", "gateway", "board", "simulator", "sink")]
        return len(targets) == len(processes) and all(target["health"] == "up" for target in targets)

    def alerts(self) -> list[dict[str, str]]:
        """Return the labels of the alerts that fire."""
        return [alert["labels"] for alert in self.get("/api/v1/alerts")["data"]["alerts"] if alert["state"] == "firing"]

    def query(self, expression: str) -> list[dict]:
        return self.get("/api/v1/query?" + urllib.parse.urlencode({"query": expression}))["data"]["result"]

    @staticmethod
    def get(path: str) -> dict:
        with urllib.request.urlopen(PROMETHEUS + path, timeout=patience(10)) as answer:
            return json.load(answer)


def shorten(file: Path, factor: float) -> None:
    """Divide the waits of a copy of the rules or of alertmanager.yml.

    An alert that fires on for less than `group_wait` would page nobody, so both are divided.
    """

    def divided(match: re.Match) -> str:
        return f"{match[1]}{seconds(match[2]) / factor:.0f}s"

    waits = r"^( *(?:for|keep_firing_for|group_wait|group_interval): )(\d+[sm])\b"
    file.write_text(re.sub(waits, divided, file.read_text(), flags=re.MULTILINE))


def quicken(file: Path) -> None:
    """Let a copy of prometheus.yml look at names, targets and rules three times as often."""
    text = file.read_text()
    file.write_text(re.sub(r"_(interval|timeout): (15|10)s$", r"_\1: 5s", text, flags=re.MULTILINE))


def watch_second(file: Path) -> None:
    """Let a copy of prometheus.yml find the second installation too, under its own `release`."""
    definition = yaml.safe_load(file.read_text())
    rule = {"source_labels": ["__meta_dns_name"], "regex": rf".*\.{SECOND}", "target_label": "release"}
    for job in definition["scrape_configs"]:
        [source] = job["dns_sd_configs"]
        source["names"] += [f"{name}.{SECOND}" for name in source["names"]]
        job["relabel_configs"] = [*job["relabel_configs"], rule | {"replacement": SECOND}]
    file.write_text(yaml.safe_dump(definition, sort_keys=False))


def publish_observers(definition: dict) -> None:
    """Publish the ports of Prometheus and Alertmanager, because the campaign is outside of the project."""
    for service, port in (("prometheus", 9090), ("alertmanager", 9093)):
        definition["services"][service]["ports"] = [f"127.0.0.1:{port}:{port}"]


def use_partitions(definition: dict, number: int) -> None:
    """Let the service `topics` make another number of partitions than its own, as an operator may."""
    definition["services"]["topics"]["command"] = ["topics", "--partitions", str(number)]


def other_installation(definition: dict) -> None:
    """Give the second installation its own prefix and one worker, and publish none of its ports."""
    for service in definition["services"].values():
        service["ports"] = []
        service["environment"] = service.get("environment", {}) | {"HUBBUB_PREFIX": f"{SECOND}."}
    definition["services"]["worker"]["deploy"]["replicas"] = 1


def until(condition, event: str, seconds: float) -> object:
    """Return the first true result of a condition."""
    begin = time.monotonic()
    result = condition()
    while not result:
        # The load may grow while this waits, so the limit is computed anew.
        if time.monotonic() - begin > patience(seconds):
            raise TimeoutError(f"not within {seconds:.0f} s of an idle machine: {event}")
        time.sleep(0.5)
        result = condition()
    return result
