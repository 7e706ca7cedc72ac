"""A container without an engine: its command runs here, with its environment and its files below a folder."""

import os
import re
import subprocess
import sys
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
HUBBUB = (sys.executable, "-m", "hubbub")
NOWHERE = "127.0.0.1:1"
"""A port that nobody listens on: a command that gets as far as Kafka has accepted all that it was given."""

SERVER = re.compile(r"(\[[0-9a-f:.]+\]|[A-Za-z0-9._-]+):[0-9]{1,5}")


@dataclass(frozen=True)
class Container:
    """What an engine would start. Files are bytes by their absolute path in the container."""

    name: str
    arguments: list[str]
    environment: dict[str, str]
    files: dict[str, bytes] = field(default_factory=dict)

    @property
    def command(self) -> str:
        return self.arguments[0]


def run(container: Container, folder: Path) -> subprocess.CompletedProcess:
    """The real command, asked to reach a Kafka that is not there. Paths lead below `folder`."""
    for path, content in container.files.items():
        place = folder / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)
    inside = re.compile(r"/(?:etc|run|var|tmp)/[^ ,]*")

    def here(text: str) -> str:
        return inside.sub(lambda path: f"{folder}{path[0]}", text)

    given = {name: here(value) for name, value in container.environment.items()}
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("HUBBUB_")}
    given["HUBBUB_KAFKA"] = SERVER.sub(NOWHERE, given.get("HUBBUB_KAFKA", NOWHERE))
    environment = inherited | given | {"HUBBUB_HOST": "127.0.0.1", "HUBBUB_PORT": "0"}
    command = [*HUBBUB, *map(here, container.arguments)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False, cwd=ROOT)


def help_of(command: str) -> str:
    """Empty where there is no such command."""
    asked = [*HUBBUB, command, "--help"]
    return subprocess.run(asked, capture_output=True, text=True, timeout=60, check=False, cwd=ROOT).stdout


def refusal(container: Container, folder: Path) -> str | None:
    """What the real command has against this container; None where it got as far as Kafka."""
    known = variables()
    if container.command == "gateway":
        if not (options := re.findall(r"--([a-z-]+)", help_of("gateway"))):
            pytest.skip("hubbub has no gateway")
        # Its variables are made of its options.
        known |= {f"HUBBUB_GATEWAY_{option.upper().replace('-', '_')}" for option in options}
    unknown = sorted(name for name in container.environment if name.startswith("HUBBUB_") and name not in known)
    if unknown:
        return f"no command reads {', '.join(unknown)}"
    done = run(container, folder)
    return None if done.returncode == 3 else f"exit code {done.returncode}: {done.stdout}{done.stderr}"


@cache
def variables() -> frozenset[str]:
    """Every variable that hubbub's own code reads, or that its documentation has; the page of deployment aside."""
    code = (
        path for package in ("hubbub", "aggregator", "producers", "oracles") for path in (ROOT / package).rglob("*.py")
    )
    pages = (path for path in (ROOT / "docs").glob("*.md") if path.name != "deploy.md")
    return frozenset(name for path in (*code, *pages) for name in re.findall("HUBBUB_[A-Z_]*[A-Z]", path.read_text()))
