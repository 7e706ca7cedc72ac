"""The function `hubbub.read`, which returns the published finals of a query as a polars table."""

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

from aggregator.publishing.records.decoder import Record
from aggregator.reading.export.finals import finals
from aggregator.reading.export.table import column_lists, columns, record_filter
from hubbub.kafka.settings import PREFIX, Kafka
from oracles.errors import extra

if TYPE_CHECKING:
    from polars import DataFrame

_Result = TypeVar("_Result")


def read(
    servers: str, query: str, *, since: int = 0, until: int | None = None, kind: str | None = None, prefix: str = PREFIX
) -> "DataFrame":
    """Return a row for each value of each final window that ends in [since, until), in Unix seconds.

    `.to_pandas()` makes a table of pandas.
    """
    with extra("read"):
        import polars as pl  # noqa: F401 - fails before the topic is read

    kafka = Kafka(servers=servers, prefix=prefix)
    return table(_run(finals(kafka, query, record_filter(since, until, kind))))


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
