"""Reads the rows of one query from the files of a sink: `finals` first, then `open` for names without a file there."""

from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING

from aggregator.sink import row_file
from aggregator.sink.file_names import FINALS, OPEN, FileName, parse
from oracles.errors import ParameterError
from oracles.query.settings import nearest

if TYPE_CHECKING:
    from polars import DataFrame

_TRIES = 3
"""Looks at the files before a reader gives up: an open file may end while it is read."""
_ORDER = ("end", "size", "attribute", "group", "digest", "kind", "position")


def is_target(place: str | Path) -> bool:
    """Whether a place is a target of a sink. An address of Kafka has no slash."""
    return isinstance(place, Path) or "/" in place


def read_rows(place: str | Path, query: str, is_kind: Callable[[FileName], bool]) -> "DataFrame":
    """Return all rows of a query in a folder, in the order of time. `is_kind` chooses files by their names.

    Raise a ParameterError if the folder has no files of the query.
    """
    if isinstance(place, str) and "://" in place:
        raise ParameterError(f"{place.partition(':')[0]}: object stores cannot be read; copy the files to a folder")
    folder = Path(place)
    if not folder.is_dir():
        raise ParameterError(f"{folder} is no folder with files of a sink")

    for _ in range(_TRIES):
        try:
            return _rows(folder, query, is_kind)
        except FileNotFoundError:
            continue
    return _rows(folder, query, is_kind)


def _rows(folder: Path, query: str, is_kind: Callable[[FileName], bool]) -> "DataFrame":
    import polars as pl

    # In this order a file that goes from `open` to `finals` meanwhile is there at least once.
    finals = _paths(folder, FINALS, query)
    names = {name for name, _ in finals}
    paths = finals + [(name, path) for name, path in _paths(folder, OPEN, query) if name not in names]
    if not paths:
        raise ParameterError(f"there are no files of query {query!r}; {nearest(query, sorted(_queries(folder)))}")

    tables = [row_file.decode(path.read_bytes()) for name, path in paths if is_kind(name)]
    rows = pl.concat(tables) if tables else pl.DataFrame(schema=row_file.SCHEMA)
    # Null comes first, as the total does before its groups.
    return rows.sort(_ORDER, nulls_last=False, maintain_order=True)


def _paths(folder: Path, part: str, query: str) -> list[tuple[FileName, Path]]:
    paths = []
    for path in sorted((folder / part / f"query={query}").glob("day=*/*.parquet")):
        place = parse(path.relative_to(folder).as_posix())
        if place is not None:
            paths.append((place[0], path))
    return paths


def _queries(folder: Path) -> Collection[str]:
    paths = [path for part in (FINALS, OPEN) for path in (folder / part).glob("query=*")]
    return {path.name.removeprefix("query=") for path in paths}
