"""The function `hubbub.read`, which returns the published finals of a query as a polars table."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, get_args

from aggregator.reading.export.finals import finals, no_group, panes
from aggregator.records.flat_rows import TIMES, column_lists, record_filter
from aggregator.records.kinds import kind_of
from aggregator.records.look_choice import looks_of
from aggregator.records.record import Record
from aggregator.records.row_columns import COLUMNS
from aggregator.records.rows import Kind
from aggregator.sink.target_reader import is_target, read_rows
from hubbub.kafka.settings import PREFIX, Kafka
from hubbub.moments import Moment, unix_seconds
from oracles.errors import ParameterError, extra
from oracles.estimate.looks import NAMES, Name
from oracles.query.settings import nearest

if TYPE_CHECKING:
    from polars import DataFrame, Expr

log = logging.getLogger(__name__)

_Result = TypeVar("_Result")
KINDS = get_args(Kind)
Pair = tuple[int, int] | tuple[str, str]
"""The ends of two windows, or two groups."""
_DIFFERENCES = {
    **dict.fromkeys(("query", "digest", "attribute", "group", "with", "kind"), str),
    **dict.fromkeys(("size", "step", "from", "to"), int),
    **dict.fromkeys(("value", "measure"), str),
    **dict.fromkeys(("before", "after", "difference", "stderr", "low", "high", "p_value"), float),
    "proved": bool,
    "level": float,
    "looks": str,
    "width": float,
}
"""The columns of a table of differences, with their types."""


def read(
    servers: str | Path,
    query: str,
    *,
    since: Moment = 0,
    until: Moment | None = None,
    kind: str | None = None,
    group: str | None = None,
    compare: Pair | None = None,
    family_error: float = 0.05,
    looks: Name | None = None,
    ask: Sequence[str] | None = None,
    prefix: str = PREFIX,
) -> "DataFrame":
    """Return a row for each value of each final window that ends in [since, until).

    These two are Unix seconds, texts such as "2026-11-01" or "2026-11-01T12:30Z", or dates and times of `datetime`.

    The rows are those of one `group`, such as "ios", by default those of the total of all groups.

    With `ask` the rows are those of these strings, of a query of unknown strings, whether a search found them or not.

    With `compare` return the differences between the windows that end at these two times instead, for each attribute
    and kind of window. If they are two groups, such as ("ios", "android"), return the differences between these groups
    in each window. `family_error` is the chance of any false proof. It holds for `looks`: "one" comparison, all of a
    "day", or "always". The last one is the default for two groups in windows since the start, "day" for all others.

    `servers` are the addresses of Kafka. A path, or a text with a slash, is the folder or object store of a sink
    instead. Its files do not allow `compare` and `ask`.

    An unknown query, kind or group raises a ParameterError, which names the most similar one.

    `.to_pandas()` makes a table of pandas.
    """
    with extra("read"):
        import polars as pl  # noqa: F401 - fails before the topic is read

    if kind not in (None, *KINDS):
        raise ParameterError(f"there is no kind of window {kind!r}; {nearest(str(kind), KINDS)}")
    start = unix_seconds(since)
    end = None if until is None else unix_seconds(until)
    if is_target(servers):
        if compare is not None or ask is not None:
            raise ParameterError("files of a sink have rows only, and `compare` and `ask` need the records of Kafka")
        return target_table(servers, query, start=start, end=end, kind=kind, group=group)
    kafka = Kafka(servers=str(servers), prefix=prefix)
    groups = [name for name in (group, *(compare or ())) if isinstance(name, str)]
    if compare is None:
        is_match = record_filter(start, end, kind, group)
        return table(_run(finals(kafka, query, is_match, texts=ask, groups=groups)))

    if ask is not None:
        raise ParameterError("strings of an open domain cannot be compared; leave `compare` or `ask` out")
    if looks not in (None, *NAMES):
        raise ParameterError(f"looks must be one of {', '.join(NAMES)}, got {looks!r}")
    is_match = pair_filter(compare, start, end, kind, group)
    records = _run(finals(kafka, query, is_match, groups=groups))
    # The step of a window since the start is the pane, which only the definition tells.
    needs_panes = not groups and any(record.span.window.kind == "all" for record in records)
    pane_of = _run(panes(kafka)) if needs_panes else {}
    return difference_table(records, compare, family_error, looks=looks, pane_of=pane_of)


def target_table(
    target: str | Path, query: str, *, start: int, end: int | None, kind: str | None, group: str | None
) -> "DataFrame":
    """Return the rows of a query from the files of a sink, with the columns that Kafka's records give."""
    import polars as pl

    rows = read_rows(target, query, lambda name: kind in (None, name.window.partition("-")[0]))
    is_match = pl.col("group").is_null() if group is None else pl.col("group") == group
    matches = rows.filter(is_match)
    if group is not None and matches.is_empty():
        groups = rows["group"].drop_nulls().unique().to_list()
        raise ParameterError(no_group(query, [group], groups))

    matches = matches.filter(pl.col("end") >= start)
    if end is not None:
        matches = matches.filter(pl.col("end") < end)
    return matches.select(COLUMNS.keys()).with_columns(_times())


