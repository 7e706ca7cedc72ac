"""The facts that become visible: the windows that will usually show values, and the limits promised to a client."""

import math
from collections.abc import Collection, Iterator
from decimal import Decimal

import numpy as np

from aggregator.merging.marks import Marks, QueryMarks
from aggregator.plan import costs, rounds
from aggregator.plan.kinds import of_query
from hubbub.definitions.versions import Versions
from hubbub.texts import few, odds, up
from oracles.query import Query
from oracles.query.domain import NAMES
from oracles.query.lifetime import DEVICE_EPSILON
from oracles.query.settings import Window

MOST_PANES = 50_000
"""Most panes of the simulation that looks for marks. Longer windows are left out."""
_DAY = 86_400
_REPORT = {
    None: "One report is {epsilon}-LDP: no report is more than exp({epsilon}) = {ratio} times as likely with one "
    "answer as with another.",
    "spl": "One report of a whole record is {epsilon}-LDP: it answers each of its {d} attributes with epsilon/{d}.",
    "smp": "One report of a whole record is {epsilon}-LDP: it answers one of its {d} attributes, drawn at random. "
    "Everybody can see which one.",
    "rsfd": "One report of a WHOLE record is {record}-LDP: epsilon' = ln(d (exp(epsilon) - 1) + 1) with d = {d} "
    "attributes. The epsilon = {epsilon} of the file holds only between records that differ in ONE attribute, and even "
    "then not always.",
}
_REPORT_OF_KIND = {
    NAMES: "One report is {epsilon}-LDP for a whole string: no report is more than exp({epsilon}) = {ratio} times as "
    "likely with one string as with another. It tells of one level or map, drawn at random. Everybody can see which "
    "one.",
}
_REPEATS = {
    "life": "Answers for life: {span} a client has one report for each of its K = {classes} classes, and is never "
    "silent. All its reports together distinguish two histories whose classes repeat at the same times by at most "
    "exp({exponent}), with m <= K the number of classes that it had: {charge}-LDP. For hashed answers classes are not "
    "values: a visible change can exclude a pair of values for certain.",
    "table": "Answers for life: {span} a client answers by one secret table, and is never silent. All its reports "
    "together change the odds between two courses of answers that changed at the same times by at most exp({charge}) = "
    "{odds}, one report by at most exp({epsilon}) = {ratio}. That an answer changed, and when, is not hidden. Whoever "
    "learns one of its answers by other means learns up to exp({second}) about another.",
    "once": "Answers once: {span} a client repeats its first report. All its reports together are {charge}-LDP for any "
    "two histories. They do not follow changes.",
    "fresh": "Answers are fresh: each one is {charge}-LDP, and they add up: {span} a client is silent after {charges}, "
    "for any answers. All its reports together are {total}-LDP for any two histories. 52 fresh answers at epsilon 1 "
    "revealed the value in 6 of 6 tries.",
}
_EXPOSURES = {
    "life": "Not protected: whether, when and how often its class changed. Its rows are a pseudonym, which links its "
    "reports. A reader of all reports can be much surer of the answer than a reader of one.",
    "once": "Not protected: its report is a pseudonym, which links its reports.",
    "fresh": "Not protected: when it falls silent, which shows how often it was asked.",
}


def reports_per_second(query: Query, clients: int) -> float:
    """Return the reports to each attribute. A client answers once in each period, with smp one attribute."""
    return clients / query.period / (len(query.attributes) if query.solution == "smp" else 1)


