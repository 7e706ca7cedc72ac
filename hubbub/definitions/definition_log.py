"""The log of definitions: the records of the topic `queries`, and the definitions that follow from them."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from hubbub.definitions.definition_record import UnreadableRecord
from hubbub.definitions.formats import Formats
from hubbub.definitions.versions import Versions
from oracles.query import Query


@dataclass(frozen=True)
class Definitions:
    """The definitions in the topic, each with all its versions."""

    versions: Mapping[bytes, Versions] = field(default_factory=dict)
    """The versions of each digest, retired ones included; the newest is last."""
    revision: int = 0
    """The highest revision of all files that were registered."""
    unreadable: tuple[UnreadableRecord, ...] = ()
    forgotten: Mapping[bytes, str] = field(default_factory=dict)
    """The names of forgotten definitions by digest."""
    first_batch: str | None = None
    """The token of the batch that was appended first."""
    editions: Mapping[bytes, int] = field(default_factory=dict)
    """The edition of the file that wrote the newest version of each digest."""
    formats: Formats = Formats()  # noqa: RUF009 - a tuple never changes
    """The formats version of the installation."""
    raised_at: int = 0
    """The log time in ms of the record of the formats version, or 0 without one."""

    @cached_property
    def queries(self) -> dict[bytes, Query]:
        """The newest query of each digest."""
        return {digest: versions.query for digest, versions in self.versions.items()}

    @cached_property
    def digests(self) -> dict[str, list[bytes]]:
        """The digests of each name, retired ones included."""
        result: dict[str, list[bytes]] = defaultdict(list)
        for digest, query in self.queries.items():
            result[query.name].append(digest)
        return dict(result)

    @cached_property
    def active(self) -> dict[str, Query]:
        """The active queries by name."""
        return {v.query.name: v.query for v in self.versions.values() if not v.newest.retired}
