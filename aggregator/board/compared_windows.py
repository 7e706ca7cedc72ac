"""The answer about the differences between two windows of a query."""

from dataclasses import dataclass, fields
from typing import Annotated, Self

from aggregator.board import lookup
from aggregator.board.answers import TableAnswer, Unit
from aggregator.board.parameters import MOST, Parameters
from aggregator.board.reply import bad
from aggregator.board.rows import Withheld
from aggregator.board.store import Store
from aggregator.board.view import View
from aggregator.publishing.records.differences import DifferenceRow, differences
from aggregator.publishing.records.rows import WindowRow
from hubbub.http.schema import Attribute, Count, Digest


@dataclass(frozen=True, kw_only=True, slots=True)
class ComparedWindow:
    """One of the two windows."""

    window: WindowRow
    n: Count
    withheld: Withheld

    @classmethod
    def of(cls, view: View) -> Self:
        return cls(window=WindowRow.of(view.record.span), n=view.part.n, withheld=view.part.withheld)


@dataclass(frozen=True, kw_only=True)
class ComparedWindows(TableAnswer):
    """Two windows of one attribute, and the values by the size of their change."""

    table = "values"
    columns = tuple(field.name for field in fields(DifferenceRow))

    query: str
    digest: Digest
    attribute: Attribute
    before: ComparedWindow
    after: ComparedWindow
    overlap: Annotated[bool, {"description": "Whether the windows share panes. Then the errors are larger than needed"}]
    family_error: float
    level: Annotated[float, {"description": "Level of the intervals: above 0.95 in a list of the largest differences"}]
    common: Annotated[int, {"minimum": 0, "description": "Values that both records publish"}]
    proofs: Annotated[int, {"minimum": 0, "description": "Values of which a change is proved, listed or not"}]
    missing: Annotated[list[str], {"description": "Requested values that neither record publishes"}]
    unit: Unit
    values: list[DifferenceRow]

    @classmethod
    def of(cls, store: Store, parameters: Parameters, name: str) -> Self:
        series, windows = lookup.windows(store, parameters, name)
        definition, names = lookup.definition(store.definition(series), parameters), parameters.values()
        top = parameters.whole("top", MOST if names else None)
        family_error = parameters.above("family_error", definition.query.family_error)
        ends = [parameters.number(key) for key in ("from", "to")]
        if None in ends:
            raise bad("name the ends of two windows: `from` and `to`", parameter="from")
        before, after = (lookup.view_at(windows, definition, end or 0) for end in ends)
        if before.record.span == after.record.span:
            raise bad("`from` and `to` are the same window; name two", parameter="from")
        if definition.has_numbers:
            for each in names or []:
                lookup.check_answer(definition, each)
        else:
            after.positions(names or [])
        result = differences(before.part, after.part, definition.domain.size, family_error, names, top)
        rows = {row.value for row in result.rows}
        (_, start, end), (_, other_start, other_end) = before.record.span, after.record.span
        return cls(
            query=after.record.query,
            digest=after.record.digest,
            attribute=definition.name,
            before=ComparedWindow.of(before),
            after=ComparedWindow.of(after),
            overlap=max(start, other_start) < min(end, other_end),
            family_error=family_error,
            level=result.level,
            common=result.common,
            proofs=result.proofs,
            missing=[name for name in names or [] if name not in rows],
            unit=definition.domain.unit,
            values=result.rows,
        )
