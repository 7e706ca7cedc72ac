"""The value classes of the API's answers, each built from the store. Pure."""

from dataclasses import dataclass
from typing import Annotated, Any, Self

from aggregator.board.answers import lookup, rows
from aggregator.board.answers.absence import MissingReasons
from aggregator.board.answers.guarantees import Central, CentralRow, ReadableBelow, readable
from aggregator.board.answers.kinds import kind_of
from aggregator.board.answers.kinds.names import SearchRow
from aggregator.board.answers.parameters import Parameters
from aggregator.board.answers.reply import bad
from aggregator.board.answers.rows import (
    ErrorRow,
    GroupName,
    ListedHitterRow,
    NeededPeople,
    NothingProved,
    NothingText,
    SetRow,
    Through,
    ValueRow,
    WeightRow,
    Withheld,
)
from aggregator.board.answers.table_answer import TableAnswer
from aggregator.board.answers.view import View
from aggregator.board.store.store import Store
from aggregator.records.rows import RefusedRow, ThresholdRow, WindowRow
from aggregator.records.subject import subjects
from hubbub.http.schema import Attribute, Count, Digest, Known
from oracles.consistency import UNBIASED
from oracles.estimate.intervals import LEVEL
from oracles.query.domain import VALUES

__all__ = [
    "HeavyHitters",
    "Level",
    "SetShares",
    "TableAnswer",
    "ThresholdShare",
    "Unit",
    "WindowAnswer",
    "WindowEstimate",
    "heading",
]

Unit = Annotated[str | None, {"description": "Unit of numbers, as in the query file; null for values"}]
Level = Annotated[float, {"description": "The level of the intervals: above 0.95 in a list of the largest"}]
_ABSENT: dict[str, Any] = {
    "threshold": None,
    "missing": [],
    "missing_reasons": {},
    "level": LEVEL,
    "numbers": None,
    "truths": None,
    "discover": None,
    "error": None,
    "nothing_proved": None,
    "people_for_10_percent": None,
    "nothing_text": None,
}
"""The members of an estimate that a kind of answer may lack."""


@dataclass(frozen=True, kw_only=True)
class WindowAnswer(TableAnswer):
    """An answer about one attribute of one window."""

    query: str
    digest: Digest
    attribute: Attribute
    group: GroupName
    window: WindowRow
    final: bool
    through: Through
    n: Count
    n_independent: Count
    method: str
    withheld_since: Annotated[
        int | None, {"description": "End of the first withheld window after this one, or in a row with this one"}
    ]
    withheld_reason: Withheld


@dataclass(frozen=True, kw_only=True)
class WindowEstimate(WindowAnswer):
    table = "values"
    columns = (
        *("value", "share", "unbiased", "stderr", "low", "high", "listed", "decided", "present", "truth"),
        *("by_weight", "by_weight_low", "by_weight_high"),
    )

    methods: list[str]
    oracle: dict[str, Any]
    sigma: Known
    detectable: Known
    shift_per_fake: Known
    central: Central
    readable_below: ReadableBelow
    threshold: Annotated[float | None, {"description": "The share above which a value is listed"}]
    size: Annotated[int | None, {"minimum": 1, "description": "Values of the domain; null if nobody lists them"}]
    published: Annotated[int, {"minimum": 0, "description": "Values in the record"}]
    missing: Annotated[list[str], {"description": "Requested values that the record does not publish"}]
    missing_reasons: MissingReasons
    level: Level
    by_weight: Annotated[
        WeightRow | None, {"description": "A total with known shares of the groups; null if the query has no weights"}
    ]
    values: Annotated[list[ValueRow], {"description": "Of numbers: the blocks of the histogram, in order"}]
    numbers: Annotated[dict[str, Any] | None, {"description": "The distribution as in the record, without its cdf"}]
    truths: Annotated[
        dict[str, Known] | None,
        {"description": "In a simulation: the true quantiles, means and ranges, by name"},
    ]
    discover: Annotated[SearchRow | None, {"description": "Of unknown strings: what is known about the names"}]
    sets: dict[str, Any]
    refused: RefusedRow
    quality: dict[str, Any]
    nothing_proved: NothingProved
    people_for_10_percent: NeededPeople
    nothing_text: NothingText
    error: Annotated[ErrorRow | None, {"description": "In a simulation: the error of the shares against the truth"}]

    @classmethod
    def of(cls, store: Store, parameters: Parameters, name: str) -> Self:
        series, view = lookup.view(store, parameters, name)
        kind = kind_of(view.definition)
        fields = _ABSENT | kind.answer(series, view, parameters)
        fields |= rows.nothing_of(view, kind.leader)
        return cls(**_about(view, fields.pop("method")), **fields)


