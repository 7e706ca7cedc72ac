"""An alert: what is published of a change between the finals of one kind of window, written and read here."""

from dataclasses import asdict, dataclass
from hashlib import sha256
from typing import Annotated, Any, Literal, Self

import orjson

from aggregator.publishing.schema import Attribute, Chance, Digest, Known, Name, read
from aggregator.publishing.window import WindowRow
from oracles.errors import ReportError

AlertKind = Literal["enter", "leave", "surge"]
_LONGEST = 64 << 10
_ADDED = {"threshold": None, "baseline": False}
"""Of an alert that was written before it said them."""


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
    """The one by which the value entered, which a leave is tested against; of a surge without it, the window's."""
    baseline: bool
    """In the first window that showed values: it was there before."""
    before: Known
    probability: Chance

    @classmethod
    def of(cls, **said: Any) -> Self:
        """An alert that says this; its id follows from it, so that one that is told again is known."""
        unnamed = asdict(cls(id="", **said))
        del unnamed["version"], unnamed["id"]
        return cls(id=sha256(orjson.dumps(unnamed, option=orjson.OPT_SORT_KEYS)).hexdigest()[:32], **said)

    @property
    def key(self) -> bytes:
        """The key of the message: an alert that is told again, after a restart, has the key that it had."""
        window = self.window
        about = (self.query, self.digest, self.attribute or "", window.kind, window.size, window.step, window.end)
        return "|".join(map(str, (*about, self.kind, self.value))).encode()

    @property
    def order(self) -> tuple[int, int, str, str, str]:
        """The newest windows first; of those that end together, the shortest."""
        return -self.window.end, self.window.size, self.kind, self.attribute or "", self.value


def encode(alert: Alert) -> bytes:
    return orjson.dumps(alert)


def decode(value: bytes) -> Alert:
    """The alert in these bytes; a ReportError or ValueError where it is none."""
    if len(value) > _LONGEST:
        raise ReportError(f"an alert of {len(value)} bytes, where {_LONGEST} are the most")
    said = orjson.loads(value)
    return read(Alert, {**_ADDED, **said} if isinstance(said, dict) else said)
