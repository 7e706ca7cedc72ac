"""The story of a demo: its query file, what each crowd does, and the words for it."""

from collections.abc import Iterable
from pathlib import Path

from aggregator.demo import crashes, surge
from oracles.query import Query

QUERIES = Path(__file__).with_name("demo.toml")


def query_text(delay: int) -> str:
    """Return the query file of the demo. `delay` is that of the clocks behind unknown strings, in seconds."""
    return QUERIES.read_text("utf-8") + crashes.table(delay)


def rates(queries: Iterable[Query], total: int) -> dict[str, int]:
    """Return the answers a second to each query. Queries without unknown strings share `total`."""
    are_strings = {query.name: query.strings is not None for query in queries}
    rate = max(1, total // max(1, len(are_strings) - sum(are_strings.values())))
    return {name: min(rate, crashes.RATE) if strings else rate for name, strings in are_strings.items()}


def events(query: Query, delay: int) -> Iterable[str]:
    """Return what happens in the demo, in words."""
    return [surge.event(query)] if query.strings is None else crashes.events(query, delay)


def values(query: Query, folder: Path) -> list[str]:
    """Return the options of `hubbub simulate` for the values of the clients. Write the file that they name."""
    if query.strings is None:
        return ["--values", surge.values(query), *surge.groups(query)]
    words = folder / "words.txt"
    words.write_text(crashes.words(query), encoding="utf-8")
    return ["--values", f"words:{words}"]


def changes(query: Query, delay: int, folder: Path) -> list[str]:
    """Return the options of `hubbub simulate` for what happens. Write the file that they name."""
    scenario = folder / "surge.toml"
    text = surge.scenario(query) if query.strings is None else crashes.scenario(delay)
    scenario.write_text(text, encoding="utf-8")
    return ["--scenario", str(scenario)]
