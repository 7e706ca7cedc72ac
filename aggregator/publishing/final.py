"""A final as it is published: what it may show, its records and alerts, and what those after it need to know."""

from collections.abc import Sequence
from typing import NamedTuple

from aggregator.merging.crowd import Shown, face
from aggregator.merging.windows import ClosedWindow
from aggregator.publishing.changes import alerts
from aggregator.publishing.record import Built, build
from oracles.query import Query


class Published(NamedTuple):
    """All that follows from a final and those before it."""

    built: Built
    alerts: list[tuple[bytes, bytes]]
    """Keys and values."""
    states: list[bytes]
    """Of the alerts of each attribute, for the next final of its kind."""
    shown: list[Shown | None]
    """Of each attribute the last window of its kind that showed values."""


def publish(query: Query, final: ClosedWindow, states: Sequence[bytes], shown: Sequence[Shown | None]) -> Published:
    """The records and alerts of a final, given the state that the one before it left."""
    faces, shown_now = face(query, final, shown)
    built = build(query, final.span, final.total, final=True, faces=faces)
    after, said = alerts(query, final.span, built, states)
    return Published(built, said, after, shown_now)
