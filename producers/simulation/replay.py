"""`hubbub replay`: the values of a CSV file, a row a client, sent as clients would send them."""

import argparse
import csv
import math
import secrets
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np

from hubbub.options import chosen, parser_of, rate, whole
from oracles.errors import ParameterError
from oracles.query import Query
from producers.simulation.framing import Framer
from producers.simulation.options import add_sending_options
from producers.simulation.pace import Wall, WallClock, flooding, paced
from producers.simulation.population import Draws, generator
from producers.simulation.shipping import Step, Stream, ending, ship
from producers.simulation.traffic import STEP
from producers.simulation.truth import TrueAnswers
from producers.simulation.watch import Deliveries

HELP = """\
Send the values of a CSV file as clients would: every row is a client of its own, whose value is
perturbed with the system's entropy before anything leaves this process. Rows without a value, or
with one that the query does not count, are skipped and said.

example:
  $ hubbub replay visits.csv --query homepage --column site --rate 1000

With several attributes the columns are those with their names. The first line names the columns.

No row has a ledger: the noise is new each time, so whoever stands in a file that is replayed twice, or in
two files, is charged again, one epsilon after another. The command says so."""


def main(arguments: list[str]) -> int:
    return ending("replay", _replay(_options(arguments)))


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = parser_of("replay", HELP)
    parser.add_argument(
        "file", type=Path, metavar="FILE", help="CSV in UTF-8, with a first line that names its columns"
    )
    add_sending_options(parser)
    parser.add_argument("--column", metavar="NAME", help="where the value stands (default: the first column)")
    speed = 'answers a second at the most, or "max" (default: max)'
    parser.add_argument("--rate", type=rate, default=math.inf, metavar="R", help=speed)
    seed = "perturb with NumPy's noise, repeatably: for data that is nobody's"
    parser.add_argument("--seed", type=whole(), metavar="K", help=seed)
    truth = "publish the true counts too: for data that is public"
    parser.add_argument("--truth", action="store_true", help=truth)
    return parser.parse_args(arguments)


class Positions:
    """The positions of each row's values in their domains."""

    def __init__(self, path: Path, query: Query, column: str | None = None) -> None:
        self.path = path
        self.query = query
        self.column = column
        self.skipped = 0

    def __iter__(self) -> Iterator[list[int]]:
        try:
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
            raise ParameterError(f"{self.path} cannot be read: {error}") from error

    def _places(self, header: list[str]) -> list[int]:
        """In which columns the values stand."""
        names = [attribute.name for attribute in self.query.attributes] or [self.column or (header or [""])[0]]
        missing = [name for name in names if name not in header]
        if missing:
            raise ParameterError(f"{self.path}: its first line names no column {', '.join(map(repr, missing))}")
        return [header.index(name) for name in names]

    def _positions(self, row: list[str], places: list[int]) -> list[int] | None:
        positions = []
        for place, domain in zip(places, self.query.domains, strict=True):
            text = row[place] if place < len(row) else ""
            found = domain.find(text)
            if found is None and domain.other and text:
                found = domain.size - 1
            if found is None:
                return None
            positions.append(found)
        return positions


async def _replay(options: argparse.Namespace) -> Deliveries:
    query = chosen(options)
    if query.attributes and options.column:
        raise ParameterError(f"{query.name} has several attributes, whose names are the columns: leave --column out")
    rows = Positions(options.file, query, options.column)
    rng = None if options.seed is None else generator(options.seed, Draws.REPORTS)
    truth = TrueAnswers(query, secrets.token_hex(8)) if options.truth else None
    if rng is None:
        sys.stderr.write(f"hubbub replay: {_spending(query)}\n")
    clock = Wall()

    def stream(partitions: int) -> Stream:
        return _stream(iter(rows), Framer(query, partitions, options.frame), rng, clock, options.rate)

    counts = await ship(options, query, clock, truth, stream)
    if rows.skipped:
        sys.stderr.write(f"hubbub replay: {rows.skipped:,} rows were skipped: they have no value that is counted\n")
    return counts


def _spending(query: Query) -> str:
    """The epsilon that is revealed of those whose rows are sent."""
    cost = f"each row is charged {query.record_epsilon:g} of its person's epsilon"
    return f"{cost}, and no ledger is kept: rows of the same person, and the same file again, are charged anew"


async def _stream(
    rows: Iterator[list[int]], framer: Framer, rng: np.random.Generator | None, clock: WallClock, speed: float
) -> Stream:
    query, flood = framer.query, speed == math.inf
    turns = flooding(clock, math.inf) if flood else paced(clock, math.ceil(clock.now()), math.inf, lambda _: speed)
    async for at, answers in turns:
        taken = list(islice(rows, answers))
        until = at if flood else at + STEP
        if taken:
            values = np.array(taken, np.int64) if query.attributes else np.array(taken, np.int64)[:, 0]
            reports = query.oracle.perturb(values, rng)
            yield Step(until, framer.put(framer.pane(at), reports, values, np.ones(len(values), np.bool_), at))
        yield Step(until, framer.overdue(at + STEP))
        if len(taken) < answers:
            break
    yield Step(int(1000 * clock.now()), framer.rest())
