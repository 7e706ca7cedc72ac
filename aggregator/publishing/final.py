"""A final as it is published: what it may show, its records and alerts, and what those after it need to know."""

from collections.abc import Sequence
from typing import NamedTuple

from aggregator.counting.tally import Snapshot
from aggregator.merging.crowd import Face, Shown, face
from aggregator.merging.windows import ClosedWindow, Span
from aggregator.publishing.changes import alerts
from aggregator.publishing.record import Built, build
from oracles.query import Query


class Made(NamedTuple):
    """The records of a window, and the alerts of a final."""

    built: Built
    alerts: list[tuple[bytes, bytes]]
    """Keys and values."""
    states: list[bytes]
    """Of the alerts of each attribute, for the next final of its kind."""


class Published(NamedTuple):
    """All that follows from a final and those before it."""

    built: Built
    alerts: list[tuple[bytes, bytes]]
    states: list[bytes]
    shown: list[Shown | None]
    """Of each attribute the last window of its kind that showed values."""


class Seen(NamedTuple):
    """The findings of an attribute, as metrics tell of them."""

    attribute: str | None
    withheld: bool
    sigma: float
    detectable: float | None
    threshold: float | None
    flags: tuple[str, ...]


def publish(query: Query, final: ClosedWindow, states: Sequence[bytes], shown: Sequence[Shown | None]) -> Published:
    """The records and alerts of a final, given the state that the one before it left."""
    faces, shown_now = face(query, final, shown)
    return Published(*made(query, final.span, final.total, faces, states), shown_now)


def made(query: Query, span: Span, total: Snapshot, faces: Sequence[Face] | None, states: Sequence[bytes] = ()) -> Made:
    """The records of a window, and the alerts of a final, whose `faces` are what it may show."""
    built = build(query, span, total, final=faces is not None, faces=faces)
    if faces is None:
        return Made(built, [], [])
    after, said = alerts(query, span, built, states)
    return Made(built, said, after)


def look(query: Query, built: Built) -> list[Seen]:
    """What metrics tell of a final."""
    return [
        Seen(
            *(found.subject.name, found.withheld, float(found.estimate.sigma), found.detectable),
            *(None if found.withheld else query.threshold.share(found.estimate.n), found.flags),
        )
        for found in built.findings
    ]
