"""The keys of what hubbub keeps for itself: in the changelog of tallies, and in the topic of snapshots.

They are text, so that they can be read with any Kafka tool. A snapshot's partition follows from its
query, a tally's from the source partition.
"""

import re
from typing import Literal, NamedTuple

from oracles.query.settings import Window

KeyKind = Literal["tally", "ids", "progress", "closed", "open", "merged", "watermark", "state"]
_WRITER = re.compile("[A-Za-z0-9_.:-]*")
_LONGEST = 200
"""Bytes: no key is longer."""


class PaneKey(NamedTuple):
    """Of a tally or a segment of ids (changelog), or of a snapshot, closed, open or merged."""

    kind: KeyKind
    digest: bytes
    pane: int
    partition: int
    """The source partition; 0 of a merged one, which is of all."""
    span: tuple[int, int] | None = None
    """Of a segment: its first and last offset."""

    def encode(self) -> bytes:
        pane = f"{self.kind}|{self.digest.hex()}|{self.pane}|{self.partition}"
        return (f"{pane}|{self.span[0]}|{self.span[1]}" if self.span else pane).encode()


class PartitionKey(NamedTuple):
    """Of a partition's progress by one writer (changelog), or of its watermark."""

    kind: KeyKind
    partition: int
    writer: str = ""

    def encode(self) -> bytes:
        return f"{self.kind}|{self.partition}|{self.writer}".encode()


class StateKey(NamedTuple):
    """Of the state of one kind of window; each has the end that it stands at in its key."""

    digest: bytes
    window: Window
    end: int

    def encode(self) -> bytes:
        window = self.window
        return f"state|{self.digest.hex()}|{window.kind}|{window.size}|{window.step}|{self.end}".encode()


Key = PaneKey | PartitionKey | StateKey
Write = tuple[bytes, bytes | None]
"""Key and value; None deletes."""


def decode(key: bytes | None) -> Key | None:
    """The key in these bytes; None where hubbub wrote none such."""
    found = _decode(key) if key is not None and len(key) <= _LONGEST else None
    return found if found is not None and found.encode() == key else None


def _decode(key: bytes) -> Key | None:
    try:
        kind, *rest = key.decode("ascii").split("|")
        match kind, rest:
            case (("tally" | "closed" | "open" | "merged"), [digest, pane, partition]):
                return PaneKey(kind, bytes.fromhex(digest), int(pane), int(partition))
            case "ids", [digest, pane, partition, first, last]:
                return PaneKey(kind, bytes.fromhex(digest), int(pane), int(partition), (int(first), int(last)))
            case (("progress" | "watermark"), [partition, writer]) if _WRITER.fullmatch(writer):
                return PartitionKey(kind, int(partition), writer)
            case "state", [digest, ("tumbling" | "hopping" | "all") as window, size, step, end]:
                return StateKey(bytes.fromhex(digest), Window(window, int(size), int(step)), int(end))
    except (UnicodeDecodeError, ValueError):
        pass
    return None


def partition(key: bytes) -> int | None:
    """The source partition that a key is of; None where it is of none."""
    found = decode(key)
    return None if found is None or isinstance(found, StateKey) else found.partition


def home(digest: bytes, partitions: int) -> int:
    """The partition of the snapshots topic that holds all of a query."""
    return int.from_bytes(digest, "little") % partitions
