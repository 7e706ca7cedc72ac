"""The keys of records in the changelog of tallies and in the topic `snapshots`.

Keys are text, so that any Kafka tool can show them. The partition of a snapshot follows from its
query, the partition of a tally from its source partition.
"""

import re
from functools import lru_cache
from typing import Literal, NamedTuple

from oracles.query.settings import Window

KeyKind = Literal["tally", "ids", "progress", "closed", "open", "merged", "watermark", "state"]
_WRITER = re.compile("[A-Za-z0-9_.:-]*")
_LONGEST = 200
"""The most bytes of a key."""

Pane = tuple[bytes, int]
"""The digest and the start of a pane."""
Write = tuple[bytes, bytes | None]
"""A key and its value. A value of None deletes the key."""


class PaneKey(NamedTuple):
    """The key of a tally or a segment of ids in the changelog, or of a closed, open or merged snapshot."""

    kind: KeyKind
    digest: bytes
    pane: int
    partition: int
    """The source partition. A merged snapshot, which covers all partitions, has 0."""
    span: tuple[int, int] | None = None
    """The first and the last offset of a segment."""

    def encode(self) -> bytes:
        pane = f"{self.kind}|{self.digest.hex()}|{self.pane}|{self.partition}"
        if self.span is None:
            return pane.encode()
        return f"{pane}|{self.span[0]}|{self.span[1]}".encode()


class PartitionKey(NamedTuple):
    """The key of a partition's progress by one writer (changelog), or of its watermark (snapshots)."""

    kind: KeyKind
    partition: int
    writer: str = ""

    def encode(self) -> bytes:
        return f"{self.kind}|{self.partition}|{self.writer}".encode()


class StateKey(NamedTuple):
    """The key of the state of one kind of window, which includes the end of the newest window in the state."""

    digest: bytes
    window: Window
    end: int
    part: int = 0
    """The number of a part of a state that is too large for one record, or 0 for the record that is read first."""

    def encode(self) -> bytes:
        window = self.window
        key = f"state|{self.digest.hex()}|{window.kind}|{window.size}|{window.step}|{self.end}"
        # The first part has no number, like the states of older releases.
        if self.part:
            key += f"|{self.part}"
        return key.encode()


class BlockKey(NamedTuple):
    """The key of a block: the sum of `scale` windows in a row, up to `end`."""

    digest: bytes
    window: Window
    scale: int
    end: int

    def encode(self) -> bytes:
        window = self.window
        kind = f"block|{self.digest.hex()}|{window.kind}|{window.size}|{window.step}"
        return f"{kind}|{self.scale}|{self.end}".encode()


Key = PaneKey | PartitionKey | StateKey | BlockKey


@lru_cache(maxsize=1 << 12)
def decode(key: bytes | None) -> Key | None:
    """Read a key. Return None for bytes that hubbub never writes."""
    # Another spelling, such as 07 for 7, would be a second record of the same thing.
    result = _decode(key) if key is not None and len(key) <= _LONGEST else None
    if result is None or result.encode() != key:
        return None
    return result


def _decode(key: bytes) -> Key | None:
    try:
        kind, *parts = key.decode("ascii").split("|")

        match kind, parts:
            case (("tally" | "closed" | "open" | "merged"), [digest, pane, partition]):
                return PaneKey(kind, bytes.fromhex(digest), int(pane), int(partition))
            case "ids", [digest, pane, partition, first, last]:
                return PaneKey(kind, bytes.fromhex(digest), int(pane), int(partition), (int(first), int(last)))
            case (("progress" | "watermark"), [partition, writer]) if _WRITER.fullmatch(writer):
                return PartitionKey(kind, int(partition), writer)
            case "state", [digest, ("tumbling" | "hopping" | "all") as window, size, step, end, *part] if not part[1:]:
                name = StateKey(bytes.fromhex(digest), Window(window, int(size), int(step)), int(end))
                return name._replace(part=int(part[0])) if part else name
            case "block", [digest, ("tumbling" | "hopping") as window, size, step, scale, end]:
                return BlockKey(bytes.fromhex(digest), Window(window, int(size), int(step)), int(scale), int(end))
    except (UnicodeDecodeError, ValueError):
        pass
    return None


def home(digest: bytes, partitions: int) -> int:
    """Return the partition of the topic `snapshots` that holds everything of a query."""
    # A digest is a hash, so the queries spread over the partitions.
    return int.from_bytes(digest, "little") % partitions
