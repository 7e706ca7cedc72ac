"""The names in a record of unknown strings, each with what the record knows about it."""

from dataclasses import dataclass

from aggregator.records.record import Record


@dataclass(frozen=True, slots=True)
class NameList:
    """The names of one record. Each list is in the order of the record's values."""

    levels: tuple[int, ...]
    """Number of reports of each level and map."""
    interval_levels: tuple[float, ...]
    """The level of each name's interval: 0.95 if the name was known before the window."""
    names_n: tuple[int, ...]
    """Number of independent reports that tell of each name."""
    first_seen: tuple[int | None, ...]
    """The end of the window that proved each name first. None for a name without one."""
    ambiguous: tuple[str, ...]
    """Names that no map tells apart from others."""
    smallest: float | None
    """The share that a search of the window finds with probability 0.9, or None if it finds none."""


def names_of(record: Record) -> NameList | None:
    """Return the names of a record. None if its values are listed, or if the window is withheld."""
    discover = record.discover()
    if discover is None:
        return None
    return NameList(
        levels=tuple(discover.levels),
        interval_levels=tuple(record.rest()["level"]),
        names_n=tuple(discover.names_n),
        first_seen=tuple(map(discover.first_seen.get, record.values)),
        ambiguous=tuple(discover.ambiguous),
        smallest=discover.smallest,
    )
