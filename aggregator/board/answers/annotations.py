"""The answer of annotations: what happened to a query, beside its numbers."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Self

from aggregator.board.answers import lookup
from aggregator.board.answers.parameters import Parameters
from aggregator.board.answers.window_answers import TableAnswer
from aggregator.board.store.store import Store
from hubbub.definitions.table import dump
from hubbub.definitions.versions import Versions

VERSION, NOTE = "version", "note"


@dataclass(frozen=True, kw_only=True, slots=True)
class AnnotationRow:
    """A moment with a text."""

    time: Annotated[int, {"description": "Unix seconds"}]
    kind: Annotated[str, {"enum": [VERSION, NOTE]}]
    text: str


@dataclass(frozen=True, kw_only=True)
class Annotations(TableAnswer):
    table = "annotations"
    columns = ("time", "kind", "text")

    query: str
    annotations: list[AnnotationRow]

    @classmethod
    def of(cls, store: Store, parameters: Parameters, name: str) -> Self:
        if name not in store.names:
            raise lookup.unknown(store, name)
        start = parameters.whole("from")
        end = parameters.whole("to")

        rows = [AnnotationRow(time=note.time, kind=NOTE, text=note.text) for note in store.notes()]
        rows += _changes(store, name)
        retained = sorted((row for row in rows if start <= row.time < end), key=lambda row: (row.time, row.text))
        return cls(query=name, annotations=retained[-parameters.whole("limit") :])


def _changes(store: Store, name: str) -> Iterator[AnnotationRow]:
    """Yield the moments from which other settings of a query apply, or a definition with another digest."""
    definitions = store.definitions
    digests = definitions.digests[name]
    for digest in digests:
        versions = definitions.versions[digest]
        for time, text in _version_texts(versions, is_new=digest != digests[0]):
            yield AnnotationRow(time=time, kind=VERSION, text=text)

    # A definition that another one replaces is retired too, which says nothing more.
    if name not in definitions.active:
        end = max(definitions.versions[digest].retired or 0 for digest in digests)
        yield AnnotationRow(time=end, kind=VERSION, text="the query is retired")


def _version_texts(versions: Versions, *, is_new: bool) -> Iterator[tuple[int, str]]:
    """Yield the first pane and the text of each version. The first version of all has neither."""
    if is_new:
        yield versions.first, "new definition: devices are charged for it anew"
    for earlier, later in zip(versions.versions, versions.versions[1:], strict=False):
        if later.retired:
            continue
        earlier_settings = dump(earlier.query)
        settings = dump(later.query)
        keys = sorted(
            key for key in earlier_settings.keys() | settings.keys() if earlier_settings.get(key) != settings.get(key)
        )
        if keys:
            yield later.first, f"new settings: {', '.join(keys)}"
        elif later.is_stopped:
            yield later.first, "the query is stopped"
        else:
            # A version that only ends a retirement or a stop has the same settings.
            yield later.first, "the query is active again"
