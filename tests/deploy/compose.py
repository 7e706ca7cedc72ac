"""deploy/compose.yaml and the files that it needs: secrets, and the settings of its Kafka."""

import re
import subprocess
from pathlib import Path

import yaml

from tests.deploy.containers import ROOT
from tests.slowness import patience

DEPLOY = ROOT / "deploy"
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
SERVICES = COMPOSE["services"]


def file_of(setting: str) -> Path:
    """Return a path of compose.yaml, with the default of its variable."""
    return DEPLOY / re.sub(r"\$\{[A-Z_]+:-(.*)\}", r"\1", setting)


def make_secrets(folder: Path) -> None:
    """Run the commands of docs/deploy.md that make the secrets. They write to `folder`/deploy."""
    block = re.search(r"<!-- secrets -->\n+```console\n(.*?)```", (ROOT / "docs" / "deploy.md").read_text(), re.DOTALL)
    commands = "\n".join(line.removeprefix("$ ") for line in block[1].splitlines())
    (folder / "deploy").mkdir(exist_ok=True)
    subprocess.run(["bash", "-euc", commands], cwd=folder, check=True, timeout=patience(60))


def kafka_properties(variables: dict[str, str]) -> str:
    """Return the settings of Kafka that its image makes from its environment."""
    names = {
        name: name.removeprefix("KAFKA_").lower().replace("_", ".")
        for name in variables
        if name.startswith("KAFKA_") and name != "KAFKA_HEAP_OPTS"  # an option of Java
    }
    return "\n".join(f"{names[name]}={variables[name]}" for name in names)