def pair_filter(
    pair: Pair, since: int = 0, until: int | None = None, kind: str | None = None, group: str | None = None
) -> Callable[[Record], bool]:
    """Return a test whether a record is of one of two windows or groups. Raise a ParameterError if these are the same.

    Two windows are of one group, by default of the total. Two groups are in windows that end in [since, until).
    """
    if len(pair) != 2 or isinstance(pair[0], str) != isinstance(pair[1], str):
        raise ParameterError(f"compare needs the ends of two windows, or the names of two groups, got {pair!r}")
    if pair[0] == pair[1]:
        raise ParameterError(f"compare needs two different windows or groups, got {pair[0]!r} twice")
    if not isinstance(pair[0], str):
        is_kind = record_filter(0, None, kind, group)
        return lambda record: record.span.end in pair and is_kind(record)
    if group is not None:
        raise ParameterError("compare names two groups already; leave `group` out")
    is_window = record_filter(since, until, kind, all_groups=True)
    return lambda record: record.group in pair and is_window(record)


def difference_table(
    records: list[Record],
    pair: Pair,
    family_error: float,
    *,
    looks: Name | None = None,
    pane_of: Mapping[str, int] | None = None,
) -> "DataFrame":
    """Return the differences between two windows or two groups, for each digest, attribute and kind of window.

    Two windows are named by their ends, and compared within each group. Two groups are compared within each window.
    `pane_of` has the pane of each digest. If a digest is missing, windows since the start may come each second.
    """
    import polars as pl

    are_groups = isinstance(pair[0], str)
    if any(record.discover() is not None for record in records):
        raise ParameterError("the query has no list of values, so its windows cannot be compared; read them one by one")

    by_series: dict[tuple[Any, ...], dict[int | str | None, Record]] = {}
    for record in records:
        place, name = (record.span.end, record.group) if are_groups else (record.group, record.span.end)
        series = record.query, record.digest, record.attribute, record.span.window, place
        by_series.setdefault(series, {})[name] = record

    rows: list[dict[str, Any]] = []
    for by_name in by_series.values():
        first_record, second_record = (by_name.get(name) for name in pair)
        if first_record is None or second_record is None:
            continue  # the other window may not be published yet
        size = second_record.size or len({*first_record.values, *second_record.values})
        pane = (pane_of or {}).get(second_record.digest, 1)
        choice = looks_of(second_record.span.window, pane, are_groups=are_groups, name=looks)
        result = kind_of(second_record).differences(
            first_record, second_record, size, family_error, apart=are_groups, looks=choice
        )
        about = _about(first_record, second_record)
        law = {"level": result.level, "looks": choice.name, "width": result.width}
        rows += [{**about, **asdict(row), **law} for row in result.rows]

    if records and not rows:
        log.warning("%s", _no_difference(pair, are_groups=are_groups))
    return pl.DataFrame(rows, schema=_DIFFERENCES)


def _about(first_record: Record, second_record: Record) -> dict[str, Any]:
    return {
        "query": second_record.query,
        "digest": second_record.digest,
        "attribute": second_record.attribute,
        "group": first_record.group,
        "with": second_record.group if second_record.group != first_record.group else None,
        **asdict(second_record.span.window),
        "from": first_record.span.end,
        "to": second_record.span.end,
    }


def _no_difference(pair: tuple[Any, Any], *, are_groups: bool) -> str:
    if are_groups:
        return "no window shows values of both groups, {} and {}".format(*pair)
    return "the windows that end at {} and {} are not both published, or one is withheld".format(*pair)


def table(records: list[Record]) -> "DataFrame":
    """Return the rows of records, with the same columns for any records. Times are in UTC."""
    # Here, since CSV and JSON lines do not need this large package.
    import polars as pl

    return pl.DataFrame(column_lists(records), schema=COLUMNS).with_columns(_times())


def _times() -> "list[Expr]":
    """Return the columns of times, in UTC."""
    import polars as pl

    return [pl.from_epoch(name, time_unit="s").dt.replace_time_zone("UTC") for name in TIMES]


def _run(work: Coroutine[Any, Any, _Result]) -> _Result:
    """Run a coroutine, in another thread if this one has an event loop, as in a notebook."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()
