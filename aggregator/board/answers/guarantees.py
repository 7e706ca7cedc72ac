"""The guarantees beside an estimate: of a record, of all windows together, and of a record of few reports."""

from dataclasses import asdict, dataclass
from typing import Annotated, Self

from aggregator.board.answers.view import View
from aggregator.records.crowd_privacy import CrowdPrivacy
from aggregator.records.round_privacy import Together, readable_record, together
from oracles.query import Query


@dataclass(frozen=True, kw_only=True, slots=True)
class CentralRow(CrowdPrivacy):
    """The guarantee of a person towards a reader of one record, and the one that holds for all windows."""

    together: Together

    @classmethod
    def of(cls, central: CrowdPrivacy | None, query: Query) -> Self | None:
        return None if central is None else cls(**asdict(central), together=together(query))


Central = Annotated[
    CentralRow | None,
    {
        "description": "What a person reveals to somebody who sees this record and no other. `together` holds for all "
        "windows of a round, for everybody"
    },
]
ReadableBelow = Annotated[
    int | None,
    {
        "minimum": 1,
        "description": "Reports below which a reader of the record reads single ones; null if its shares do not lead "
        "back to them",
    },
]


def readable(view: View) -> int | None:
    """Return the number of reports below which a reader of this record reads single ones, or None."""
    return readable_record(view.definition.query, view.part.attribute)
