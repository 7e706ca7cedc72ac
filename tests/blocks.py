"""The code blocks of Markdown documents, and how what they show is run: in order, in one folder, as it stands there.

A block that is not run has a comment before it that says why: `<!-- not run: it needs Docker -->`.
"""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
_FENCE = re.compile(
    r"(?:^<!-- not run: (?P<reason>[^\n]+?) -->\n)?"
    r"^(?P<indent> *)```(?P<language>[^\n]*)\n(?P<text>.*?)^(?P=indent)```$",
    re.DOTALL | re.MULTILINE,
)
_ENDLESS = ("hubbub tail",)
"""Commands that go on until they are ended."""
_FILES = {"queries": "hubbub.toml", "tokens": "tokens.toml"}
"""Where a block of TOML goes, by its first table; all others are scenarios."""
PATIENCE = 90.0


@dataclass(frozen=True)
class Block:
    document: str
    line: int
    language: str
    text: str
    reason: str | None
    """Why it is not run; None: it is."""

    def __str__(self) -> str:
        return f"{self.document}:{self.line}"


def blocks(document: Path) -> list[Block]:
    text = document.read_text()
    return [
        Block(document.name, text.count("\n", 0, found.start("text")), *found.group("language", "text", "reason"))
        for found in _FENCE.finditer(text)
    ]


@dataclass(frozen=True)
class Command:
    """One command of a console block, and the lines that are shown as its answer."""

    text: str
    shown: tuple[str, ...]

    @property
    def stays(self) -> bool:
        """Whether it is left running behind the others."""
        return re.search(r"&\s*(#.*)?$", self.text) is not None

    def answered(self, said: str) -> bool:
        """Whether all that is shown was said, in that order; three dots stand for anything."""
        lines = (".*".join(map(re.escape, line.split("..."))) for line in self.shown)
        return re.search(r"\n(?:.*\n)*?".join(f"^{line}$" for line in lines), said, re.MULTILINE) is not None


def commands(block: Block) -> list[Command]:
    found: list[tuple[str, list[str]]] = []
    for line in block.text.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
        elif found and not found[-1][1] and found[-1][0].endswith("\\"):
            found[-1] = (f"{found[-1][0]}\n{line}", [])
        else:
            found[-1][1].append(line)
    return [Command(text, tuple(shown)) for text, shown in found]


class Session:
    """One document's folder, its names in Python, and what it left running; `instead` has the addresses of here."""

    def __init__(self, folder: Path, instead: Mapping[str, str], environment: Mapping[str, str]) -> None:
        self.folder, self._instead = folder, instead
        tools = folder / ".bin"
        tools.mkdir()
        (tools / "hubbub").write_text(f'#!/bin/sh\nexec {sys.executable} -m hubbub "$@"\n')
        (tools / "hubbub").chmod(0o755)
        path = os.pathsep.join((str(tools), str(Path(sys.executable).parent), os.environ["PATH"]))
        self._environment = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT), **environment}
        self._names: dict[str, object] = {}
        self._running: list[subprocess.Popen[str]] = []

    def run(self, block: Block) -> None:
        text = block.text
        for there, here in self._instead.items():
            text = text.replace(there, here)
        block = Block(block.document, block.line, block.language, text, block.reason)
        {"python": self._python, "console": self._console, "toml": self._toml, "json": self._json}[block.language](
            block
        )

    def command(self, text: str) -> None:
        self._console(Block("-", 0, "console", f"$ {text}\n", None))

    def _python(self, block: Block) -> None:
        exec(compile("\n" * block.line + block.text, block.document, "exec"), self._names)  # noqa: S102 - that is the test

    def _toml(self, block: Block) -> None:
        """Written to the file that it is a part of, with the files of values that it names."""
        first = next(iter(tomllib.loads(block.text)))
        (self.folder / _FILES.get(first, "scenario.toml")).write_text(block.text)
        for name in re.findall(r'file = "([^"]+)"', block.text):
            (self.folder / name).write_text("at\nbe\nde\n")

    def _json(self, block: Block) -> None:
        """A value, or one a line."""
        try:
            json.loads(block.text)
        except ValueError:
            assert all(json.loads(line) for line in block.text.splitlines())

    def _console(self, block: Block) -> None:
        for command in commands(block):
            log = self.folder / ".log"
            with log.open("w") as file:
                process = subprocess.Popen(
                    ["bash", "-c", _foreground(command.text) if command.stays else command.text],
                    cwd=self.folder,
                    env=self._environment,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=file if command.stays else subprocess.STDOUT,
                    text=True,
                )
            if command.stays:
                self._running.append(process)
                said = _first(process)
                assert process.poll() is None, f"{block}: {command.text}: {log.read_text()}"
            elif command.text.startswith(_ENDLESS):
                said = _first(process)
                assert said, f"{block}: {command.text}: {process.wait()}"
                assert _ended(process) == 0
            else:
                try:
                    said, _ = process.communicate(timeout=PATIENCE)
                finally:
                    process.kill()
                assert process.returncode == 0, f"{block}: {command.text}: {said}"
            said = said.replace(self._environment["HUBBUB_PREFIX"], "hubbub.")
            assert command.answered(said), f"{block}: {command.text} said: {said}"

    def close(self) -> None:
        """End what was left running, in good order."""
        codes = [_ended(process) for process in reversed(self._running)]
        assert codes == [0] * len(codes)


def _foreground(text: str) -> str:
    """A command that was to stay, so that its end is known: in place of its shell, without its ampersand."""
    return "exec " + re.sub(r"&\s*(#.*)?$", "", text)


def _first(process: "subprocess.Popen[str]") -> str:
    """The first line that it says, or nothing in good time."""
    late = threading.Timer(PATIENCE, process.kill)
    late.start()
    try:
        assert process.stdout is not None
        return process.stdout.readline()
    finally:
        late.cancel()


def _ended(process: "subprocess.Popen[str]") -> int:
    process.send_signal(signal.SIGTERM)
    try:
        process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
    return process.returncode
