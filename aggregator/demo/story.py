"""The story of a demo: its query file, what each crowd does, and the words for it."""

from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

from aggregator.demo import crashes, surge
from aggregator.demo.forecast import Promise
from oracles.query import Query
from oracles.query.domain import NAMES

QUERIES = Path(__file__).with_name("demo.toml")


class Crowd(Protocol):
    """The crowd of a kind of answer."""

    PART: float | None
    """The answers a second, as a part of the demo's, or None if the crowd takes its part of these answers."""
    FEWEST: int
    """The answers a second with which the crowd can still show what it promises."""

    def events(self, query: Query, delay: int, /) -> Iterable[str]: ...

    def promises(self, query: Query, delay: int, /) -> Iterable[Promise]: ...

    def options(self, query: Query, folder: Path, /) -> list[str]: ...

    def scenario(self, query: Query, delay: int, /) -> str: ...


_CROWDS: dict[str, Crowd] = {NAMES: crashes}


def _crowd(query: Query) -> Crowd:
    """Return the crowd of a query. A kind without a crowd of its own has that of values."""
    return _CROWDS.get(query.domains[0].kind, surge)


def query_text(delay: int) -> str:
    """Return the query file of the demo. `delay` is that of the clocks behind unknown strings, in seconds."""
    return QUERIES.read_text("utf-8") + crashes.table(delay)


def rates(queries: Iterable[Query], total: int) -> dict[str, int]:
    """Return the answers a second to each query. Queries without unknown strings share `total`."""
    crowds = {query.name: _crowd(query) for query in queries}
    rate = max(1, total // max(1, sum(crowd.PART is None for crowd in crowds.values())))
    return {
        name: rate if crowd.PART is None else min(rate, max(crowd.FEWEST, int(crowd.PART * total)))
        for name, crowd in crowds.items()
    }


def events(query: Query, delay: int) -> Iterable[str]:
    """Return what happens in the demo, in words."""
    return _crowd(query).events(query, delay)


def promises(queries: Iterable[Query], delay: int) -> list[Promise]:
    """Return what the demo will show of these queries."""
    result: list[Promise] = []
    for query in queries:
        result += _crowd(query).promises(query, delay)
    return result


def values(query: Query, folder: Path) -> list[str]:
    """Return the options of `hubbub simulate` for the values of the clients. Write the file that they name."""
    return _crowd(query).options(query, folder)


def changes(query: Query, delay: int, folder: Path) -> list[str]:
    """Return the options of `hubbub simulate` for what happens. Write the file that they name."""
    scenario = folder / "surge.toml"
    scenario.write_text(_crowd(query).scenario(query, delay), encoding="utf-8")
    return ["--scenario", str(scenario)]
