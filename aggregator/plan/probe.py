"""The command `hubbub probe`, which bounds the epsilon of a client in any language from its reports."""

import argparse
import json
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any, cast

import numpy as np

from hubbub.command.old_names import warn
from hubbub.command.options import add_queries, parser_of, run, selected_query, share, whole
from oracles.conformance import Finding, probe
from oracles.conformance.privacy_probe import CONFIDENCE, REPORTS
from oracles.errors import ParameterError, ReportError
from oracles.numbers import Scale
from oracles.query import Query
from oracles.query.domain import NAMES, NUMBERS, Domain
from oracles.types import Reports

VIOLATION = 4
HELP = """\
Draw reports from a client, and print a lower bound of its epsilon. The command starts the client once,
without a shell. The client reads one value on a line: its position in the domain, or the number itself
if the query is about numbers, or the text as JSON if strings are unknown. It writes one report on a line,
in hex digits, in the same order. Each line is another device. With --periods a line is the life of one
device: several values, several reports.

Half of the reports show which event tells two inputs apart best. The other half counts it. If the bound is
above the promise of the query, the client breaks it. Neither the client nor its noise may know --seed.

example:
  $ hubbub probe --queries hubbub.toml --query homepage --exec "node client.js"
  $ hubbub probe --queries hubbub.toml --query homepage --exec "./client --life" --periods 5

Exit code: 0 no violation found; 2 wrong options, query or reports; 4 the client breaks its promise; 1 other errors."""


def _value_text(_: Domain, value: int) -> str:
    return str(value)


def _number_text(domain: Domain, value: int) -> str:
    edges = cast(Scale, domain.scale).edges
    return repr(float(edges[value] + edges[value + 1]) / 2)


def _name_text(_: Domain, value: str) -> str:
    # A string may hold blanks and line ends, which separate values and devices in a line.
    return json.dumps(value)


_TEXTS: dict[str, Callable[[Domain, Any], str]] = {NUMBERS: _number_text, NAMES: _name_text}
"""The text of a value in a line, by the kind of answer. A kind without a row has the text of values."""


class ProbedProgram:
    """A client in a process of its own, which ends with its input."""

    def __init__(self, command: str, query: Query, periods: int) -> None:
        self._command = shlex.split(command)
        if not self._command:
            raise ParameterError("--exec must name a program")
        self._query = query
        self._periods = periods

    def __call__(self, values: Any) -> Reports:
        """Return the reports of lines of values."""
        rows = values.reshape(len(values), self._periods)
        text = "\n".join(" ".join(line) for line in self._texts(rows)) + "\n"

        try:
            process = subprocess.run(  # noqa: S603 - the user's own program
                self._command, input=text, stdout=subprocess.PIPE, text=True, check=False
            )
        except OSError as error:
            raise ParameterError(f"--exec {self._command[0]}: {error.strerror}") from error

        if process.returncode:
            raise ReportError(f"the client ended with code {process.returncode}")
        reports = self._decode(process.stdout.splitlines(), len(values))
        return reports if self._periods > 1 else reports[:, 0]

    def _texts(self, rows: Any) -> Iterator[list[str]]:
        """Yield the values of a line as a client reads them. A number is in the middle of its bin."""
        domain = self._query.domains[0]
        text_of = _TEXTS.get(domain.kind, _value_text)
        for row in rows.tolist():
            yield [text_of(domain, value) for value in row]

    def _decode(self, lines: list[str], count: int) -> Reports:
        """Return the reports in the lines of a client, of shape (lines, periods, width)."""
        if len(lines) != count:
            raise ReportError(f"the client wrote {len(lines)} lines for {count} lines of values")

        width = self._query.oracle.width
        reports = np.empty((count, self._periods, width), np.uint8)
        for number, line in enumerate(lines):
            try:
                data = bytes.fromhex(line)
            except ValueError:
                data = b""

            # fromhex skips blanks, so the length alone does not tell how many reports a line has.
            if len(data) != self._periods * width or len(line.split()) != self._periods:
                expected = f"{self._periods} of {width} bytes in hex digits"
                raise ReportError(f"line {number + 1} of the client is no row of reports ({expected}): {line[:80]!r}")
            reports[number] = np.frombuffer(data, np.uint8).reshape(self._periods, width)
        return reports


def main(arguments: list[str]) -> int:
    options = _options(arguments)

    def work() -> int:
        query = selected_query(options)
        confidence = options.confidence
        client = ProbedProgram(options.exec, query, options.periods)
        finding = probe(client, query, options.reports, confidence, periods=options.periods, seed=options.seed)
        sys.stdout.write("".join(f"{line}\n" for line in _lines(finding, confidence)))
        return VIOLATION if finding.violates else 0

    return run("probe", work)


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = parser_of("probe", HELP)
    add_queries(parser)
    answered = "query that the client answers (default: the only one of the file)"
    parser.add_argument("--query", metavar="Q", help=answered)
    parser.add_argument("--name", help=argparse.SUPPRESS)
    parser.add_argument("--exec", required=True, metavar="CMD", help="the client, with its arguments")

    periods = "number of answers of a device (default: 1)"
    parser.add_argument("--periods", type=whole(1, 1000), default=1, metavar="N", help=periods)
    number = f"number of reports (default: {REPORTS:,})"
    parser.add_argument("--reports", type=whole(100, 10**8), default=REPORTS, metavar="N", help=number)
    confidence = "confidence of the bound (default: 0.999999)"
    parser.add_argument("--confidence", type=share, default=CONFIDENCE, metavar="C", help=confidence)
    seed = "seed of the choice of values (default: 0)"
    parser.add_argument("--seed", type=whole(), default=0, metavar="K", help=seed)
    options = parser.parse_args(arguments)
    if options.name is not None:
        # The former form: --query had the file, and --name the query.
        warn(parser.prog, "--query FILE --name Q", "--queries FILE --query Q")
        options.queries = options.query or options.queries
        options.query = options.name
    return options


def _lines(finding: Finding, confidence: float) -> Iterator[str]:
    guesses = finding.guesses.right + finding.guesses.wrong
    yield f"epsilon is at least {finding.epsilon_low:.4f}, with a confidence of {confidence:.10g}"
    yield f"the query promises at most {finding.claim:.10g}"
    yield f"{finding.guesses.right:,} of {guesses:,} guesses were right: {finding.event}"
    yield "VIOLATION: the client reveals more than it promises" if finding.violates else "no violation found"
