"""The answer about the differences between two windows of a query, or between two of its groups in one window."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Annotated, Self, cast

from aggregator.board.answers import lookup
from aggregator.board.answers.absence import MissingReasons, missing_reasons
from aggregator.board.answers.kinds import kind_of
from aggregator.board.answers.parameters import FIRST, LATEST, MOST, Parameters
from aggregator.board.answers.reply import bad, missing
from aggregator.board.answers.rows import GroupName, Withheld
from aggregator.board.answers.view import View
from aggregator.board.answers.window_answers import TableAnswer, Unit
from aggregator.board.store.store import Store, Windows
from aggregator.records.differences import DifferenceRow
from aggregator.records.kinds import kind_of as kind_of_record
from aggregator.records.look_choice import looks_of
from aggregator.records.rows import WindowRow
from aggregator.records.span import Span
from hubbub.http.schema import Attribute, Count, Digest
from oracles.errors import ParameterError
from oracles.estimate.looks import Looks, Name
from oracles.query.domain import NUMBERS, VALUES


@dataclass(frozen=True, kw_only=True, slots=True)
class ComparedWindow:
    """One of the two windows, or one of the two groups of a window."""

    window: WindowRow
    group: GroupName
    n: Count
    withheld: Withheld

    @classmethod
    def of(cls, view: View) -> Self:
        return cls(
            window=WindowRow.of(view.record.span),
            group=lookup.group_name(view.definition.query, view.record.group),
            n=view.part.n,
            withheld=view.part.withheld,
        )


@dataclass(frozen=True, kw_only=True)
class DifferenceAnswer(TableAnswer):
    """Two windows or groups of one attribute, and the values by the size of their difference."""

    table = "values"
    columns = tuple(field.name for field in fields(DifferenceRow))

    query: str
    digest: Digest
    attribute: Attribute
    before: ComparedWindow
    after: ComparedWindow
    overlap: Annotated[bool, {"description": "Whether the windows share panes. Then the errors are larger than needed"}]
    family_error: float
    looks: Annotated[Name, {"description": "How often the comparison may be read before a proof is false too often"}]
    width: Annotated[float | None, {"description": "Width of the intervals over those of one look; null without rows"}]
    level: Annotated[float, {"description": "Level of the intervals: above 0.95 in a list of the largest differences"}]
    common: Annotated[int, {"minimum": 0, "description": "Values that both records publish"}]
    proofs: Annotated[int, {"minimum": 0, "description": "Values of which a difference is proved, listed or not"}]
    missing: Annotated[list[str], {"description": "Requested values that neither record publishes"}]
    missing_reasons: MissingReasons
    unit: Unit
    values: list[DifferenceRow]

    @classmethod
    def of(cls, store: Store, parameters: Parameters, name: str) -> Self:
        requested_names = parameters.values()
        # Whoever names values wants all of them. The usual number of rows is for a list of the largest.
        top = parameters.whole("top", MOST if requested_names else None)
        requested_error = parameters.above("family_error", 0.0)

        are_groups = parameters.text("with") is not None
        find_views = _groups if are_groups else _windows
        before, after = find_views(store, parameters, name)
        definition = after.definition
        lookup.check_kind(definition, VALUES, NUMBERS)

        family_error = requested_error or definition.query.family_error
        names = kind_of(definition).compare(after, requested_names)
        looks = _looks(after, parameters, are_groups=are_groups)
        result = kind_of_record(after.part).differences(
            before.part,
            after.part,
            size=definition.domain.size,
            family_error=family_error,
            names=names,
            top=top,
            apart=are_groups,
            looks=looks,
        )

        result_names = {row.value for row in result.rows}
        absent_names = [name for name in names or [] if name not in result_names]
        return cls(
            query=after.record.query,
            digest=after.record.digest,
            attribute=definition.name,
            before=ComparedWindow.of(before),
            after=ComparedWindow.of(after),
            overlap=not are_groups and _overlap(before.record.span, after.record.span),
            family_error=family_error,
            looks=looks.name,
            width=result.width,
            level=result.level,
            common=result.common,
            proofs=result.proofs,
            missing=absent_names,
            missing_reasons=missing_reasons(absent_names, before.part, after.part),
            unit=definition.domain.unit,
            values=result.rows,
        )


def _overlap(span: Span, later_span: Span) -> bool:
    """Whether two windows share panes."""
    return max(span.start, later_span.start) < min(span.end, later_span.end)


def _looks(view: View, parameters: Parameters, *, are_groups: bool) -> Looks:
    """Return the looks of the request at which a comparison of windows or groups holds."""
    span = view.record.span
    pane = view.definition.query.pane
    name = parameters.choice("looks")
    try:
        return looks_of(span.window, pane, are_groups=are_groups, name=cast(Name | None, name))
    except ParameterError as error:
        raise bad(str(error), parameter="looks") from error


def _windows(store: Store, parameters: Parameters, name: str) -> tuple[View, View]:
    """Return two windows of the total, or of one group."""
    if parameters.text("window") is not None:
        raise bad("`window` is for two groups; name two windows by `from` and `to`", parameter="window")

    series, windows = lookup.windows(store, parameters, name)
    definition = lookup.definition(store.definition(series), parameters)

    end = parameters.number("to")
    if parameters.text("from") is None or end is None:
        raise bad("name the ends of two windows, `from` and `to`, or two groups, `group` and `with`", parameter="from")

    start = _earlier_end(parameters, windows.ends, end)
    if start == end:
        raise bad("`from` and `to` are the same window; name two", parameter="from")
    return lookup.view_at(windows, definition, start), lookup.view_at(windows, definition, end)


def _earlier_end(parameters: Parameters, ends: Sequence[int], end: int) -> int:
    """Return the end of the earlier window: a time, the first window, or so many windows before the later one."""
    text = parameters.text("from")
    if text == FIRST and ends:
        return ends[0]
    if text is None or not text.startswith("-"):
        return parameters.whole("from", 0)

    count = parameters.back("from")
    place = bisect_left(ends, end) - count
    if place < 0:
        raise missing(f"the board keeps no window that is {count} before the one that ends at {end}", parameter="from")
    return ends[place]


def _groups(store: Store, parameters: Parameters, name: str) -> tuple[View, View]:
    """Return two groups of one window, by default of the newest one that shows values of both."""
    if {parameters.text("from"), parameters.text("to")} != {None}:
        raise bad("compare either two groups or two windows: leave `from` and `to` out", parameter="from")

    series, windows = lookup.windows(store, parameters, name)
    query = store.definition(series)
    definition = lookup.definition(query, parameters)
    group = lookup.group(query, parameters.text("group"))
    second_group = lookup.group(query, parameters.text("with"))
    if group in (None, second_group):
        raise bad("name two groups: `group` and `with`", parameter="group")

    second_windows = series.kinds_of(second_group).get(windows.window, Windows(windows.window))
    if parameters.text("window") not in (None, LATEST):
        end = parameters.whole("window", 0)
        return lookup.view_at(windows, definition, end), lookup.view_at(second_windows, definition, end)

    # The newest window may withhold one of the groups, and then there is nothing to compare.
    for end in reversed(windows.ends):
        entries = windows.finals[end], second_windows.finals.get(end)
        if all(entry is not None and entry.shows(definition.name) for entry in entries):
            return lookup.view_at(windows, definition, end), lookup.view_at(second_windows, definition, end)
    raise missing(f"no window of this kind shows values of both groups, {group} and {second_group}", parameter="with")
