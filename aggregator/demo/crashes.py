"""The crowd of a demo whose clients have unknown strings, and the new crashes that a search finds. Pure.

A pane of unknown strings takes five minutes. The clocks of the demo's clients are behind, so that the first pane ends
soon after the start. The lateness of the query allows for that.
"""

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from aggregator.demo.forecast import Promise, shortest_step
from aggregator.reading.tail.summary import Summary
from aggregator.records.kinds.names import names_of
from oracles.query import Query

TABLE = Path(__file__).with_name("crashes.toml")
PANE = 300
"""Seconds of a pane."""
LATENESS = 2
"""The lateness of clients whose clocks are right, in seconds."""
FIRST_END = 75
"""Seconds from the start to the end of the first pane."""
PART: float | None = 0.1
"""Answers a second to a query of unknown strings, as a part of those to all others. One core simulates about 40,000."""
FEWEST = 1_200
"""Answers a second with which the first pane proves the name of a new crash."""
CRASHES = {"null tile in map view": 20, "bad magic in cache": 180}
"""The new crashes, each with the seconds from the start until it appears."""
EVENT = 120
"""Maximum number of characters of an event."""
RISES = 5
"""Seconds of the rise of a new crash."""
SHARE = 0.1
"""Share of all clients to which a new crash happens."""
RARE = 1_000
"""Number of rare crashes, which no search should find."""
RARE_SHARE = 0.2
"""Share of all clients to which a rare crash happens."""


def clock_delay(time: float) -> int:
    """Return by how many seconds clocks must be behind, so that a pane ends `FIRST_END` seconds from now."""
    return (math.ceil(time) + FIRST_END) % PANE


def table(delay: int) -> str:
    """Return the table of the query file, with a lateness for clocks that are behind."""
    return TABLE.read_text("utf-8").replace(f'"{LATENESS}s"', f'"{LATENESS + delay}s"')


def words(query: Query) -> str:
    """Return the clients' words as `hubbub simulate` reads them: the known names, and many rare ones."""
    names = [name for name in query.known if name.isprintable()] or ["crash"]
    weights = [1.0 / place for place in range(1, 1 + len(names))]
    scale = (1.0 - RARE_SHARE) / sum(weights)
    lines = [f"{name}\t{scale * weight}" for name, weight in zip(names, weights, strict=True)]
    lines += [f"abort {number:04x}\t{RARE_SHARE / RARE}" for number in range(RARE)]
    return "\n".join(lines)


def options(query: Query, folder: Path) -> list[str]:
    """Return the options of `hubbub simulate` for the values of the clients. Write the file that they name."""
    path = folder / "words.txt"
    path.write_text(words(query), encoding="utf-8")
    return ["--values", f"words:{path}"]


def scenario(query: Query, delay: int) -> str:
    """Return the scenario as `hubbub simulate` reads it."""
    del query
    clocks = f'[[clock]]\nshare = 1.0\nby = "-{delay}s"\n' if delay else ""
    return clocks + "".join(
        f'[[surge]]\nvalue = {json.dumps(name)}\nshare = {SHARE}\nbegins = "{begins}s"\nrises = "{RISES}s"\n'
        for name, begins in CRASHES.items()
    )


def events(query: Query, delay: int) -> Iterator[str]:
    """Yield what happens in the demo, in words."""
    for name, begins in CRASHES.items():
        yield f"new string: {name} of {query.name}, {begins} s from now"
    if delay:
        yield (
            f"search: the first pane of {query.name} ends {FIRST_END} s from now, because the clocks of its clients "
            f"are {delay} s behind"
        )


def promises(query: Query, delay: int) -> Iterator[Promise]:
    """Yield the new crashes, each with the first search that can find it.

    Without a delay of the clocks, the clock of the day decides when a pane ends, so nothing is promised.
    """
    if not delay:
        return
    step = shortest_step(query)
    for name, begins in CRASHES.items():
        panes = max(0, math.ceil((begins + RISES - FIRST_END) / step))
        due = FIRST_END + panes * step + LATENESS
        yield Promise(query.name, name, f"the name of the crash {json.dumps(name)}", due, step)


def discoveries(
    queries: Mapping[str, Query], summaries: Iterable[Summary], memory: set[tuple[str, str]]
) -> Iterator[str]:
    """Yield a line for each name that a final proves for the first time, and that no query file lists.

    Add its query and the name to `memory`, because a record may come twice.
    """
    for summary in summaries:
        query = queries.get(summary.heading.query)
        names = names_of(summary.record)
        if query is None or names is None or not summary.final:
            continue

        first_seen = dict(zip(summary.record.values, names.first_seen, strict=True))
        for row in summary.rows:
            name = query.name, row.value
            is_first = first_seen[row.value] == summary.heading.end
            if is_first and row.value not in query.known and name not in memory:
                memory.add(name)
                yield f"FOUND: {row.name} of {query.name}: {row}. The query file does not list it."