@dataclass(frozen=True, kw_only=True)
class SetShares(WindowAnswer):
    table = "sets"
    columns = ("name", "share", "stderr", "truth")

    sets: list[SetRow]

    @classmethod
    def of(cls, store: Store, parameters: Parameters, name: str) -> Self:
        series, view = lookup.kind_view(store, parameters, name, VALUES)
        method = lookup.method(view.part, parameters, consistent=True)
        values = parameters.values()
        set_name = parameters.text("name")
        if (values is None) == (set_name is None):
            raise bad("give either `name`, a set of the query file, or `values`, the members", parameter="values")

        if set_name is not None:
            answer = view.set_answer(set_name)
            share = answer.get("share" if method == UNBIASED else method)
            stderr = answer.get("stderr") if method == UNBIASED else None
            # A later version of the definition may no longer have this set.
            members = dict(subjects(view.definition.query)[view.definition.attribute].sets).get(set_name, ())
        else:
            share, stderr = view.answer(method, values or [])
            members = tuple(dict.fromkeys(view.positions(values or [])))

        true = rows.true_shares(series, view)
        row = SetRow(
            name=set_name,
            values=[view.definition.domain.name(position) for position in members],
            share=share,
            stderr=stderr,
            truth=None if true is None or not members else float(true[list(members)].sum()),
        )
        return cls(**heading(view, method), sets=[row])


@dataclass(frozen=True, kw_only=True, slots=True)
class ThresholdShare(ThresholdRow):
    """A threshold, and the share that it equals in a window."""

    share: Known


@dataclass(frozen=True, kw_only=True)
class HeavyHitters(WindowAnswer):
    table = "hitters"
    columns = ("value", "share", "decided", "p_value", "probability", "low", "high")

    threshold: ThresholdShare
    family_error: float
    level: Level
    hitters: list[ListedHitterRow]

    @classmethod
    def of(cls, store: Store, parameters: Parameters, name: str) -> Self:
        _, view = lookup.kind_view(store, parameters, name, VALUES)
        method = lookup.method(view.part, parameters)
        query = view.definition.query
        threshold = lookup.threshold(parameters, query)
        family_error = parameters.above("family_error", query.family_error)

        if threshold == query.threshold and family_error == query.family_error:
            share = view.threshold
            hitters = view.part.hitters(method)
        else:
            share, hitters = view.hitters(method, threshold, family_error)

        level, listed = rows.listed_hitters(view, hitters[: parameters.whole("top")])
        return cls(
            **heading(view, method),
            threshold=ThresholdShare(kind=threshold.kind, value=threshold.value, share=share),
            family_error=family_error,
            level=level,
            hitters=listed,
        )


def _about(view: View, method: str) -> dict[str, Any]:
    """Return the members of an estimate that all kinds of answers have."""
    members = view.part.rest()
    return {
        **heading(view, method),
        "oracle": members["oracle"],
        "sigma": view.part.sigma,
        "detectable": view.part.detectable,
        "shift_per_fake": view.part.shift_per_fake,
        "central": CentralRow.of(view.part.central, view.definition.query),
        "readable_below": readable(view),
        "by_weight": WeightRow.of(view.part),
        "sets": members["sets"] or {},
        "refused": view.record.refused,
        "quality": members["quality"],
    }


def heading(view: View, method: str) -> dict[str, Any]:
    """Return the fields that identify the window."""
    record = view.record
    return {
        "query": record.query,
        "digest": record.digest,
        "attribute": view.part.attribute,
        "group": lookup.group_name(view.definition.query, record.group),
        "window": WindowRow.of(record.span),
        "final": record.final,
        "through": view.part.through,
        "n": view.part.n,
        "n_independent": view.part.n_independent,
        "method": method,
        "withheld_since": view.withheld_since,
        "withheld_reason": view.withheld_reason,
    }
