"""The names that searches of a query have found, collected from its finals. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from aggregator.records.decoder import decode
from aggregator.records.maps_key import is_maps
from aggregator.records.name_list import names_of
from aggregator.records.record import Record
from oracles.consistency import UNBIASED


@dataclass
class NameCollection:
    """The names in the finals of one digest, each with its share in the newest window that lists it."""

    digest: str
    shares: dict[str, tuple[int, float]] = field(default_factory=dict)
    """The end of that window, and the share."""
    newest: Record | None = None
    """The final with the most reports, and the newest of several."""

    def add(self, record: Record) -> None:
        """Add a record. Records of other digests, provisional and withheld ones have no effect."""
        names = names_of(record) if record.digest == self.digest and record.final else None
        if names is None:
            return
        if self.newest is None or _rank(record) > _rank(self.newest):
            self.newest = record
        for name, share in zip(record.values, record.shares[UNBIASED].tolist(), strict=True):
            self.shares[name] = max(self.shares.get(name, (0, 0.0)), (record.span.end, share))

    @property
    def smallest(self) -> float | None:
        """The smallest share that a search of that final shows, or None if that is not known."""
        names = None if self.newest is None else names_of(self.newest)
        return None if names is None else names.smallest

    @property
    def names(self) -> list[str]:
        """All names, by falling share."""
        return sorted(self.shares, key=lambda name: (-self.shares[name][1], name))


def _rank(record: Record) -> tuple[int, int]:
    return record.n, record.span.end


def add_all(collection: NameCollection, messages: Iterable[Any]) -> None:
    """Add the records in messages of the topic. Unreadable ones are skipped."""
    for message in messages:
        if message.value is None or is_maps(message.key):
            continue
        try:
            record = decode(message.value)
        except ValueError:
            continue
        collection.add(record)
