"""The state of a sink: how far the topic is in files, and which finals it lost before. Pure."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Self

import orjson

from aggregator.errors import TargetRefused
from aggregator.sink.file_names import Period

PATH = "_sink/state.json"
VERSION = 1


@dataclass(frozen=True, slots=True, order=True)
class Gap:
    """Offsets of the topic whose finals may be missing in the files: [start, end)."""

    partition: int
    start: int
    end: int
    seen: int
    """The time at which the sink noticed it, in Unix seconds."""


@dataclass(frozen=True, slots=True)
class SinkState:
    """What the file `_sink/state.json` says. It only saves work: the files in `finals` decide what is written."""

    prefix: str
    files: Period
    queries: frozenset[str] | None = None
    """The queries of the sink, or None for all."""
    offsets: Mapping[int, int] = field(default_factory=dict)
    """The next offset of each partition. All finals below it are in `finals`."""
    gaps: tuple[Gap, ...] = ()

    def encode(self) -> bytes:
        return orjson.dumps(
            {
                "version": VERSION,
                "prefix": self.prefix,
                "files": self.files,
                "queries": None if self.queries is None else sorted(self.queries),
                "offsets": {str(partition): offset for partition, offset in sorted(self.offsets.items())},
                "gaps": [
                    {"partition": gap.partition, "from": gap.start, "to": gap.end, "seen": gap.seen}
                    for gap in sorted(self.gaps)
                ],
            },
            option=orjson.OPT_INDENT_2,
        )

    @classmethod
    def decode(cls, content: bytes) -> Self:
        """Return the state in these bytes. Raise TargetRefused if they hold none."""
        try:
            document = orjson.loads(content)
            if document["version"] != VERSION:
                raise TargetRefused(f"{PATH} has version {document['version']!r}; use the release that wrote it")
            queries = document.get("queries")
            return cls(
                prefix=document["prefix"],
                files=document["files"],
                queries=None if queries is None else frozenset(queries),
                offsets={int(partition): int(offset) for partition, offset in document["offsets"].items()},
                gaps=tuple(Gap(gap["partition"], gap["from"], gap["to"], gap["seen"]) for gap in document["gaps"]),
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise TargetRefused(f"{PATH} cannot be read ({error}); delete it, and the sink reads all again") from error

    def continued(self, other: "SinkState") -> "SinkState":
        """Return the state with which a sink with the settings of `other` goes on.

        Raise TargetRefused if its files would not fit to those that are there.
        """
        if self.prefix != other.prefix:
            raise TargetRefused(f"the target holds finals of prefix {self.prefix!r}; use another target")
        if self.files != other.files:
            raise TargetRefused(f"the target has --files {self.files}, which is fixed; use another target")

        # Finals of a query that the sink did not follow may lie anywhere in the topic.
        is_covered = self.queries is None or (other.queries is not None and other.queries <= self.queries)
        return replace(other, offsets=self.offsets if is_covered else {}, gaps=self.gaps)

    def with_gaps(self, gaps: Collection[Gap]) -> "SinkState":
        """Return the state with new gaps. A gap that is known stays as it was first seen."""
        places = {(gap.partition, gap.start, gap.end) for gap in self.gaps}
        new_gaps = [gap for gap in gaps if (gap.partition, gap.start, gap.end) not in places]
        return replace(self, gaps=(*self.gaps, *new_gaps))


def lost(offsets: Mapping[int, int], begins: Mapping[int, int], notice_time: int) -> list[Gap]:
    """Return the gaps between the next offsets and the beginnings of the partitions."""
    pairs = {partition: (offset, begins.get(partition, offset)) for partition, offset in offsets.items()}
    return [Gap(number, offset, begin, notice_time) for number, (offset, begin) in pairs.items() if begin > offset]
