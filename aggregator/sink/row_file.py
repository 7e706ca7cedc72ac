"""The bytes of files of rows: Parquet, equal for equal rows."""

import io
from collections.abc import Iterable
from typing import TYPE_CHECKING

from aggregator.errors import TargetRefused
from aggregator.records.row_columns import FLAT, FORMAT

if TYPE_CHECKING:
    from polars import DataFrame
    from polars.datatypes import DataTypeClass

FINAL = ("digest", "attribute", "group", "end")
"""The columns that tell the finals of one file apart. Its name has query, kind, size and step."""
PLACE = "_place"
"""The column of waiting rows that numbers the finals in the order in which they were read."""
SCHEMA: dict[str, type] = {column.name: column.kind for column in FLAT}


def encode(rows: "DataFrame") -> bytes:
    """Return the file of these rows."""
    order = ["end", "digest", "attribute", "group", "position"]
    buffer = io.BytesIO()
    # The name of the release or a time would give other bytes to equal rows.
    rows.select(SCHEMA.keys()).sort(order, nulls_last=False).write_parquet(
        buffer,
        compression="zstd",
        statistics=True,
        metadata={"hubbub.rows": FORMAT},
    )
    return buffer.getvalue()


def decode(content: bytes) -> "DataFrame":
    """Return the rows of a file, with null in the columns that its release did not have."""
    import polars as pl

    # Later releases may have more columns, which this one does not know.
    rows = _read(content)
    missing = [pl.lit(None, kind).alias(name) for name, kind in _types().items() if name not in rows.columns]
    return rows.with_columns(missing).select(SCHEMA.keys())


def finals_in(content: bytes) -> "DataFrame":
    """Return the finals of a file: a row for each, with the columns that tell finals apart."""
    return _read(content, list(FINAL)).unique()


def _read(content: bytes, columns: list[str] | None = None) -> "DataFrame":
    import polars as pl

    # Somebody else may have cut or replaced a file. No writer may guess which finals it had.
    try:
        return pl.read_parquet(io.BytesIO(content), columns=columns, hive_partitioning=False)
    except pl.exceptions.PolarsError as error:
        raise TargetRefused(f"a file of the target is no Parquet file ({error}); remove it or restore it") from error


def once(rows: "DataFrame", present: Iterable["DataFrame"]) -> "DataFrame":
    """Return the rows of each final that no known file holds, as it was read first."""
    import polars as pl

    firsts = rows.group_by(FINAL).agg(pl.col(PLACE).min())
    for finals in present:
        firsts = firsts.join(finals, on=FINAL, how="anti", nulls_equal=True)
    return rows.join(firsts, on=[*FINAL, PLACE], how="semi", nulls_equal=True)


def _types() -> "dict[str, DataTypeClass]":
    import polars as pl

    kinds: dict[type, DataTypeClass] = {str: pl.String, int: pl.Int64, float: pl.Float64, bool: pl.Boolean}
    return {name: kinds[kind] for name, kind in SCHEMA.items()}
