"""Records and alerts as a terminal shows them, read from what stands in the topics. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from aggregator.reading.tail.notation import clock, digits, label, percent, plain
from oracles.query.settings import Window

VALUES = 200
"""Values of a record that are kept."""
NAME = 64
"""Characters of the name of a query or attribute."""
_UNBIASED = "unbiased"
_LATEST = 1 << 40
"""No window ends after this."""
_SAID = {"enter": "has become frequent:", "leave": "is frequent no more:", "surge": "has risen to"}
_TOGETHER = {"enter": "have become frequent", "leave": "are frequent no more", "surge": "have risen"}
_FAULTS = (AttributeError, KeyError, TypeError, ValueError)

Message = Mapping[str, Any]
"""A record or an alert."""


class Unreadable(ValueError):
    """Not a record, or not an alert."""


@dataclass(frozen=True)
class Row:
    """One value of a window."""

    value: str
    """As it is: it is `name` that is fit to be shown."""
    share: float
    """Unbiased, as its 95% interval is."""
    low: float
    high: float
    consistent: float | None = None
    """By the query's first method."""
    frequent: bool = False
    proved: bool = False

    @property
    def name(self) -> str:
        return plain(self.value)

    @property
    def digits(self) -> int:
        return digits((self.high - self.low) / 2.0)

    @property
    def interval(self) -> str:
        return f"{percent(self.low, self.digits)} to {percent(self.high, self.digits)}"

    def __str__(self) -> str:
        return f"{percent(self.share, self.digits)} ({self.interval})"


@dataclass(frozen=True)
class Subject:
    """What a record or an alert is about."""

    query: str
    digest: str
    attribute: str | None
    window: Window
    end: int

    def __str__(self) -> str:
        name = self.query if self.attribute is None else f"{self.query}, {self.attribute}"
        return f"{name} {label(self.window)}"


@dataclass(frozen=True)
class Sheet:
    """One window of a query, or of one of its attributes."""

    subject: Subject
    final: bool
    n: int
    sigma: float | None
    detectable: float | None
    method: str | None
    """Whose shares are the consistent ones."""
    rows: tuple[Row, ...]
    """The most frequent values, in the record's order."""
    frequent: int
    proved: int
    flags: tuple[str, ...]

    @property
    def quality(self) -> str:
        """How many values are frequent, and how sure all of it is."""
        said = [f"{self.frequent} frequent ({self.proved} proved)"]
        if self.sigma is not None:
            said.append(f"standard error {percent(self.sigma, digits(self.sigma))}")
            if self.detectable is not None:
                said.append(f"detectable from {percent(self.detectable, digits(self.sigma))}")
        return ", ".join([*said, *self.flags])

    def line(self, top: int) -> str:
        rows = ", ".join(f"{row.name} {row}" for row in self.rows[:top])
        kind = "" if self.final else "provisional, "
        return f"{clock(self.subject.end)} {self.subject}: {kind}{self.n:,} reports, {self.quality}: {rows}"


@dataclass(frozen=True)
class Alert:
    """What has changed."""

    id: str
    kind: str
    subject: Subject
    row: Row
    before: float | None

    def __str__(self) -> str:
        before = "" if self.before is None else f", before {percent(self.before, self.row.digits)}"
        return f"{self.row.name} {_SAID[self.kind]} {self.row}{before}"


def told(alerts: Iterable[Alert], top: int) -> Iterator[tuple[str, str]]:
    """A line for the alerts of one kind and window, with the kind; it names the first `top` values."""
    groups: dict[tuple[Subject, str], list[Alert]] = {}
    for alert in alerts:
        groups.setdefault((alert.subject, alert.kind), []).append(alert)
    for (subject, kind), together in groups.items():
        found = sorted(together, key=lambda alert: -alert.row.share)
        said = str(found[0])
        if len(found) > 1:
            values = ", ".join(f"{alert.row.name} {alert.row}" for alert in found[:top])
            said = f"{len(found)} values {_TOGETHER[kind]}: {values}{', ...' * (len(found) > top)}"
        yield kind, f"{clock(subject.end)} {subject}: ALERT {kind}: {said}"


def read_record(record: Message) -> list[Sheet]:
    """A sheet for each attribute of a record, or for the one answer."""
    try:
        return [_sheet(record, part) for part in record.get("attributes") or [record]]
    except _FAULTS as error:
        raise Unreadable(f"not a record: {error!r}") from error


def _sheet(record: Message, part: Message) -> Sheet:
    method = next((name for name in part["shares"] if name != _UNBIASED), None)
    hitters = {hitter["value"]: bool(hitter["decided"]) for hitter in part["hitters"].get(method or _UNBIASED, [])}
    return Sheet(
        subject=_subject(record, part.get("name")),
        final=bool(record["final"]),
        n=int(part["n"]),
        sigma=_number(part["sigma"]),
        detectable=_number(part["detectable"]),
        method=method and plain(method),
        rows=tuple(_rows(part, method, hitters)),
        frequent=len(hitters),
        proved=sum(hitters.values()),
        flags=tuple(map(plain, part["quality"]["flags"])),
    )


def _rows(part: Message, method: str | None, hitters: Mapping[str, bool]) -> Iterator[Row]:
    shares = part["shares"]
    columns = (part["values"], shares[_UNBIASED], part["low"], part["high"], shares[method or _UNBIASED])
    for value, share, low, high, consistent in list(zip(*columns, strict=True))[:VALUES]:
        if share is not None:  # there are reports
            by_method = _number(consistent) if method else None
            numbers = float(share), float(low), float(high)
            yield Row(str(value), *numbers, by_method, value in hitters, hitters.get(value, False))


def read_alert(alert: Message) -> Alert:
    try:
        _SAID[alert["kind"]]
        return Alert(
            id=str(alert["id"]),
            kind=alert["kind"],
            subject=_subject(alert, alert["attribute"]),
            row=Row(str(alert["value"]), float(alert["share"]), float(alert["low"]), float(alert["high"])),
            before=_number(alert["before"]),
        )
    except _FAULTS as error:
        raise Unreadable(f"not an alert: {error!r}") from error


def _subject(message: Message, attribute: str | None) -> Subject:
    window, end = message["window"], int(message["window"]["end"])
    if window["kind"] not in ("tumbling", "hopping", "all") or not 0 <= end <= _LATEST:
        raise ValueError(window)
    return Subject(
        query=plain(message["query"], NAME),
        digest=str(message["digest"]),
        attribute=None if attribute is None else plain(attribute, NAME),
        window=Window(window["kind"], int(window["size"]), int(window["step"])),
        end=end,
    )


def _number(value: Any) -> float | None:
    return None if value is None else float(value)
