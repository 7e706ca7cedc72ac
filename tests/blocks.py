"""The code blocks of Markdown documents. The tests run them in order, in one folder, without changes.

A block of Python that begins with `# NAME.py`, or one of JavaScript that begins with `// NAME.mjs`, is written to that
file. A block that is not run has a comment before it that says why: `<!-- not run: it needs Docker -->`.
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

import yaml

from tests.slowness import patience

ROOT = Path(__file__).parent.parent
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
_FENCE = re.compile(
    r"(?:^<!-- not run: (?P<reason>[^\n]+?) -->\n)?"
    r"^(?P<indent> *)```(?P<language>[^\n]*)\n(?P<text>.*?)^(?P=indent)```$",
    re.DOTALL | re.MULTILINE,
)
_ENDLESS = ("hubbub tail",)
"""Commands that run until a signal stops them."""
_ENDED_BY_SIGNAL = ("python3 -u -m http.server",)
"""Background commands that have no exit code of their own when a signal stops them."""
_FILES = {"edition": "hubbub.toml", "revision": "hubbub.toml", "queries": "hubbub.toml", "tokens": "tokens.toml"}
"""The files of TOML blocks, by the first key of a block. All other blocks are scenarios."""
PATIENCE = 90.0
"""Seconds after which a command counts as hung, on an idle machine."""


@dataclass(frozen=True)
class Block:
    document: str
    line: int
    language: str
    text: str
    reason: str | None
    """The reason why the tests do not run it, or None."""

    def __str__(self) -> str:
        return f"{self.document}:{self.line}"


def blocks(document: Path) -> list[Block]:
    text = document.read_text()
    return [
        Block(document.name, text.count("\n", 0, match.start("text")), *match.group("language", "text", "reason"))
        for match in _FENCE.finditer(text)
    ]


@dataclass(frozen=True)
class Command:
    """A command of a console block, and the lines of output in the block."""

    text: str
    output: tuple[str, ...]

    @property
    def in_background(self) -> bool:
        """Whether the command runs in the background."""
        return re.search(r"&\s*(#.*)?$", self.text) is not None

    def matches(self, output: str) -> bool:
        """Whether the real output has all lines of the block, in this order. Three dots match any text."""
        lines = (".*".join(map(re.escape, line.split("..."))) for line in self.output)
        return re.search(r"\n(?:.*\n)*?".join(f"^{line}$" for line in lines), output, re.MULTILINE) is not None


def commands(block: Block) -> list[Command]:
    result: list[tuple[str, list[str]]] = []
    for line in block.text.splitlines():
        if line.startswith("$ "):
            result.append((line[2:], []))
        elif result and not result[-1][1] and result[-1][0].endswith("\\"):
            result[-1] = (f"{result[-1][0]}\n{line}", [])
        else:
            result[-1][1].append(line)
    return [Command(text, tuple(output)) for text, output in result]


class Session:
    """A folder for a document, its names in Python, and its background processes.

    `replacements` maps texts of the document, such as addresses, to those of this machine.
    """

    def __init__(self, folder: Path, replacements: Mapping[str, str], environment: Mapping[str, str]) -> None:
        self.folder = folder
        self._replacements = replacements
        tools = folder / ".bin"
        tools.mkdir()
        (tools / "hubbub").write_text(f'#!/bin/sh\nexec {sys.executable} -m hubbub "$@"\n')
        (tools / "hubbub").chmod(0o755)
        path = os.pathsep.join((str(tools), str(Path(sys.executable).parent), os.environ["PATH"]))
        self._environment = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT), **environment}
        self._names: dict[str, object] = {}
        self._running: list[tuple[subprocess.Popen[str], int]] = []
        """The background processes, and their exit codes after SIGTERM."""

    def run(self, block: Block) -> None:
        block = Block(block.document, block.line, block.language, self.replaced(block.text), block.reason)
        {
            "python": self._python,
            "js": self._javascript,
            "console": self._console,
            "toml": self._toml,
            "json": self._json,
            "yaml": self._yaml,
        }[block.language](block)

    def replaced(self, text: str) -> str:
        """Return a text of the document with the addresses of this machine."""
        for old, replacement in self._replacements.items():
            text = text.replace(old, replacement)
        return text

    def command(self, text: str) -> None:
        self._console(Block("-", 0, "console", f"$ {text}\n", None))

    def _python(self, block: Block) -> None:
        script = re.match(r"# (\w+\.py)\n", block.text)
        if script:
            (self.folder / script[1]).write_text(block.text)
            return
        exec(compile("\n" * block.line + block.text, block.document, "exec"), self._names)  # noqa: S102 - the test runs code

    def _javascript(self, block: Block) -> None:
        name = re.match(r"// (\w+\.mjs)\n", block.text)
        assert name is not None, f"{block}: the first line must name a file"
        (self.folder / name[1]).write_text(block.text)

    def _toml(self, block: Block) -> None:
        """Write the block to its file, and write the files of values that it names."""
        first = next(iter(tomllib.loads(block.text)))
        (self.folder / _FILES.get(first, "scenario.toml")).write_text(block.text)
        for name in re.findall(r'file = "([^"]+)"', block.text):
            (self.folder / name).write_text("at\nbe\nde\n")

    def _json(self, block: Block) -> None:
        """Check that the block is JSON, or that each line is."""
        try:
            json.loads(block.text)
        except ValueError:
            assert all(json.loads(line) for line in block.text.splitlines())

    def _yaml(self, block: Block) -> None:
        """Check that the block is the content of a file of settings."""
        assert isinstance(yaml.safe_load(block.text), dict), f"{block}: it must map names to settings"

    def _console(self, block: Block) -> None:
        for command in commands(block):
            log = self.folder / ".log"
            with log.open("w") as file:
                process = subprocess.Popen(
                    ["bash", "-c", _foreground(command.text) if command.in_background else command.text],
                    cwd=self.folder,
                    env=self._environment,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=file if command.in_background else subprocess.STDOUT,
                    text=True,
                )
            if command.in_background:
                code = -signal.SIGTERM if command.text.startswith(_ENDED_BY_SIGNAL) else 0
                self._running.append((process, code))
                output = _first_line(process)
                # A process that ends closes its output first.
                assert output, f"{block}: {command.text}: {log.read_text()}"
                assert process.poll() is None, f"{block}: {command.text}: {log.read_text()}"
            elif command.text.startswith(_ENDLESS):
                output = _first_line(process)
                assert output, f"{block}: {command.text}: {process.wait()}"
                assert _stop(process) == 0
            else:
                try:
                    output, _ = process.communicate(timeout=patience(PATIENCE))
                finally:
                    process.kill()
                assert process.returncode == 0, f"{block}: {command.text}: {output}"
            output = output.replace(self._environment["HUBBUB_PREFIX"], "hubbub.")
            assert command.matches(output), f"{block}: {command.text} printed: {output}"

    def close(self) -> None:
        """Stop the background processes, the newest first, and check their exit codes."""
        codes = [(_stop(process), code) for process, code in reversed(self._running)]
        assert [code for code, _ in codes] == [expected for _, expected in codes]


def _foreground(text: str) -> str:
    """Return a background command without its ampersand. It replaces its shell, so its exit code is visible."""
    return "exec " + re.sub(r"&\s*(#.*)?$", "", text)


def _first_line(process: "subprocess.Popen[str]") -> str:
    """Return the first line of output, or an empty text if none comes in time."""
    timer = threading.Timer(patience(PATIENCE), process.kill)
    timer.start()
    try:
        assert process.stdout is not None
        return process.stdout.readline()
    finally:
        timer.cancel()


def _stop(process: "subprocess.Popen[str]") -> int:
    process.send_signal(signal.SIGTERM)
    try:
        process.communicate(timeout=patience(PATIENCE))
    finally:
        process.kill()
    return process.returncode
