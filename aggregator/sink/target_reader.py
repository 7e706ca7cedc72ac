"""Reads the rows of one query from the files of a sink: `finals` first, then `open` for names without a file there."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from aggregator.errors import TargetUnreachable
from aggregator.sink import row_file
from aggregator.sink.file_names import FINALS, OPEN, FileName, parse
from aggregator.sink.objects import Objects, is_store, unknown_kind
from aggregator.sink.sink_state import PATH, SinkState
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


class FileSource(Protocol):
    """The files of a target, for reading."""

    def paths(self, part: str) -> list[str]:
        """Return the paths of all files below a part, in order."""

    def content(self, path: str) -> bytes:
        """Return the content of a file. Raise FileNotFoundError if there is none any more."""


class FolderSource:
    """The files below a folder."""

    def __init__(self, folder: Path) -> None:
        if not folder.is_dir():
            raise ParameterError(f"{folder} is no folder with files of a sink")
        self._folder = folder

    def paths(self, part: str) -> list[str]:
        return sorted(path.relative_to(self._folder).as_posix() for path in (self._folder / part).rglob("*.parquet"))

    def content(self, path: str) -> bytes:
        return (self._folder / path).read_bytes()


class StoreSource:
    """The objects below an address."""

    def __init__(self, address: str) -> None:
        self._objects = Objects(address)

    def paths(self, part: str) -> list[str]:
        return sorted(self._objects.times(part))

    def content(self, path: str) -> bytes:
        present = self._objects.get(path)
        if present is None:
            raise FileNotFoundError(path)
        return present[0]


def read_rows(place: str | Path, query: str, is_kind: Callable[[FileName], bool]) -> "DataFrame":
    """Return all rows of a query in a target, in the order of time. `is_kind` chooses files by their names.

    Raise a ParameterError if the target has no files of the query, and TargetUnreachable if it does not answer.
    """
    source = _source(place)
    tries = _TRIES
    while True:
        tries -= 1
        try:
            return _rows(source, query, is_kind)
        except FileNotFoundError:
            if not tries:
                raise
        except OSError as error:
            raise TargetUnreachable(str(error)) from error


def read_state(place: str | Path) -> SinkState | None:
    """Return the state of a target, or None if it has none. Raise TargetRefused if another release wrote it."""
    try:
        return SinkState.decode(_source(place).content(PATH))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise TargetUnreachable(str(error)) from error


def _source(place: str | Path) -> FileSource:
    if isinstance(place, Path) or "://" not in place:
        return FolderSource(Path(place))
    if is_store(place):
        return StoreSource(place)
    raise unknown_kind(place)


def _rows(source: FileSource, query: str, is_kind: Callable[[FileName], bool]) -> "DataFrame":
    import polars as pl

    # In this order a file that goes from `open` to `finals` meanwhile is there at least once.
    finals = _paths(source, FINALS, query)
    names = {name for name, _ in finals}
    paths = finals + [(name, path) for name, path in _paths(source, OPEN, query) if name not in names]
    if not paths:
        raise ParameterError(f"there are no files of query {query!r}; {nearest(query, _queries(source))}")

    tables = [row_file.decode(source.content(path)) for name, path in paths if is_kind(name)]
    rows = pl.concat(tables) if tables else pl.DataFrame(schema=row_file.SCHEMA)
    # Null comes first, as the total does before its groups.
    return rows.sort(_ORDER, nulls_last=False, maintain_order=True)


def _paths(source: FileSource, part: str, query: str) -> list[tuple[FileName, str]]:
    paths = []
    for path in source.paths(f"{part}/query={query}"):
        place = parse(path)
        if place is not None:
            paths.append((place[0], path))
    return paths


def _queries(source: FileSource) -> list[str]:
    places = [parse(path) for part in (FINALS, OPEN) for path in source.paths(part)]
    return sorted({place[0].query for place in places if place is not None})
