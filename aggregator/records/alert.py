"""The message of an alert: a change between the finals of one kind of window. It is written and read here."""

from dataclasses import dataclass, fields, replace
from hashlib import sha256
from typing import Annotated, Any, Literal, Self

import orjson

from aggregator.records.rows import Indication, WindowRow
from hubbub.http.schema import Attribute, Chance, Digest, Known, Name, Time, json_name, read
from oracles.errors import ReportError

AlertKind = Literal["enter", "leave", "surge", "fade"]
_LONGEST = 64 << 10
"""Most bytes of an alert."""
_DEFAULTS = {
    "threshold": None,
    "baseline": False,
    **dict.fromkeys(("by", "scale", "from", "to", "quantile", "unit")),
}
"""The fields that older alerts do not have."""


@dataclass(frozen=True, slots=True)
class StretchRow:
    """A stretch of time: [start, end)."""

    start: Time
    end: Time


@dataclass(frozen=True, kw_only=True, slots=True)
class Alert:
    """A change between the finals of one kind of window."""

    version: Literal[1, 2] = 2
    id: Annotated[str, {"pattern": "^[0-9a-f]{32}$"}]
    kind: AlertKind
    query: Name
    digest: Digest
    attribute: Attribute
    value: str
    """The value, or the name of a range or quantile of numbers, for example `p95`."""
    window: WindowRow
    share: float
    """The share of the value or range. Of a quantile it is the number, in `unit`, as are low, high and before."""
    low: Known
    high: Known
    threshold: Known
    """The threshold at the value's entry. A leave is tested against it. Without an entry, the window's threshold."""
    by: Annotated[str | None, {"enum": ["significance", "share", "count", "limit", None]}]
    """The kind of the threshold, or None in an older alert and for numbers without a limit."""
    baseline: bool
    """Whether the alert is of the first window that showed values, so that the value was above before."""
    before: Known
    probability: Indication
    scale: Annotated[int | None, {"minimum": 1, "description": "Windows of a surge or fade, else null"}]
    from_: StretchRow | None
    """The stretch with the share `before`, of a surge or fade."""
    to: StretchRow | None
    """The stretch with the share `share`, of a surge or fade."""
    quantile: Chance = None
    """The share of numbers below a quantile, or None if the alert is of something else."""
    unit: str | None = None
    """The unit of a quantile."""

    @classmethod
    def of(cls, **values: Any) -> Self:
        """Return an alert with these fields. Its id is a hash of them, so a repeated alert has the same id."""
        alert = cls(id="", **values)
        return replace(alert, id=sha256(orjson.dumps(members(alert), option=orjson.OPT_SORT_KEYS)).hexdigest()[:32])

    @property
    def key(self) -> bytes:
        """The key of the message. After a restart, a repeated alert has the same key."""
        window = self.window
        about = (self.query, self.digest, self.attribute or "", window.kind, window.size, window.step, window.end)
        scale = () if self.scale is None else (self.scale,)
        return "|".join(map(str, (*about, self.kind, self.value, *scale))).encode()

    @property
    def is_name(self) -> bool:
        """Whether the alert is of a name that a search has found. Nobody listed it, so it has no threshold."""
        return self.kind == "enter" and self.by is not None and self.threshold is None

    @property
    def order(self) -> tuple[int, int, str, str, str]:
        """The sort key: the newest windows first, then the shortest."""
        return -self.window.end, self.window.size, self.kind, self.attribute or "", self.value


def members(alert: Alert) -> dict[str, Any]:
    """Return the members of an alert by their names in JSON."""
    return {json_name(each.name): getattr(alert, each.name) for each in fields(alert)}


def encode(alert: Alert) -> bytes:
    return orjson.dumps(members(alert))


def decode(value: bytes) -> Alert:
    """Return the alert in these bytes. Raise a ReportError or ValueError if they hold none."""
    if len(value) > _LONGEST:
        raise ReportError(f"the alert has {len(value)} bytes, but may have at most {_LONGEST}")
    data = orjson.loads(value)
    return read(Alert, {**_DEFAULTS, **data} if isinstance(data, dict) else data)
