"""The Compose commands of a runbook, and their run as written."""

import re
from dataclasses import dataclass

from tests.deploy.compose import DEPLOY

BLOCK = re.compile(r"^(With the chart:\n|With Compose:\n)?```sh\n(.*?)```", re.MULTILINE | re.DOTALL)


@dataclass
class Outcome:
    """A command with its exit code and its output."""

    line: str
    code: int
    output: str


def commands(alert: str, section: str) -> list[str]:
    """Return the lines of a section of a runbook, without those for the chart."""
    text = (DEPLOY / "runbooks" / f"{alert}.md").read_text()
    part = re.split(r"^## ", text.split(f"## {section}\n")[1], flags=re.MULTILINE)[0]
    return [
        line
        for label, block in BLOCK.findall(part)
        if label != "With the chart:\n" and "kubectl" not in block
        for line in block.splitlines()
    ]


def all_commands() -> list[str]:
    """Return the distinct commands of all pages, those of diagnosis first. One that waits for typing is left out."""
    names = sorted(page.stem for page in (DEPLOY / "runbooks").glob("Hubbub*.md"))
    lines = [line for section in ("Diagnosis", "Mitigation") for name in names for line in commands(name, section)]
    return [line for line in dict.fromkeys(lines) if "console-producer" not in line]


def codes_of(line: str) -> tuple[int, ...]:
    """Return the exit codes of a command that works, apart from 0."""
    codes = []
    if line.startswith("timeout"):
        codes.append(124)
    if "grep" in line:
        codes.append(1)  # nothing to find is no failure
    if "kafka-acls.sh" in line:
        codes.append(1)  # without access lists, as the page says
    return tuple(codes)


def run(stack, lines: list[str]) -> list[Outcome]:
    """Run lines in the folder of the project."""
    outcomes = []
    for line in lines:
        process = stack.sh(line)
        outcomes.append(Outcome(line, process.returncode, process.stdout))
    return outcomes


def failures(outcomes: list[Outcome], mute: tuple[str, ...]) -> list[Outcome]:
    """Return the commands that failed, except those that ask a service which the drill has stopped."""
    return [
        outcome
        for outcome in outcomes
        # Without access lists Kafka has none to show, as the page says.
        if outcome.code
        and "kafka-acls.sh" not in outcome.line
        and not any(f" {service} " in f"{outcome.line} " for service in mute)
    ]
