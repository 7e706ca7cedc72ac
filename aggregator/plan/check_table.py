"""The short text of `hubbub check`: what a device is charged, a table with a line for each query, and warnings."""

from collections.abc import Collection, Iterator, Sequence
from itertools import chain

from aggregator.plan import memory, outlook
from aggregator.plan.check_text import align, label, warnings
from aggregator.plan.kinds import kind_of
from aggregator.plan.kinds.audience import Audience
from aggregator.plan.visibility import sum_of_charges
from hubbub.command.options import in_bytes
from hubbub.texts import few, up
from oracles.mechanisms import NEWEST
from oracles.query import File, Query
from oracles.query.lifetime import DEVICE_EPSILON

LINES_OF_A_QUERY = 12
LINES = 40
"""Most lines of a file, however many queries it has."""
ROWS = 20
"""Most queries in the table."""
_EDITION = 3
"""Lines that may follow about a newer edition."""
REPORTS = 10_000
"""Reports of a window for which the table says what it shows, if the people are not known."""
_NAME = 32
"""Most characters of a name in the table."""


def short_lines(file: File, partitions: int, clients: int | None) -> list[str]:
    """Return at most 12 lines for each query, and 40 for a file, in 100 columns."""
    queries = file.queries.values()
    lines = [*label("budget", _first_sentences(sum_of_charges(queries, DEVICE_EPSILON)))]
    lines += _table(queries, clients)
    need = memory.worker(queries, partitions).total
    lines += label("worker", f"about {in_bytes(need)} of memory with all {partitions} partitions")
    lines += label("more", "`hubbub check NAME` prints all about one query, `hubbub check --long` about all")

    # The lines about a newer edition come after these.
    room = min(LINES, LINES_OF_A_QUERY * len(queries)) - len(lines)
    if file.edition < NEWEST:
        room -= _EDITION
    return lines + _fitted([[*label("warning", text)] for text in shared(queries, clients)], room)


def _first_sentences(text: str) -> str:
    """Return a text without its last sentence, which `--long` has."""
    return ". ".join(text.split(". ")[:2]).removesuffix(".") + "."


def _table(queries: Collection[Query], clients: int | None) -> Iterator[str]:
    people = f"{REPORTS:,} reports" if clients is None else f"{clients:,} people"
    rows: list[Sequence[str]] = [("query", f"a window of {people} shows", "epsilon", "charge", "crowd")]
    for query in list(queries)[:ROWS]:
        subjects = outlook.audiences(query, REPORTS if clients is None else clients)
        text = _shows(query, subjects[0])
        if len(subjects) > 1:
            attributes = query.attributes
            text = f"{attributes[0].name}: {text}, and {len(attributes) - 1} more"
        name = query.name if len(query.name) <= _NAME else f"{query.name[: _NAME - 3]}..."
        rows.append((name, text, up(query.record_epsilon), up(query.record_charge), f"{query.crowd:,}"))
    yield from align(iter(rows), (0, 1))
    if len(queries) > ROWS:
        yield f"  and {len(queries) - ROWS:,} more queries"


def _shows(query: Query, subject: Audience) -> str:
    """Return what a window with these people shows of one answer."""
    kind = kind_of(subject)
    if subject.clients * kind.smallest_part(query) < query.crowd:
        return "nothing: fewer reports than `crowd`"
    return kind.shows(subject)


def shared(queries: Collection[Query], clients: int | None) -> list[str]:
    """Return each warning once, with the names of the queries that it is about."""
    names: dict[str, list[str]] = {}
    for query in queries:
        for text in warnings(query, clients):
            # A warning may name its query or its only answer.
            plain = text.removeprefix(f"{query.name}: ")
            names.setdefault(plain, []).append(query.name)
    return [f"{few(owners)}: {text}" for text, owners in names.items()]


def _fitted(texts: list[list[str]], room: int) -> list[str]:
    """Return the lines of as many texts as fit, and the number of the others."""
    if sum(map(len, texts)) <= room:
        return [*chain.from_iterable(texts)]
    lines: list[str] = []
    for number, text in enumerate(texts):
        if len(lines) + len(text) > room - 1:
            return [*lines, *label("warning", f"{len(texts) - number:,} more with --long")]
        lines += text
    return lines
