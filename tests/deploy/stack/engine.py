"""The part of `docker compose` that the runbooks and docs/deploy.md need, for one project."""

import os
import re
import threading
import time
from itertools import chain
from pathlib import Path

import yaml

from tests.deploy.stack.container import Container, Mount, Plan, seconds
from tests.deploy.stack.images import Missing, image
from tests.deploy.stack.network import Network
from tests.deploy.stack.runners import Runner
from tests.slowness import patience

VARIABLE = re.compile(r"\$\{([A-Z_]+):-([^}]*)\}")
SECRETS = "/run/secrets"


class Refusal(Exception):
    """An error of the user. `docker compose` prints it and exits with 1."""


class Project:
    """A project: compose.yaml and its containers."""

    def __init__(self, file: Path, folder: Path, network: Network, runner: Runner, name=None, change=None) -> None:
        text = VARIABLE.sub(lambda match: os.environ.get(match[1]) or match[2], file.read_text())
        self.file, self.folder, self.network, self.runner = file, folder, network, runner
        self.definition = yaml.safe_load(text)
        if change is not None:
            change(self.definition)
        self.name = name or self.definition["name"]
        self.services = self.definition["services"]
        self.missing: dict[str, str] = {}
        """The services that cannot run here, with the reasons."""
        self.containers: dict[str, Container] = {}
        self.extra_environment: dict[str, dict[str, str]] = {}
        """Variables that a drill adds to those of a service."""
        self._ports: dict[str, list] = {}
        self._lock = threading.RLock()
        for service, definition in self.services.items():
            try:
                image(definition["image"])
            except Missing as error:
                self.missing[service] = str(error)

    def addresses(self, name: str) -> list[str]:
        """Return the addresses of the running containers of a service."""
        return [container.address for container in self.of(name) if container.running]

    def of(self, service: str) -> list[Container]:
        return [container for container in self.containers.values() if container.plan.service == service]

    def one_offs(self, service: str) -> list[Container]:
        """Return the containers of `docker compose run`."""
        return [container for container in self.of(service) if not container.plan.name.rpartition("-")[2].isdigit()]

    def replicas(self, service: str) -> list[Container]:
        return [container for container in self.of(service) if container.plan.name.rpartition("-")[2].isdigit()]

    def first(self, service: str, index: int = 1) -> Container:
        """Return the running container of a service with a number."""
        container = self.containers.get(f"{self.name}-{service}-{index}")
        if container is None or not container.running:
            raise Refusal(f'service "{service}" is not running')
        return container

    def enabled(self, profile: str | None) -> list[str]:
        """Return the services that `up` starts, each after those that it depends on."""
        names = [
            name
            for name, definition in self.services.items()
            if name not in self.missing and (not definition.get("profiles") or profile in definition["profiles"])
        ]
        return self._ordered(names)

    def _ordered(self, names: list[str]) -> list[str]:
        result: list[str] = []
        for name in names:
            for needed in [*self._ordered([*self.services[name].get("depends_on", {})]), name]:
                if needed not in result:
                    result.append(needed)
        return result

    def up(self, services: list[str], profile: str | None = None, scale: dict[str, int] | None = None) -> None:
        """Create and start the services, and those that they depend on, in order."""
        names = self._ordered(services) if services else self.enabled(profile)
        for name in names:
            if name in self.missing:
                raise Refusal(self.missing[name])
            for other, condition in self.services[name].get("depends_on", {}).items():
                self._wait(other, condition["condition"])
            number = (scale or {}).get(name, self.services[name].get("deploy", {}).get("replicas", 1))
            for index in range(1, number + 1):
                key = f"{self.name}-{name}-{index}"
                container = self.containers.get(key) or self.create(name, key)
                if container.state != "running":
                    self.start(container)
            for container in self.replicas(name):
                if int(container.plan.name.rpartition("-")[2]) > number:
                    self.remove(container)

    def create(self, service: str, key: str, command: list[str] | None = None, restart: str | None = None) -> Container:
        """Create a container. A command replaces that of the service."""
        definition = self.services[service]
        source = image(definition["image"])
        entrypoint = definition.get("entrypoint", source.entrypoint)
        check = definition.get("healthcheck", source.healthcheck)
        plan = Plan(
            name=key,
            service=service,
            image=source,
            command=[*entrypoint, *(command or definition.get("command", source.command))],
            environment=source.environment
            | {"HOSTNAME": key}
            | definition.get("environment", {})
            | self.extra_environment.get(service, {}),
            mounts=[*(Mount(*folder) for folder in source.folders.items()), *self._mounts(definition, source.user)],
            restart=restart or definition.get("restart", "no"),
            grace=seconds(definition.get("stop_grace_period", "10s")),
            healthcheck=None if check is None or check.get("disable") else check,
            writable=not definition.get("read_only"),
            limits=definition["deploy"]["resources"]["limits"],
        )
        with self._lock:
            container = self.containers[key] = Container(plan, self.folder / "containers", self.network, self.runner)
        return container

    def _mounts(self, definition, user):
        for tmpfs in definition.get("tmpfs", []):
            target, _, options = tmpfs.partition(":")
            yield Mount(target, None, options)
        for config in definition.get("configs", []):
            yield Mount(config["target"], self._path(self.definition["configs"][config["source"]]["file"]))
        for secret in definition.get("secrets", []):
            yield Mount(f"{SECRETS}/{secret}", self._path(self.definition["secrets"][secret]["file"]))
        for volume in definition.get("volumes", []):
            source, target, *options = volume.split(":")
            if source in self.definition["volumes"]:
                place = self.folder / "volumes" / source
                place.mkdir(parents=True, exist_ok=True)
                os.chown(place, user, user)
                yield Mount(target, place, "rw")
            else:
                yield Mount(target, self._path(source), *options)

    def _path(self, setting: str) -> Path:
        return (self.file.parent / setting).resolve()

    def start(self, container: Container) -> None:
        for port in self.services[container.plan.service].get("ports", []):
            key = container.plan.name
            if container in self.replicas(container.plan.service) and key not in self._ports:
                address, outside, inside = port.split(":")
                target = (container.address, int(inside))
                try:
                    self._ports[key] = [self.network.publish(address, int(outside), lambda target=target: target)]
                except OSError as error:
                    raise Refusal(f"Bind for {address}:{outside} failed: port is already allocated") from error
        container.start()

    def remove(self, container: Container) -> None:
        with self._lock:
            self.containers.pop(container.plan.name, None)
        for server in self._ports.pop(container.plan.name, []):
            server.shutdown()
            server.server_close()
        container.remove()

    def stop(self, services: list[str]) -> None:
        """Stop services, all of their containers at a time."""
        stopping = [*chain.from_iterable(self.replicas(name) for name in services or self.services)]
        threads = [threading.Thread(target=container.stop) for container in stopping]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def restart(self, services: list[str]) -> None:
        self.stop(services)
        for name in services:
            for container in self.replicas(name):
                self.start(container)

    def _wait(self, service: str, condition: str, longest: float = 180.0) -> None:
        """Wait until the containers of a service fulfil a condition of `depends_on`."""
        begin = time.monotonic()
        while time.monotonic() - begin < patience(longest):
            ones = self.replicas(service)
            if condition == "service_completed_successfully" and all(container.state == "exited" for container in ones):
                if all(container.code == 0 for container in ones):
                    return
                culprit = next(container for container in ones if container.code)
                refusal = f'service "{service}" didn\'t complete successfully: exit {culprit.code}'
                raise Refusal(refusal + culprit.last_lines())
            if condition == "service_healthy" and ones and all(container.health == "healthy" for container in ones):
                return
            if condition == "service_started":
                return
            time.sleep(0.1)
        lines = "".join(container.last_lines() for container in self.replicas(service))
        raise Refusal(f"dependency failed to start: {service} is not {condition}{lines}")

    def close(self) -> None:
        """Remove every container, by force."""
        for container in list(self.containers.values()):
            container.plan.grace = 0
            self.remove(container)
