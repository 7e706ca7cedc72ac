"""The answer of all alerts, the newest first."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Annotated, Any, Self

import orjson

from aggregator.board.answers import lookup
from aggregator.board.answers.parameters import Parameters
from aggregator.board.answers.window_answers import TableAnswer
from aggregator.board.store.store import Store
from aggregator.records.alert import OWN_MEMBERS, Alert, decode, members
from hubbub.http.schema import Schema, schema

_EVERY_MEMBER = schema(Alert)
_ALERT: Schema = {
    **_EVERY_MEMBER,
    "required": [name for name in _EVERY_MEMBER["required"] if name not in OWN_MEMBERS],
}


@dataclass(frozen=True, kw_only=True)
class Alerts(TableAnswer):
    table = "alerts"
    columns = (
        *("kind", "query", "attribute", "value", "window.kind", "window.size", "window.start", "window.end"),
        *("share", "low", "high", "before", "probability", "scale", "id"),
    )

    alerts: list[Annotated[dict[str, Any], _ALERT]]

    @property
    def rows(self) -> Sequence[Any]:
        return [decode(orjson.dumps(row)) for row in self.alerts]

    @classmethod
    def of(cls, store: Store, parameters: Parameters, name: str) -> Self:
        del name
        query = parameters.text("query")
        attribute = parameters.text("attribute")
        if query is not None and query not in store.names:
            raise lookup.unknown(store, query)

        # A filter that the request lacks lets all alerts pass.
        kind = parameters.choice("kind")
        choices = {"query": query, "attribute": attribute, "kind": kind}
        filters = {key: text for key, text in choices.items() if text is not None}
        matches = (
            alert for alert in store.alerts() if all(getattr(alert, key) == text for key, text in filters.items())
        )
        return cls(alerts=[members(alert) for alert in islice(matches, parameters.whole("limit"))])
