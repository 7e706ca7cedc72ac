"""The function `hubbub.read`, which returns the published finals of a query as a polars table."""

import asyncio
import logging
from collections.abc import Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, TypeVar

from aggregator.publishing.records.decoder import Record
from aggregator.publishing.records.differences import differences
from aggregator.reading.export.finals import finals
from aggregator.reading.export.table import column_lists, columns, record_filter
from hubbub.kafka.settings import PREFIX, Kafka
from oracles.errors import extra
from oracles.query.settings import Window

if TYPE_CHECKING:
    from polars import DataFrame

log = logging.getLogger(__name__)

_Result = TypeVar("_Result")
_DIFFERENCES = {
    **dict.fromkeys(("query", "digest", "attribute", "group", "kind"), str),
    **dict.fromkeys(("size", "step", "from", "to"), int),
    **dict.fromkeys(("value", "measure"), str),
    **dict.fromkeys(("before", "after", "difference", "stderr", "low", "high", "p_value"), float),
    "proved": bool,
    "level": float,
}
"""The columns of a table of differences, with their types."""


def read(
    servers: str,
    query: str,
    *,
    since: int = 0,
    until: int | None = None,
    kind: str | None = None,
    group: str | None = None,
    compare: tuple[int, int] | None = None,
    family_error: float = 0.05,
    ask: Sequence[str] | None = None,
    prefix: str = PREFIX,
) -> "DataFrame":
    """Return a row for each value of each final window that ends in [since, until), in Unix seconds.

    The rows are those of one `group`, such as "ios", by default those of the total of all groups.

    With `ask` the rows are those of these strings, of a query of unknown strings, whether a search found them or not.

    With `compare` return the differences between the windows that end at these two times instead, for each attribute
    and kind of window. `family_error` is the chance of any false proof of a change.

    `.to_pandas()` makes a table of pandas.
    """
    with extra("read"):
        import polars as pl  # noqa: F401 - fails before the topic is read

    kafka = Kafka(servers=servers, prefix=prefix)
    if compare is None:
        return table(_run(finals(kafka, query, record_filter(since, until, kind, group), texts=ask)))
    is_kind = record_filter(0, None, kind, group)
    records = _run(finals(kafka, query, lambda record: record.span.end in compare and is_kind(record)))
    return difference_table(records, compare, family_error)


def difference_table(records: list[Record], ends: tuple[int, int], family_error: float) -> "DataFrame":
    """Return the differences between two windows, for each digest, attribute and kind of window that has both."""
    import polars as pl

    by_series: dict[tuple[str, str, str | None, str | None, Window], dict[int, Record]] = {}
    for record in records:
        series = record.query, record.digest, record.attribute, record.group, record.span.window
        by_series.setdefault(series, {})[record.span.end] = record
    rows: list[dict[str, Any]] = []
    for (query, digest, attribute, group, window), by_end in by_series.items():
        before, after = (by_end.get(end) for end in ends)
        if before is None or after is None:
            continue
        about: dict[str, Any] = {"query": query, "digest": digest, "attribute": attribute, "group": group}
        about |= {**asdict(window), "from": ends[0], "to": ends[1]}
        size = after.size or len({*before.values, *after.values})
        result = differences(before, after, size, family_error)
        rows += [{**about, **asdict(row), "level": result.level} for row in result.rows]
    if records and not rows:
        log.warning("the windows that end at %d and %d are not both published, or one is withheld", *ends)
    return pl.DataFrame(rows, schema=_DIFFERENCES)


def table(records: list[Record]) -> "DataFrame":
    """Return the rows of records, with the same columns for any records."""
    import polars as pl

    return pl.DataFrame(column_lists(records), schema=columns(records))


def _run(work: Coroutine[Any, Any, _Result]) -> _Result:
    """Run a coroutine, in another thread if this one has an event loop, as in a notebook."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()
