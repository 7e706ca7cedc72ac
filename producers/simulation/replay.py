"""`hubbub replay`: it sends the values of a CSV file like clients, with one client per row."""

import argparse
import csv
import math
import secrets
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import cast

import numpy as np

from hubbub.command.options import parser_of, rate, selected_query, whole
from oracles.discover import Strings
from oracles.errors import ParameterError
from oracles.mechanisms.protocol import Oracle
from oracles.query import Query
from oracles.query.domain import NAMES
from producers.simulation.crowd.draws import Draws, generator
from producers.simulation.delivery.schedule import STEP, RealClock, SimulationClock, fastest_steps, steady_steps
from producers.simulation.delivery.simulated_frames import FrameBuilder, SpreadAt
from producers.simulation.delivery.status import DeliveryCounts
from producers.simulation.delivery.stream import Step, Stream, add_sending_options, run_sending, send_stream
from producers.simulation.delivery.true_answers import TrueAnswers

HELP = """\
Send the values of a CSV file as clients would. Each row is one client. The command perturbs its value
with the system's entropy before it sends anything. It skips rows without a value and rows with a value
that the query does not count, and prints their number.

example:
  $ hubbub replay visits.csv --query homepage --column site --rate 1000

The first line names the columns. With several attributes, each attribute has a column of its name.

Rows have no ledger, and the noise is new each time. A person in two rows, in two files, or in a file
that you replay twice, spends epsilon each time. The command prints a warning.

Exit code: 0 all is sent, or ended by Ctrl-C or SIGTERM; 2 wrong options, query or file; 3 Kafka cannot be
reached; 4 the topics are missing; 1 other errors."""


def main(arguments: list[str]) -> int:
    return run_sending("replay", _replay(_options(arguments)))


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = parser_of("replay", HELP)
    parser.add_argument("file", type=Path, metavar="FILE", help="CSV file in UTF-8 with column names in the first line")
    add_sending_options(parser)
    parser.add_argument("--column", metavar="NAME", help="column of the value (default: the first column)")
    speed = 'answers per second, or "max" (default: max)'
    parser.add_argument("--rate", type=rate, default=math.inf, metavar="N", help=speed)
    seed = "seed for repeatable noise from NumPy; only for data about nobody"
    parser.add_argument("--seed", type=whole(), metavar="K", help=seed)
    truth = "publish the true counts too; only for public data"
    parser.add_argument("--truth", action="store_true", help=truth)
    return parser.parse_args(arguments)


class Positions:
    """The rows of a CSV file, each as the positions of its values in their domains."""

    def __init__(self, path: Path, query: Query, column: str | None = None) -> None:
        self.path = path
        self.query = query
        self.column = column
        self.skipped = 0

    def __iter__(self) -> Iterator[list[int]]:
        try:
            # Spreadsheets begin a file with a mark of its encoding, which would be part of the first name.
            with self.path.open(encoding="utf-8-sig", newline="") as file:
                table = csv.reader(file)
                places = self._places(next(table, []))
                for row in table:
                    positions = self._positions(row, places)
                    if positions is None:
                        self.skipped += 1
                    else:
                        yield positions
        except (OSError, UnicodeDecodeError, csv.Error) as error:
            raise ParameterError(f"cannot read {self.path}: {error}") from error

    def _places(self, header: list[str]) -> list[int]:
        """Return the numbers of the columns with the values."""
        names = [attribute.name for attribute in self.query.singles] or [self.column or (header or [""])[0]]
        missing = [name for name in names if name not in header]
        if missing:
            raise ParameterError(f"{self.path}: the first line has no column {', '.join(map(repr, missing))}")
        return [header.index(name) for name in names]

    def _positions(self, row: list[str], places: list[int]) -> list[int] | None:
        texts = [row[place] if place < len(row) else None for place in places]
        return _READERS.get(self.query.domains[0].kind, _values)(self.query, texts)


def _values(query: Query, texts: list[str | None]) -> list[int] | None:
    """Return the position of each value, or None if one is missing or does not count."""
    positions = []
    for text, domain in zip(texts, query.answer_domains, strict=True):
        position = domain.find(text)
        if position is None and domain.other and text:
            # A device would count such a text as "(other)" too.
            position = domain.size - 1
        if position is None:
            return None
        positions.append(position)

    return positions


def _cells(query: Query, texts: list[str | None]) -> list[int] | None:
    """Return the cells of a string, or None if it is missing."""
    [text] = texts
    cells: list[int] | None = None if text is None else cast(Strings, query.strings).cells_of(text).tolist()
    return cells


_READERS = {NAMES: _cells}
"""The readers of a row. A kind of answer without one is read like values."""


async def _replay(options: argparse.Namespace) -> DeliveryCounts:
    query = selected_query(options)
    if query.attributes and options.column:
        raise ParameterError(
            f"query {query.name!r} has several attributes, and their names are the columns. Remove --column"
        )
    rows = Positions(options.file, query, options.column)
    rng = None if options.seed is None else generator(options.seed, Draws.REPORTS)
    truth = TrueAnswers(query, secrets.token_hex(8)) if options.truth else None
    # With a seed the data are of nobody, and nobody spends epsilon.
    if rng is None:
        sys.stderr.write(f"hubbub replay: {_warning(query)}\n")
    clock = RealClock()

    def stream(partitions: int, spread_at: SpreadAt) -> Stream:
        builder = FrameBuilder(query, partitions, options.frame, spread_at=spread_at)
        return _stream(iter(rows), builder, rng, clock, options.rate)

    counts = await send_stream(options, query, clock, truth, stream)
    if rows.skipped:
        sys.stderr.write(f"hubbub replay: skipped {rows.skipped:,} rows without a value that the query counts\n")
    return counts


def _warning(query: Query) -> str:
    """Return the warning about the epsilon that each row spends."""
    cost = f"each row spends {query.record_epsilon:g} of its person's epsilon"
    return f"{cost}. There is no ledger: another row of the same person, or the same file again, spends it again"


async def _stream(
    rows: Iterator[list[int]],
    builder: FrameBuilder,
    rng: np.random.Generator | None,
    clock: SimulationClock,
    speed: float,
) -> Stream:
    query = builder.query
    flood = speed == math.inf
    steps = (
        fastest_steps(clock, math.inf)
        if flood
        else steady_steps(clock, math.ceil(clock.now()), math.inf, lambda _: speed)
    )

    async for time_ms, answers in steps:
        batch = list(islice(rows, answers))
        step_end = time_ms if flood else time_ms + STEP

        if batch:
            rows_of_batch = np.array(batch, np.int64)
            values = rows_of_batch[:, 0] if isinstance(query.oracle, Oracle) else rows_of_batch
            reports = query.oracle.perturb(values, rng)
            yield Step(
                step_end, builder.put(builder.pane(time_ms), reports, values, np.ones(len(values), np.bool_), time_ms)
            )
        yield Step(step_end, builder.overdue(time_ms + STEP))
        if len(batch) < answers:
            break
    yield Step(int(1000 * clock.now()), builder.rest())
