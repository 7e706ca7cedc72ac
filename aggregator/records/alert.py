"""The message of an alert: a change between the finals of one kind of window. It is written and read here."""

from dataclasses import dataclass, fields, replace
from hashlib import sha256
from typing import Annotated, Any, Literal, Self

import orjson

from aggregator.records import documents
from aggregator.records.field import declarations, declared
from aggregator.records.rows import FINAL_WINDOW, Indication, WindowRow
from aggregator.records.span import SCALES
from hubbub.http.schema import Attribute, Chance, Digest, Known, Name, Schema, Time, json_name, read
from oracles.errors import ReportError

AlertKind = Literal["enter", "leave", "surge", "fade", "arms"]
MEANINGS: dict[AlertKind, str] = {
    "enter": "the value is proved to exceed the threshold, and was not before",
    "leave": "a value that entered is proved to be below the threshold at which it entered",
    "surge": "the value's share has risen",
    "fade": "the value's share has fallen",
    "arms": "the value is proved to differ between two [groups](#alerts-of-groups), for the first time",
}
"""When an alert of each kind is written, as docs/records.md says it."""
COMPARISONS: tuple[AlertKind, ...] = ("surge", "fade")
"""The kinds that compare two stretches. Others have null in `scale`, `from` and `to`."""
ARMS: AlertKind = "arms"
"""The kind that compares two groups."""
OWN_MEMBERS = ("group", "with", "difference", "p_value")
"""The members that only an alert of two groups has. All others keep their bytes."""
OLDEST = 1
"""The oldest version of alerts that can be read."""
_LONGEST = 64 << 10
"""Most bytes of an alert."""


@dataclass(frozen=True, slots=True)
class StretchRow:
    """A stretch of time: [start, end)."""

    start: Time
    end: Time


_STRETCH: Schema = {
    **documents.written(StretchRow, {"start": {"type": "integer"}, "end": {"type": "integer"}}),
    "type": ["object", "null"],
}
_NUMBER: Schema = {"type": "number"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Alert:
    """A change between the finals of one kind of window."""

    version: Literal[1, 2] = declared(document={"const": 2}, default=2)
    id: Annotated[str, {"pattern": "^[0-9a-f]{32}$"}] = declared()
    kind: AlertKind = declared()
    query: Name = declared(document=documents.NAME)
    digest: Digest = declared()
    attribute: Attribute = declared(
        "null if a client gives one answer. A pair has both names, as in `version*crash`", document=documents.ATTRIBUTE
    )
    value: str = declared("the value, or the name of a range or quantile of numbers, for example `p95`")
    window: WindowRow = declared("[start, end) in Unix seconds. Size and step are 0 for `all`", document=FINAL_WINDOW)
    share: float = declared(
        "the share of the value or range. It is unbiased, so it may lie outside of 0 to 1. Of a quantile it is the "
        "number, in `unit`, as are `low`, `high`, `before` and `threshold`"
    )
    low: Known = declared(document=_NUMBER)
    high: Known = declared(document=_NUMBER)
    threshold: Known = declared(
        "the threshold at the value's entry, against which a leave is tested. Without an entry it is the window's "
        "threshold. Null without a threshold",
        since=2,
        document=documents.NUMBER,
    )
    by: Annotated[str | None, {"enum": ["significance", "share", "count", "limit", None]}] = declared(
        "the kind of the threshold. Null for numbers without a limit",
        since=2,
        document={"enum": ["significance", "share", "count", "limit", None]},
    )
    baseline: bool = declared(
        "whether the alert is of the first window that showed values, so that the value was above before",
        since=2,
        missing=lambda: False,
    )
    before: Known = declared(
        "the share in an earlier stretch that does not overlap. Null if there is none", document=documents.NUMBER
    )
    probability: Indication = declared()
    scale: Annotated[int | None, {"minimum": 1, "description": "Windows of a surge or fade, else null"}] = declared(
        since=2, document={"enum": [*SCALES, None]}
    )
    from_: StretchRow | None = declared(
        "the stretch with the share `before`, of a surge or fade", since=2, document=_STRETCH
    )
    to: StretchRow | None = declared(
        "the stretch with the share `share`, of a surge or fade", since=2, document=_STRETCH
    )
    quantile: Chance = declared(
        "the share of the numbers below a quantile. Null in an alert of anything else",
        since=2,
        document={**documents.NUMBER, "exclusiveMinimum": 0, "exclusiveMaximum": 1},
        default=None,
    )
    unit: str | None = declared("the unit of a quantile", since=2, default=None)
    group: str | None = declared(
        "the first of two groups, with the share `before`. It and the next three are only in alerts of kind `arms`",
        since=2,
        is_optional=True,
        document={"type": "string"},
        default=None,
    )
    with_: str | None = declared(
        "the second group, with the share `share`", since=2, is_optional=True, document={"type": "string"}, default=None
    )
    difference: Known = declared(
        "the second share minus the first one. `low` and `high` are its 95% interval, which holds at every look",
        since=2,
        is_optional=True,
        document=_NUMBER,
        default=None,
    )
    p_value: Chance = declared(
        "a bound of the probability that two equal groups ever differ as much",
        since=2,
        is_optional=True,
        document={**_NUMBER, "minimum": 0, "maximum": 1},
        default=None,
    )

    @classmethod
    def of(cls, **values: Any) -> Self:
        """Return an alert with these fields. Its id is a hash of them, so a repeated alert has the same id."""
        alert = cls(id="", **values)
        # Sorted keys, or a field that moves would give a repeated alert another id.
        return replace(alert, id=sha256(orjson.dumps(members(alert), option=orjson.OPT_SORT_KEYS)).hexdigest()[:32])

    @property
    def key(self) -> bytes:
        """The key of the message. After a restart, a repeated alert has the same key."""
        window = self.window
        parts = [self.query, self.digest, self.attribute or "", window.kind, window.size, window.step, window.end]
        # Only surges and fades have a scale. No empty part may follow, because the keys of others must stay the same.
        parts += [self.kind, self.value, self.scale, self.group, self.with_]
        return "|".join(str(part) for part in parts if part is not None).encode()

    @property
    def is_name(self) -> bool:
        """Whether the alert is of a name that a search has found. Nobody listed it, so it has no threshold."""
        return self.kind == "enter" and self.by is not None and self.threshold is None

    @property
    def order(self) -> tuple[int, int, str, str, str]:
        """The sort key: the newest windows first, then the shortest."""
        return -self.window.end, self.window.size, self.kind, self.attribute or "", self.value


_MISSING = {name: field.missing() for name, field in declarations(Alert).items() if field.since > OLDEST}
"""The values of the fields that older alerts do not have."""


def members(alert: Alert) -> dict[str, Any]:
    """Return the members of an alert by their names in JSON."""
    all_members = {json_name(part.name): getattr(alert, part.name) for part in fields(alert)}
    if alert.kind == ARMS:
        return all_members
    return {name: value for name, value in all_members.items() if name not in OWN_MEMBERS}


def encode(alert: Alert) -> bytes:
    return orjson.dumps(members(alert))


def decode(value: bytes) -> Alert:
    """Return the alert in these bytes. Raise a ReportError or ValueError if they hold none."""
    # Anybody may write to the topic, and a reader would parse whatever comes.
    if len(value) > _LONGEST:
        raise ReportError(f"the alert has {len(value)} bytes, but may have at most {_LONGEST}")
    data = orjson.loads(value)
    return read(Alert, {**_MISSING, **data} if isinstance(data, dict) else data)
