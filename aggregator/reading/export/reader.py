"""`hubbub.read`: the published finals of a query as a table of polars."""

import asyncio
from typing import TYPE_CHECKING

from aggregator.reading.export.finals import finals
from aggregator.reading.export.table import by_column, wanted
from hubbub.kafka import PREFIX, Kafka
from oracles.errors import extra

if TYPE_CHECKING:
    from polars import DataFrame


def read(
    servers: str, query: str, *, since: int = 0, until: int | None = None, kind: str | None = None, prefix: str = PREFIX
) -> "DataFrame":
    """A row a value of each final window that ends in [since, until), in Unix seconds; `.to_pandas()` for pandas."""
    with extra("read"):
        import polars as pl

    records = asyncio.run(finals(Kafka(servers=servers, prefix=prefix), wanted(query, since, until, kind)))
    return pl.DataFrame(by_column(records), infer_schema_length=None)
