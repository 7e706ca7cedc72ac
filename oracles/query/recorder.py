"""The recorder of a query: notes that a device keeps for a period, and the one answer that it gives about them."""

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from oracles.query.domain import Domain
from oracles.query.draft import Draft
from oracles.query.settings import Place, choice, shown, table, whole

DAY = 86_400
MOST = (1 << 53) - 1
"""Largest whole number that JavaScript holds exactly. No edge and no sum is larger."""
VALUES_KEPT = ("last", "step")
"""What recorders keep as a value of the domain."""
KEEPS = ("count", "max", "last", "step", "days", "since", "age")
NEEDS_EMPTY = ("max", "last", "step", "since")
"""Recorders that have no number for a period without a note."""
MOST_DAYS = 31
_KEEP = choice(*KEEPS)
_KEYS = ("keep", "edges", "empty")
_EDGE = whole(f"a whole number from 0 to {MOST}", 0, MOST)


@dataclass(frozen=True)
class Recorder:
    """The notes that a device keeps, and the value that they become."""

    keep: str
    edges: tuple[int, ...] | None
    """The least number of each named value, or None."""
    empty: str | float | None
    """Value of a period without a note, as a query file has it: a name, an index or a number of a scale."""
    period: int
    """Seconds of the query's period."""

    @property
    def in_file(self) -> dict[str, Any]:
        """The recorder as a query file has it."""
        edges = None if self.edges is None else list(self.edges)
        settings = {"keep": self.keep, "edges": edges, "empty": self.empty}
        return {key: value for key, value in settings.items() if value is not None}

    @property
    def meaning(self) -> dict[str, Any]:
        """The settings that the digest covers. All four are always there."""
        edges = None if self.edges is None else list(self.edges)
        return {"keep": self.keep, "edges": edges, "empty": self.empty, "period": self.period}

    def value_of(self, amount: float, domain: Domain) -> int:
        """Return the position of the value that a number becomes. A number beyond an end counts at that end."""
        if self.edges is not None:
            return max(bisect_right(self.edges, amount) - 1, 0)
        return domain.position_of_amount(amount)

    def empty_position(self, domain: Domain) -> int:
        """Return the position of the answer about a period without a note."""
        return self.value_of(0, domain) if self.empty is None else domain.position(self.empty)


def recorder_keys(meaning: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the key `recorder` of a query file for the recorder of a listing, or no key."""
    if meaning is None:
        return {}
    return {"recorder": {key: meaning[key] for key in _KEYS if meaning[key] is not None}}


def read_recorder(draft: Draft) -> Recorder | None:
    """Return the recorder of a query, or None."""
    if "recorder" not in draft:
        return None

    place = draft.at("recorder")
    if not isinstance(draft.table["recorder"], dict):
        example = '{ keep = "count", edges = [0, 1, 2, 5] }'
        raise place.error(f"must be a table such as {example}, got {shown(draft.table['recorder'])}")
    keys = table(draft.table["recorder"], place, _KEYS)
    if "keep" not in keys:
        raise (place / "keep").error(f'is missing; it must be {_KEEP.valid}, such as keep = "count"')
    keep = _KEEP(keys["keep"], place / "keep")

    _check_query(draft, keep)
    domain = draft["domain"]
    edges = _edges(keys, keep, domain, place / "edges")
    empty = _empty(keys, keep, domain, place / "empty")
    return Recorder(keep, edges, empty, draft["period"])


def _check_query(draft: Draft, keep: str) -> None:
    """Refuse queries that can have no recorder, or not this one."""
    if draft["attributes"]:
        raise draft.error(
            "recorder", 'must be absent with attributes; give the query one answer: domain = ["no", "yes"]'
        )
    if "period" not in draft:
        raise draft.error("period", 'is missing; a recorder needs a period of at least 1s, such as period = "1d"')
    if draft["domain"].other and keep != "last":
        raise draft.error(
            "other", f'must be false with keep = "{keep}", because every number and step is a value: other = false'
        )
    period = draft["period"]
    if keep == "days" and (period % DAY or not DAY <= period <= MOST_DAYS * DAY):
        raise draft.error(
            "period", f'must be 1 to {MOST_DAYS} whole days with keep = "days", such as "7d", got {period}s'
        )


def _edges(keys: Mapping[str, Any], keep: str, domain: Domain, place: Place) -> tuple[int, ...] | None:
    """Return the edges of named values. Other domains, and recorders of values, have none."""
    if keep in VALUES_KEPT:
        if "edges" in keys:
            example = f'{{ keep = "{keep}", empty = ... }}'
            raise place.error(f'must be absent with keep = "{keep}", whose notes are values, not numbers: {example}')
        return None
    if domain.values is None:
        if "edges" in keys:
            raise place.error(
                f'must be absent unless the values have names, such as domain = ["none", "some"]: keep = "{keep}" alone'
            )
        return None

    count = domain.named
    example = f"such as edges = {list(range(count))}" if count <= 8 else "such as edges = [0, 1, 2, ...]"
    valid = f"{count} rising whole numbers from 0 to {MOST}, one for each value, the first 0, {example}"
    if "edges" not in keys:
        raise place.error(f"is missing; it must be {valid}")
    edges = keys["edges"]
    if not isinstance(edges, list) or len(edges) != count or not all(map(_EDGE.holds, edges)):
        raise place.error(f"must be {valid}, got {shown(edges)}")
    if edges[0] != 0 or any(low >= high for low, high in pairwise(edges)):
        raise place.error(f"must be {valid}, got {shown(edges)}")
    return tuple(edges)


def _empty(keys: Mapping[str, Any], keep: str, domain: Domain, place: Place) -> str | float | None:
    """Return the value of a period without a note, in its one form, which the digest covers."""
    if keep not in NEEDS_EMPTY:
        if "empty" in keys:
            raise place.error(
                f'must be absent with keep = "{keep}", for which a period without a note is the number 0: remove it'
            )
        return None

    valid = domain.valid_value
    if "empty" not in keys:
        raise place.error(f"is missing; it is the answer about a period without a note, and must be {valid}")
    empty = domain.written(keys["empty"])
    if empty is None:
        raise place.error(f"must be {valid}, got {shown(keys['empty'])}")
    return empty
