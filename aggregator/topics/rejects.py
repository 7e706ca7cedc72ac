"""A reject: what is kept of a record that was refused, and how it stands in its topic."""

from dataclasses import dataclass

SHOWN = 32
"""Bytes that are kept: a frame's header up to its id, no report."""


@dataclass(frozen=True, slots=True)
class Reject:
    """A record of the reports that is set aside."""

    offset: int
    start: bytes
    """Its first bytes."""
    reason: str
    detail: str

    def key(self, topic: str, partition: int) -> bytes:
        return f"{topic}|{partition}|{self.offset}".encode()

    def headers(self, topic: str, partition: int) -> list[tuple[str, bytes]]:
        where = {"topic": topic, "partition": partition, "offset": self.offset}
        said = {**where, "reason": self.reason, "detail": self.detail}
        return [(name, str(value).encode()) for name, value in said.items()]
