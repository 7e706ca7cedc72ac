"""The result of a command for pipelines: one JSON object, whose members scripts may rely on."""

import argparse
import json
import sys
from collections.abc import Callable
from typing import Any

from hubbub.command.options import failure, run

VERSION = 1
"""The version of the objects. Members may be added without another version."""


def add_format(parser: argparse.ArgumentParser) -> None:
    """Add the option that chooses between text and JSON."""
    meaning = "format of the output; json is one object with `ok`, `code` and `faults`"
    parser.add_argument("--format", choices=("text", "json"), default="text", help=f"{meaning} (default: text)")


class Report:
    """What a command has found. Text is printed at once, and the JSON object at the end."""

    def __init__(self, command: str, options: argparse.Namespace) -> None:
        self.members: dict[str, Any] = {}
        """The members of the object, in addition to those that all commands have."""
        self._command = command
        self._is_json = options.format == "json"
        self._faults: list[str] = []

    def say(self, text: str) -> None:
        """Print text for people."""
        if not self._is_json:
            sys.stdout.write(text)

    def fault(self, *lines: str) -> None:
        """Report what is wrong, a line for each fault."""
        self._faults += lines
        self.remark(*lines)

    def remark(self, *lines: str) -> None:
        """Print lines for people to the standard error."""
        if not self._is_json:
            sys.stderr.write("".join(f"hubbub {self._command}: {line}\n" for line in lines))

    def run(self, work: Callable[[], int]) -> int:
        """Run the command, print its object, and return its exit code."""
        if not self._is_json:
            return run(self._command, work)
        try:
            code = work()
        except Exception as error:
            failed = failure(self._command, error)
            if failed is None:
                raise
            code, text = failed
            self._faults += text.splitlines()

        common = {"version": VERSION, "ok": code == 0, "code": code, "faults": self._faults}
        sys.stdout.write(json.dumps({**common, **self.members}, ensure_ascii=False) + "\n")
        return code
