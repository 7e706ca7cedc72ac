"""The page docs/options.md, from the parsers of all commands: `make pages`."""

import argparse
import ast
import contextlib
import os
import re
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from hubbub.__main__ import COMMANDS  # noqa: E402 - the path comes first

PAGE = ROOT / "docs" / "options.md"
ROOMS = ("hubbub", "producers", "aggregator", "oracles")
STEPS = {
    "asked new": "write the next list of what is asked",
    "asked sign": "add a signature to a list",
    "asked verify": "check all lists of a folder",
    "gateway token": "make tokens for a gateway",
}
"""The commands of two words, with their purposes."""
VARIABLES = {
    "HUBBUB_KAFKA_SECURITY_PROTOCOL": "`PLAINTEXT` (the default), `SSL`, `SASL_PLAINTEXT` or `SASL_SSL`.",
    "HUBBUB_KAFKA_SASL_MECHANISM": "How to log in: `PLAIN`, `SCRAM-SHA-256`, `SCRAM-SHA-512` or `OAUTHBEARER`.",
    "HUBBUB_KAFKA_USERNAME": "The user name for Kafka.",
    "HUBBUB_KAFKA_PASSWORD": "The password for Kafka.",
    "HUBBUB_KAFKA_PASSWORD_FILE": "A file that holds the password, instead of the variable.",
    "HUBBUB_KAFKA_OAUTH_TOKEN_FILE": "A file that holds the OAuth token. hubbub reads it for each new connection.",
    "HUBBUB_KAFKA_OAUTH_TOKEN_COMMAND": "A command that prints the OAuth token and its expiry, instead of the file.",
    "HUBBUB_KAFKA_CA_FILE": "Certificates that sign the brokers' certificates, in PEM.",
    "HUBBUB_KAFKA_CERT_FILE": "The certificate of this client, in PEM.",
    "HUBBUB_KAFKA_KEY_FILE": "The key of that certificate, in PEM.",
    "HUBBUB_TOKEN": "The token that the board asks for.",
    "HUBBUB_TOKEN_FILE": "A file that holds the board's token, instead of the variable.",
    "HUBBUB_GATEWAY_TOKENS_FILE": "Another name for `HUBBUB_GATEWAY_TOKENS`. Set only one of them.",
    "HUBBUB_KERNELS": "`numpy`: count with NumPy and leave the compiled kernels unused. The results are the same.",
    "NO_COLOR": "Any text: `hubbub tail` uses no colours.",
}
"""The variables that no option has, with their meanings."""

INTRODUCTION = """\
# Options and environment variables

<!-- Generated from the code by docs/options.py: run `make pages`. -->

An option overrides its environment variable, and the variable overrides the default. A command refuses
options that have no effect with the others, but not such variables. `hubbub COMMAND --help`
prints the same options with an example and the exit codes. `hubbub --version` prints the version
and the kernels in use.
"""
_NOTE = re.compile(r"\s*\(([^()]*)\)$")
_VARIABLE = re.compile(r"HUBBUB_[A-Z_]*[A-Z]")


class _Captured(BaseException):
    """The parser of a command, when it starts to parse."""

    def __init__(self, parser: argparse.ArgumentParser) -> None:
        super().__init__()
        self.parser = parser


def parser_of(command: str) -> argparse.ArgumentParser:
    """Return the parser that a command builds, as an empty environment leaves it."""

    def capture(parser: argparse.ArgumentParser, *_: object) -> None:
        raise _Captured(parser)

    first, *rest = command.split()
    main = import_module(COMMANDS[first][0]).main
    bare = {name: value for name, value in os.environ.items() if not name.startswith("HUBBUB_")}
    with (
        mock.patch.dict(os.environ, bare, clear=True),
        mock.patch.object(argparse.ArgumentParser, "parse_args", capture),
        contextlib.chdir(Path(__file__).parent),  # no query file is here
    ):
        try:
            main(rest)
        except _Captured as captured:
            return captured.parser
    raise RuntimeError(f"hubbub {command} has no parser")


def variables_in_code() -> set[str]:
    """Return every environment variable that the product names, except those that it composes."""
    names = set()
    for path in (path for room in ROOMS for path in (ROOT / room).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                names |= {name for name in [node.value] if _VARIABLE.fullmatch(name)}
    return names


def cells(action: argparse.Action) -> tuple[str, str, str, str]:
    """Return an option, its variable, its default and its help."""
    name = ", ".join(action.option_strings) or str(action.metavar or action.dest)
    if action.option_strings and action.nargs != 0:
        name += f" {action.metavar or action.dest.upper()}"
    text, variable, default = str(action.help).replace("%%", "%"), "", ""
    note = _NOTE.search(text)
    if note:
        rest = []
        for part in note[1].split("; "):
            if part.startswith("HUBBUB_"):
                variable = part
            elif part.startswith("default: "):
                default = part.removeprefix("default: ")
            else:
                rest.append(part)
        if variable or default:
            text = text[: note.start()] + (f" ({'; '.join(rest)})" if rest else "")
    if action.required:
        default = "required"
    return f"`{name}`", f"`{variable}`" if variable else "", default, text


def sections() -> Iterator[str]:
    documented = set()
    for command in sorted([*COMMANDS, *STEPS]):
        purpose = STEPS.get(command) or COMMANDS[command][2]
        yield f"\n## `hubbub {command}`\n\n{purpose[0].upper()}{purpose[1:]}.\n"
        yield "\n| option | environment variable | default | meaning |\n|--|--|--|--|\n"
        for action in parser_of(command)._actions:  # noqa: SLF001 - argparse has no public list
            # An old name of an option has no help.
            if action.option_strings == ["-h", "--help"] or action.help == argparse.SUPPRESS:
                continue
            row = cells(action)
            documented |= set(_VARIABLE.findall(row[1]))
            yield "| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |\n"
    missing = variables_in_code() - documented - set(VARIABLES)
    if missing:
        raise RuntimeError(f"docs/options.py needs a meaning of {', '.join(sorted(missing))}")
    yield "\n## Variables without an option\n\n"
    yield "Secrets have no option, because the arguments of a process are visible to others.\n"
    yield "\n| environment variable | meaning |\n|--|--|\n"
    yield from (f"| `{name}` | {meaning} |\n" for name, meaning in VARIABLES.items())


def page() -> str:
    return INTRODUCTION + "".join(sections())


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
