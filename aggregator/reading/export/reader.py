"""`hubbub.read`: the published finals of a query as a table of polars."""

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

from aggregator.publishing.record_reader import Record
from aggregator.reading.export.finals import finals
from aggregator.reading.export.table import by_column, columns, wanted
from hubbub.kafka import PREFIX, Kafka
from oracles.errors import extra

if TYPE_CHECKING:
    from polars import DataFrame

_Result = TypeVar("_Result")


def read(
    servers: str, query: str, *, since: int = 0, until: int | None = None, kind: str | None = None, prefix: str = PREFIX
) -> "DataFrame":
    """A row a value of each final window that ends in [since, until), in Unix seconds; `.to_pandas()` for pandas."""
    with extra("read"):
        import polars as pl  # noqa: F401 - before anything is read

    kafka = Kafka(servers=servers, prefix=prefix)
    return table(_done(finals(kafka, query, wanted(since, until, kind))))


def table(records: list[Record]) -> "DataFrame":
    """The rows of records, with the columns that there always are."""
    import polars as pl

    return pl.DataFrame(by_column(records), schema=columns(records))


def _done(work: Coroutine[Any, Any, _Result]) -> _Result:
    """Its result, from a thread of its own where a loop runs in this one, as in a notebook."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()
