"""The members of a record of which the values are withheld."""

from typing import Any, cast

from aggregator.records.field import declarations
from aggregator.records.findings import WithheldFindings
from aggregator.records.record import Record
from aggregator.records.rows import OracleRow, RefusedRow
from aggregator.records.words import WITHHELD
from oracles.consistency import UNBIASED
from oracles.query import Query
from oracles.query.domain import KINDS, VALUES

_ABSENT = {
    name: declaration.missing()
    for name, declaration in declarations(Record).items()
    if VALUES in declaration.kinds and tuple(declaration.kinds) != KINDS and not declaration.is_optional
}
"""The members of values alone, each as a record without it has it."""


def fields(query: Query, findings: WithheldFindings) -> dict[str, Any]:
    """Return the members of a withheld window. They show nothing of its answers."""
    unknown = ("n_independent", "sigma", "significance", "detectable", "shift_per_fake")
    members_of_kinds = ("central", "numbers", "weighted", "discover")
    methods = (UNBIASED, *query.methods)

    # Withheld windows of all kinds have the same members, and their number of reports is 0: a true one would tell
    # how few people answered.
    members: dict[str, Any] = {
        "n": 0,
        **dict.fromkeys((*unknown, *members_of_kinds)),
        "oracle": OracleRow.of(query, findings.oracle),
        "answers": query.answers,
        **{column: [] for column in ("values", "stderr", "low", "high")},
        **{lists: {method: [] for method in methods} for lists in ("shares", "hitters")},
        "sets": {},
        "refused": RefusedRow(duplicate=0, implausible=0),
        "quality": {
            "sum": None,
            "prior_rejected": False,
            "risk": dict.fromkeys(methods),
            "flags": findings.flags,
        },
    }
    return members | {name: value for name, value in _ABSENT.items() if name not in members}


def cells(record: Record) -> dict[str, Any]:
    """Return the cells of a withheld record in a table: none but the reason in words."""
    columns = ("stderr", "low", "high", "level", "proved", "first_rank", "last_rank")
    reason = WITHHELD[cast(str, record.withheld)].short
    return {"value": None, **dict.fromkeys((*record.shares, *columns)), "reason": reason}
