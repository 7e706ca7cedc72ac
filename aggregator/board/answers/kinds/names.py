"""The shares of a window of unknown strings: of the names in its record, or of any string by its maps."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, cast

from aggregator.board.answers import lookup
from aggregator.board.answers.absence import missing_reasons
from aggregator.board.answers.kinds import values
from aggregator.board.answers.parameters import Parameters
from aggregator.board.answers.reply import missing
from aggregator.board.answers.rows import PointRow, ValueRow
from aggregator.board.answers.view import Definition, View
from aggregator.board.store.entry import Entry
from aggregator.board.store.series import Series
from aggregator.records.kinds.names import NameList, names_of
from aggregator.records.maps_record import ask, maps_of
from hubbub.http.schema import Chance, Count
from oracles.consistency import UNBIASED
from oracles.discover import Coding, Maps
from oracles.estimate.intervals import LEVEL
from oracles.query.strings import BYTES, TEXT, Discovery


@dataclass(frozen=True, kw_only=True, slots=True)
class StringNameRow:
    """What is known about one name, in addition to its share."""

    value: str
    level: Annotated[float, {"description": "Level of its interval: 0.95 if the name was known before the window"}]
    n: Annotated[int, {"minimum": 0, "description": "Independent reports that tell of the name; 0 if ambiguous"}]
    first_seen: Annotated[
        int | None, {"description": "End of the window that proved the name first; null if none has proved it"}
    ]


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchRow:
    """What is known about the names of a window, and what a search of it can show."""

    smallest: Annotated[
        Chance, {"description": "Share that a search of so many reports finds with probability 0.9; null if none"}
    ]
    has_search: Annotated[bool, {"description": "Whether names are searched in such windows, or only asked for"}]
    levels: Annotated[list[Count], {"description": "Reports of each level and of each of the four maps"}]
    ambiguous: Annotated[list[str], {"description": "Strings that no map tells apart from a name that was found"}]
    names: Annotated[list[StringNameRow], {"description": "Of the rows in `values`, in their order"}]


@dataclass(frozen=True, kw_only=True, slots=True)
class StringDomainRow:
    """How unknown strings are coded and searched."""

    discover: Annotated[str, {"enum": [TEXT, BYTES], "description": "Whether a symbol is a character or a byte"}]
    length: Annotated[int, {"minimum": 1, "description": "Symbols of a string; longer ones are cut"}]
    alphabet: Annotated[str | None, {"description": "The symbols of texts; null for bytes"}]
    normal: str
    search: Annotated[int, {"description": "Seconds of the shortest window in which names are searched"}]
    known_names: Annotated[int, {"minimum": 0, "description": "Names in the query file, which are always candidates"}]

    @classmethod
    def of(cls, definition: Definition) -> "StringDomainRow":
        discovery = cast(Discovery, definition.domain.discovery)
        coding = discovery.coding
        return cls(
            discover=discovery.kind,
            length=coding.length,
            alphabet=coding.alphabet,
            normal=coding.normal,
            search=definition.query.search or 0,
            known_names=len(definition.query.known),
        )


def domain_fields(definition: Definition) -> dict[str, Any]:
    """Return how the strings are coded and searched. Nobody lists the domain, so it has no size."""
    return values.domain_fields(definition) | {"size": None, "strings": StringDomainRow.of(definition)}


def answer(_: Series, view: View, parameters: Parameters) -> dict[str, Any]:
    """Return the names of a window of unknown strings, or the shares of the requested strings."""
    # A wrong method is a fault, although names have only one.
    lookup.method(view.part, parameters)

    result = shares(view, parameters.values(), parameters.whole("top", None))
    return {
        "method": UNBIASED,
        "methods": [UNBIASED],
        "size": None,
        "published": len(view.part.values),
        "missing": result.missing,
        "missing_reasons": missing_reasons(result.missing, view.part),
        "level": result.level,
        "values": result.rows,
        "discover": result.discover,
    }


def series(
    _: Series, definition: Definition, records: Sequence[Entry], value: str, parameters: Parameters
) -> tuple[dict[str, Any], Iterator[PointRow]]:
    """Return the share of a name in successive windows."""
    method = lookup.history_method(records, definition, parameters)
    name = _coding(definition).name(value)
    points = (PointRow.of(record, definition.name, name, method, None) for record in records)
    return {"method": method, "measure": "share", "unit": None, "level": None}, points


def _coding(definition: Definition) -> Coding:
    """Return the coding of unknown strings, which every domain of this kind has."""
    return cast(Discovery, definition.domain.discovery).coding


# A record lists names like values, so these answers are the same for both.
compare = values.compare
group_names = values.group_names
group_level = values.group_level
group_rows = values.group_rows
leader = values.leader


@dataclass(frozen=True)
class StringShares:
    """The rows of an answer, what is known about them, and the strings without an answer."""

    rows: list[ValueRow]
    discover: SearchRow | None
    missing: list[str]
    level: float
    """The lowest level of the intervals."""


def shares(view: View, texts: Sequence[str] | None, top: int | None) -> StringShares:
    """Return the first names of a record, or the shares of these strings. A withheld window has none."""
    names = names_of(view.part)
    if names is None:
        return StringShares([], None, list(texts or ()), LEVEL)

    rows_of_record = list(_record_rows(view, names))
    if texts is None:
        pairs = rows_of_record[:top]
        ambiguous = list(names.ambiguous)
    else:
        pairs = _asked(view, {row.value: (row, about) for row, about in rows_of_record}, texts)
        ambiguous = [row.value for row, _ in pairs if row.share is None]

    rows = [row for row, _ in pairs]
    name_rows = [name_row for _, name_row in pairs]
    discover = SearchRow(
        smallest=names.smallest,
        has_search=view.definition.query.is_searched(view.record.span.window),
        levels=list(names.levels),
        ambiguous=ambiguous,
        names=name_rows,
    )
    return StringShares(rows, discover, [], min((name_row.level for name_row in name_rows), default=LEVEL))


def _record_rows(view: View, names: NameList) -> Iterator[tuple[ValueRow, StringNameRow]]:
    part = view.part
    numbers = (part.shares[UNBIASED], part.stderr, part.low, part.high)
    columns = (part.values, *(column.tolist() for column in numbers))
    about = (names.interval_levels, names.names_n, names.first_seen)
    for value, share, stderr, low, high, level, n, first_seen in zip(*columns, *about, strict=True):
        is_above_zero = low > 0.0
        row = _row(value, share, stderr, low, high, proof=is_above_zero)
        yield row, StringNameRow(value=value, level=level, n=n, first_seen=first_seen)


def _row(value: str, share: float, stderr: float, low: float, high: float, *, proof: bool) -> ValueRow:
    numbers = {"share": share, "unbiased": share, "stderr": stderr, "low": low, "high": high}

    # JSON has no NaN, which stands for an ambiguous string here.
    known = {key: None if number != number else number for key, number in numbers.items()}  # noqa: PLR0124 - NaN
    return ValueRow(
        value=value,
        **known,
        listed=proof,
        decided=proof,
        present=proof,
        probability=None,
        ranks=None,
        truth=None,
        by_weight=None,
        by_weight_low=None,
        by_weight_high=None,
    )


def _asked(
    view: View, listing: dict[str, tuple[ValueRow, StringNameRow]], texts: Sequence[str]
) -> list[tuple[ValueRow, StringNameRow]]:
    """Return a row for each text. A name has the row of the record, and all texts that are coded alike are one."""
    coding = _coding(view.definition)
    maps = None
    pairs = {}

    for text in texts:
        name = coding.name(text)
        if name not in listing and name not in pairs:
            maps = maps or _maps(view)
            answer = ask(maps, text, listing)
            pairs[name] = (
                _row(name, answer.share, answer.stderr, answer.low, answer.high, proof=False),
                StringNameRow(value=name, level=answer.level, n=answer.n, first_seen=None),
            )
        else:
            pairs[name] = listing.get(name) or pairs[name]
    return list(pairs.values())


def _maps(view: View) -> Maps:
    """Return the maps of a window. Raise a Problem if the board does not have them."""
    maps = None if view.maps is None else maps_of(view.part, view.maps, view.definition.query)
    if maps is None:
        remedy = view.maps_gap or "ask a final window"
        raise missing(
            f"the board has no maps of this window, so it knows the shares of its names only; {remedy}",
            parameter="value",
        )
    return maps
