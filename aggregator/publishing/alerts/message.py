"""The message of an alert: a change between the finals of one kind of window. It is written and read here."""

from dataclasses import dataclass
from hashlib import sha256
from typing import Annotated, Any, Literal, Self

import orjson

from aggregator.publishing.records.rows import WindowRow
from hubbub.http.schema import Attribute, Chance, Digest, Known, Name, read
from oracles.errors import ReportError

AlertKind = Literal["enter", "leave", "surge"]
_LONGEST = 64 << 10
"""Most bytes of an alert."""
_DEFAULTS = {"threshold": None, "baseline": False}
"""The fields that older alerts do not have."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Alert:
    """A change between the finals of one kind of window."""

    version: Literal[1] = 1
    id: Annotated[str, {"pattern": "^[0-9a-f]{32}$"}]
    kind: AlertKind
    query: Name
    digest: Digest
    attribute: Attribute
    value: str
    window: WindowRow
    share: float
    low: Chance
    high: Chance
    threshold: Known
    """The threshold at the value's entry. A leave is tested against it. Without an entry, the window's threshold."""
    baseline: bool
    """Whether the alert is of the first window that showed values, so that the value was above before."""
    before: Known
    probability: Chance

    @classmethod
    def of(cls, **fields: Any) -> Self:
        """Return an alert with these fields. Its id is a hash of them, so a repeated alert has the same id."""
        window = fields["window"]
        content = {**fields, "window": {name: getattr(window, name) for name in WindowRow.__slots__}}
        return cls(id=sha256(orjson.dumps(content, option=orjson.OPT_SORT_KEYS)).hexdigest()[:32], **fields)

    @property
    def key(self) -> bytes:
        """The key of the message. After a restart, a repeated alert has the same key."""
        window = self.window
        about = (self.query, self.digest, self.attribute or "", window.kind, window.size, window.step, window.end)
        return "|".join(map(str, (*about, self.kind, self.value))).encode()

    @property
    def order(self) -> tuple[int, int, str, str, str]:
        """The sort key: the newest windows first, then the shortest."""
        return -self.window.end, self.window.size, self.kind, self.attribute or "", self.value


def encode(alert: Alert) -> bytes:
    return orjson.dumps(alert)


def decode(value: bytes) -> Alert:
    """Return the alert in these bytes. Raise a ReportError or ValueError if they hold none."""
    if len(value) > _LONGEST:
        raise ReportError(f"the alert has {len(value)} bytes, but may have at most {_LONGEST}")
    fields = orjson.loads(value)
    return read(Alert, {**_DEFAULTS, **fields} if isinstance(fields, dict) else fields)
