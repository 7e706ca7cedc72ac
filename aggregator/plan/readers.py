"""Sentences about readers of records: what they learn of a person from all windows, from one, and from few reports."""

from collections.abc import Iterator

from aggregator.plan.visibility import reports_per_second, window_name
from aggregator.records.crowd_privacy import CrowdPrivacy, crowd_privacy, stretch_privacy
from aggregator.records.round_privacy import readable_window, round_sentences
from aggregator.records.span import Span
from aggregator.records.subject import subjects
from hubbub.texts import up
from oracles.query import Query
from oracles.query.settings import Window

MOST_REPORTS = 10**8
"""Most reports of a record whose guarantee is computed. It holds for larger ones too, which would take minutes."""


def of_few(query: Query, clients: int | None) -> Iterator[str]:
    """Yield the number of reports up to which a reader of a record reads single ones, and the windows below it."""
    least = readable_window(query)
    if least is None:
        yield "The shares of a record do not lead back to single reports. A value with one report shows it."
        return

    yield f"Up to about {least:,} reports in a window, a reader of the record can read single reports."
    if clients is None:
        return

    # A window `all` has no size. It has few reports at its beginning only.
    counts = {window: clients / query.period * window.size for window in query.windows if window.size}
    small_windows = [f"{window_name(window)} ({n:,.0f} reports)" for window, n in counts.items() if n < least]
    if small_windows:
        yield f"Windows below this number: {', '.join(small_windows)}. Only the noise of each report protects it there."


def of_all(query: Query) -> Iterator[str]:
    """Yield the guarantee for all windows together, which holds for everybody."""
    yield from round_sentences(query)
    if query.answers == "fresh":
        yield from _of_stretches(query)


def _of_stretches(query: Query) -> Iterator[str]:
    """Yield the guarantee of one fresh answer, which lies in one stretch between marks."""
    of_names = [stretch_privacy(query, subject.name) for subject in subjects(query)]
    bounds = [bound for bound in of_names if bound is not None]
    if not bounds:
        yield f"No stretch between marks hides a fresh answer, because crowd = {query.crowd}."
        return

    bound = max(bounds, key=lambda bound: bound.epsilon)
    yield (
        f"One fresh answer in all windows: epsilon {up(bound.epsilon)} (delta {bound.delta:.2g}), from the smallest "
        f"stretch between marks, of crowd = {query.crowd} reports, if half of them are honest and unknown."
    )


def of_one(query: Query, clients: int) -> Iterator[str]:
    """Yield what a client reveals to somebody who sees one record, and nothing else."""
    bounds = guarantees(query, clients)
    if not bounds:
        yield "No record hides a client in its crowd: a client may be in each window twice, or windows are too small."
        return

    parts = [f"{window_name(window)} {up(bound.epsilon)}" for window, bound in bounds.items()]
    delta = max(bound.delta for bound in bounds.values())
    yield (
        f"A client's epsilon to somebody who sees this one record, and nothing else: {', '.join(parts)} "
        f"(delta {delta:.2g}, if half of the reports are honest and unknown)."
    )


def guarantees(query: Query, clients: int) -> dict[Window, CrowdPrivacy]:
    """Return what a client reveals by one record of a window of each kind, for the kinds that touch only one period.

    Of several attributes, the one with the weakest guarantee counts.
    """
    # `all` has size 0, hence no reports here: it touches more than one period.
    weakest = {}
    names = [subject.name for subject in subjects(query)]
    for window in query.windows:
        n = min(int(reports_per_second(query, clients) * window.size), MOST_REPORTS)
        of_names = [crowd_privacy(query, name, Span(window, 0, window.size), n) for name in names if n]
        bounds = [bound for bound in of_names if bound is not None]
        if bounds:
            weakest[window] = max(bounds, key=lambda bound: bound.epsilon)
    return weakest
