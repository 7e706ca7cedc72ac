"""A container without an engine. Its command runs here, with its environment and its files below a folder."""

import os
import re
import subprocess
import sys
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest

from tests import forks
from tests.slowness import patience

ROOT = Path(__file__).parent.parent.parent
HUBBUB = (sys.executable, "-m", "hubbub")
NOWHERE = "127.0.0.1:1"
"""A port that nobody listens on. A command that tries to reach Kafka has accepted its whole configuration."""

SERVER = re.compile(r"(\[[0-9a-f:.]+\]|[A-Za-z0-9._-]+):[0-9]{1,5}")


@dataclass(frozen=True)
class Container:
    """A container that an engine would start. `files` maps absolute paths in the container to bytes."""

    name: str
    arguments: list[str]
    environment: dict[str, str]
    files: dict[str, bytes] = field(default_factory=dict)

    @property
    def command(self) -> str:
        return self.arguments[0]


def run(container: Container, folder: Path) -> subprocess.CompletedProcess:
    """Run the real command against a Kafka that does not exist. Move its paths below `folder`."""
    for path, content in container.files.items():
        place = folder / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)
    inside = re.compile(r"/(?:etc|run|var|tmp)/[^ ,]*")

    def relocate(text: str) -> str:
        return inside.sub(lambda path: f"{folder}{path[0]}", text)

    variables = {name: relocate(value) for name, value in container.environment.items()}
    parent = {name: value for name, value in os.environ.items() if not name.startswith("HUBBUB_")}
    variables["HUBBUB_KAFKA"] = SERVER.sub(NOWHERE, variables.get("HUBBUB_KAFKA", NOWHERE))
    environment = parent | variables | {"HUBBUB_HOST": "127.0.0.1", "HUBBUB_PORT": "0"}
    command = [*HUBBUB, *map(relocate, container.arguments)]
    return forks.run(command, env=environment, cwd=ROOT, timeout=patience(60))


@cache
def help_of(command: str) -> str:
    """Return the help of a command, or an empty text if there is no such command."""
    arguments = [*HUBBUB, command, "--help"]
    return forks.run(arguments, cwd=ROOT, timeout=patience(60)).stdout


def refusal(container: Container, folder: Path) -> str | None:
    """Return why the real command refuses this container, or None if it tries to reach Kafka."""
    names = documented_variables()
    if container.command == "gateway":
        options = re.findall(r"--([a-z-]+)", help_of("gateway"))
        if not options:
            pytest.skip("hubbub has no gateway")
        # Each option of the gateway has a variable.
        names |= {f"HUBBUB_GATEWAY_{option.upper().replace('-', '_')}" for option in options}
    unknown = sorted(name for name in container.environment if name.startswith("HUBBUB_") and name not in names)
    if unknown:
        return f"no command reads {', '.join(unknown)}"
    process = run(container, folder)
    return None if process.returncode == 3 else f"exit code {process.returncode}: {process.stdout}{process.stderr}"


@cache
def documented_variables() -> frozenset[str]:
    """Return every variable in the code and the documentation of hubbub, except in the page of deployment."""
    code = (
        path for package in ("hubbub", "aggregator", "producers", "oracles") for path in (ROOT / package).rglob("*.py")
    )
    pages = (path for path in (ROOT / "docs").glob("*.md") if path.name != "deploy.md")
    return frozenset(name for path in (*code, *pages) for name in re.findall("HUBBUB_[A-Z_]*[A-Z]", path.read_text()))
