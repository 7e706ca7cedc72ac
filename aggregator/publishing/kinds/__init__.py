"""The kinds of answers: values, numbers and names. Each is a module with the same functions.

- `find(attribute)` returns the findings of one attribute of a window.
- `changes(window, total, state, pairs)` returns the alerts of one attribute of a final, and what later finals need.
- `metrics(query, findings)` returns the metrics of one attribute of a final.

Groups, pairs and withholding are no kinds. They wrap one, and no kind knows of them.
"""

from collections.abc import Sequence
from typing import Any, Protocol

from aggregator.publishing.alerts.comparisons import StretchPair
from aggregator.publishing.final_metrics import FinalMetrics
from aggregator.publishing.kinds import names, numbers, values
from aggregator.publishing.kinds.attribute import AttributeChanges, CountedAttribute
from aggregator.records.findings import AnyFindings, GroupTotal, WindowFindings
from aggregator.records.subject import Subject
from oracles.query import Query
from oracles.query.domain import NAMES, NUMBERS, VALUES


class PublishedKind(Protocol):
    """The functions of a kind. Each takes the findings of its own kind."""

    def find(self, attribute: CountedAttribute) -> AnyFindings: ...

    def changes(
        self, window: WindowFindings, total: GroupTotal, state: bytes, pairs: Sequence[StretchPair]
    ) -> AttributeChanges: ...

    def metrics(self, query: Query, findings: Any) -> FinalMetrics: ...


KINDS: dict[str, PublishedKind] = {VALUES: values, NUMBERS: numbers, NAMES: names}


def kind_of(subject: Subject) -> PublishedKind:
    """Return the kind of the answers of a subject. A kind without a module here is found like values."""
    return KINDS.get(subject.domain.kind, values)