def shown_shares(query: Query, clients: int) -> dict[Window, float]:
    """Return the share of the windows of each kind that show values."""
    windows = [window for window in set(query.windows) if 2 * window.size // query.pane <= MOST_PANES]
    longest = max((window.size for window in windows), default=0)
    panes = min(MOST_PANES, 10 * longest // query.pane + 1_000)
    rate = reports_per_second(query, clients) * of_query(query).smallest_part(query)

    # The seed is fixed, so that the same file always gets the same sentences.
    # Each of several small parts needs `crowd`, such as each level of numbers.
    parts = of_query(query).small_parts(query)
    counts = np.random.default_rng(1).poisson(rate * query.pane, (panes, parts))
    marks = QueryMarks(Versions.of(query), places=[Marks(query.pane)])
    for number, count in enumerate(counts.tolist()):
        marks.count(number * query.pane, [tuple(count)])

    totals = np.concatenate([np.zeros((1, parts), np.int64), np.cumsum(counts, axis=0)])

    def is_shown(start: int, end: int, window: Window) -> bool:
        n = tuple((totals[end // query.pane] - totals[start // query.pane]).tolist())
        return marks.withheld(start if window.step else None, end, [n]) == (None,)

    shares = {}
    for window in windows:
        ends = range(window.size or query.pane, panes * query.pane + 1, window.step or query.pane)
        shares[window] = float(
            np.mean([is_shown(end - window.size if window.step else 0, end, window) for end in ends])
        )
    return shares


def sentences(query: Query, clients: int) -> Iterator[str]:
    """Yield sentences about the windows that show values."""
    shares = shown_shares(query, clients)
    n = reports_per_second(query, clients) * query.pane
    parts = [f"{window_name(window)} {100 * shares[window]:.0f}%" for window in query.windows if window in shares]
    yield (
        f"With {clients:,} clients a pane of {query.pane} s has about {n:,.0f} reports. "
        f"Windows that show values: {', '.join(parts)}."
    )

    # `all` ends at marks only, which must leave enough reports to the longest window too.
    share = next((share for window, share in shares.items() if window.kind == "all"), 1.0)
    if share < 1.0:
        pace = f"about every {query.pane / share:,.0f} s" if share else "almost never"
        yield f"`all` shows new values {pace}, since it follows the longest window. A shorter window makes it move."


def group_refusal(query: Query) -> str | None:
    """Return why a query has too many groups, and what helps, or None if their records keep pace with the panes."""
    seconds = query.pane * costs.busy(query)
    if not query.groups or seconds <= query.pane:
        return None
    return (
        f"queries.{query.name}: the records of {query.groups.count} groups and their total take about {seconds:.3g} s "
        f"for each pane of {query.pane} s; lengthen the pane or the steps of the windows, list fewer groups, or use "
        "fewer windows, values or methods"
    )


def group_sentences(query: Query, clients: int) -> Iterator[str]:
    """Yield sentences about the people whose group is too small to be shown. Without weights all groups are equal."""
    if not query.groups:
        return

    values = query.groups.values
    shares = query.weights or [1.0 / len(values)] * len(values)
    sizes = "with the shares of `weights`" if query.weights else "of equal size, because there are no weights"

    parts = []
    for window in query.windows:
        if not window.size:
            continue  # `all` shows a group once it has `crowd` reports
        n = reports_per_second(query, clients) * window.size

        # A group of weight 0 has no people who would miss it.
        parts_of_people = zip(values, shares, strict=True)
        small_groups = {value: share for value, share in parts_of_people if share and n * share < query.crowd}
        people = sum(small_groups.values())
        names = f" ({few(list(small_groups))})" if small_groups else ""
        parts.append(f"{window_name(window)} {100 * people:.3g}%{names}")

    if not parts:
        return
    yield (
        f"Share of the people in groups with fewer than crowd = {query.crowd} reports in a window, which it does not "
        f"show, for groups by {query.groups.name} {sizes}: {', '.join(parts)}."
    )


def small_steps(query: Query, clients: int) -> Iterator[str]:
    """Yield a warning for each kind of window whose steps usually hold fewer reports than `crowd`."""
    kind = of_query(query)
    for window in query.windows:
        n = reports_per_second(query, clients) * window.step * kind.smallest_part(query)
        if window.step and n < query.crowd and query.crowd > 1:
            name = window_name(window)
            yield f"a step of window {name} holds about {n:,.0f} {kind.REPORTS}, fewer than crowd = {query.crowd}"


def window_name(window: Window) -> str:
    """Return a kind of window in words."""
    if window.kind == "all":
        return "all"
    return f"{window.size}s" if window.kind == "tumbling" else f"{window.size}s/{window.step}s"


def promises(query: Query) -> Iterator[str]:
    """Yield the promise to a client, in exact sentences."""
    charge = query.charge
    epsilon = query.record_epsilon
    report = _REPORT_OF_KIND.get(query.domains[0].kind, _REPORT[query.solution])
    yield report.format(
        epsilon=up(query.epsilon), ratio=up(math.exp(query.epsilon)), record=up(epsilon), d=len(query.attributes)
    )

    with_table = query.answers == "life" and query.table is not None
    yield _REPEATS["table" if with_table else query.answers].format(
        span="from its first answer on" if query.renew is None else f"in each round of {_days(query.renew)}",
        classes=charge.times,
        epsilon=up(query.epsilon),
        second=up(_second(query)),
        exponent=f"m {up(charge.epsilon)}",
        charge=up(query.record_charge),
        odds=odds(query.record_charge),
        ratio=odds(query.epsilon),
        charges=f"{query.charges:,} answer{'' if query.charges == 1 else 's'}",
        # A product of floats could round below the true sum, and the promise would be too small.
        total=up(query.charges * Decimal(repr(epsilon))),
    )

    yield f"{_EXPOSURES[query.answers]} Also not protected: that it takes part, from where, and in which pane."
    if query.renew is not None:
        yield f"This holds for a round. Any {_days(query.renew)} may touch two rounds."
        yield from rounds.texts(query, DEVICE_EPSILON)

    answer = "each answer" if query.answers == "fresh" else "the first answer of a round"
    charge_text = f"{up(query.record_charge)} for {answer}, of a budget of {query.budget:g}"
    yield f"Charge: {charge_text}, before the client reads the value."
    yield "All this assumes that each device has a key of its own: clones of a device share their noise."


def _second(query: Query) -> float:
    """Return the epsilon that somebody who knows one answer of a client can learn about another one.

    A report of spl answers all attributes, so theirs add up.
    """
    seconds = [encoder.epsilon if encoder.tables is None else encoder.bound(2) for encoder in query.oracle.encoders]
    return math.fsum(seconds) if query.solution == "spl" else max(seconds)


def sum_of_charges(queries: Collection[Query], default: float) -> str:
    """Return a text with the charges of a client that answers all queries of a file, and the required limit."""
    total = sum(query.charge.amount * query.charges for query in queries)
    subject = f"all {len(queries):,} queries" if len(queries) > 1 else "the query"
    limit = f"max_epsilon = {up(float(total))}"
    comparison = "which is within the SDK's default" if total <= default else f"above the SDK's default of {default:g}"
    return (
        f"A client that answers {subject} is charged {up(float(total))} in a round. It needs {limit}, {comparison}. "
        "A definition with another digest charges again; only max_epsilon limits that."
    )


def _days(seconds: int) -> str:
    return f"{seconds // _DAY:,} days" if seconds % _DAY == 0 else f"{seconds:,} seconds"
