"""The text of `hubbub check`: the promises, errors and costs of each query of a file, with warnings."""

import math
from collections.abc import Collection, Iterator, Sequence
from textwrap import wrap

from aggregator.counting.checkpoint_plan import INTERVAL
from aggregator.plan import costs, memory, outlook, readers, visibility
from aggregator.plan.kinds import of_query
from aggregator.plan.kinds.audience import Audience
from aggregator.plan.kinds.values import of_optimum
from aggregator.plan.recorder_text import sentence
from aggregator.plan.visibility import promises
from aggregator.process.defaults import MEMORY, RETENTION
from aggregator.process.state_limit import worker_bytes
from hubbub.command.options import in_bytes
from hubbub.definitions.versions import open_panes
from hubbub.texts import up
from oracles.estimate import Pure
from oracles.query import Query
from oracles.query.domain import OTHER, Domain
from oracles.query.footprint import INTEGER, MOST_BLOCK_VALUES, tally_size

CROWDS = (10**4, 10**6, 10**8)
"""The numbers of reports for which the command prints errors."""
ID = 100
"""Bytes of memory for the id of a frame in a worker."""
MANY_VALUES = 300
"""Number of values above which a fake report weighs so much that a warning is due."""
HIGH_EPSILON = 8.0
"""Epsilon above which a warning is due."""
WIDTH = 100
"""Columns of the output."""


def id_bytes(query: Query, partitions: int) -> int:
    """Return the maximum bytes of ids in a worker with all partitions."""
    return query.slot_count(partitions) * open_panes(query) * query.max_ids * ID


def checkpoint_rate(query: Query, partitions: int) -> float:
    """Return the bytes of checkpoints per second if one tally of every partition changes all the time."""
    return query.slot_count(partitions) * tally_size(query) * INTEGER / INTERVAL


def attribute_oracles(query: Query) -> list[tuple[str, Domain, str, Pure]]:
    """Return the name, domain, oracle name and single oracle of each attribute, or of the only answer."""
    labels = [attribute.name for attribute in query.attributes] or ["answer"]
    return list(zip(labels, query.domains, query.oracle_names, query.attribute_oracles, strict=True))


def reports_per_attribute(query: Query, n: int) -> int:
    """Return how many of `n` reports answer an attribute. With smp each report answers only one."""
    return n // len(query.attributes) if query.solution == "smp" else n


def errors(query: Query, view: Pure, n: int) -> tuple[float, float | None]:
    """Return the standard error and the detectable share for `n` reports to the query."""
    n = reports_per_attribute(query, n)
    return view.noise(n).sigma, view.detectable(n, query.family_error, sampled=query.solution == "smp")


def processes(queries: Collection[Query], partitions: int) -> Iterator[str]:
    """Yield sentences about the memory of a worker with all partitions, and of a board."""
    ordinary = memory.worker(queries, partitions)
    maximum = memory.worker(queries, partitions, most=True)

    # Ordinary traffic has far fewer ids than `max_ids` allows, so they are no part of the total.
    ids = sum(id_bytes(query, partitions) for query in queries)
    yield (
        f"A worker with all {partitions} partitions needs about {in_bytes(ordinary.total)} of memory: tallies "
        f"{in_bytes(ordinary.tallies)}, windows {in_bytes(ordinary.merging)}, the estimates of one window "
        f"{in_bytes(ordinary.publishing)}. If all panes are open that may be, it needs {in_bytes(maximum.total)}. With "
        f"as many ids as max_ids allows, it needs up to {in_bytes(ids)} more."
    )

    need = sum(map(costs.finals, queries))
    cores = costs.publishing(queries, partitions)
    yield (
        f"The queries need {need:,.3g} finals per second. With few reports, a worker and its estimator use about "
        f"{cores:.2g} of a core for them, which is {1000 * cores / need:,.3g} ms of CPU per final."
    )

    if maximum.disk:
        yield (
            f"It keeps the panes of long windows on disk: about {in_bytes(maximum.disk)} in the folder for temporary "
            "files (TMPDIR)."
        )
    yield (
        f"A board needs about {in_bytes(memory.board(queries, RETENTION, MEMORY))} if it keeps "
        f"{RETENTION // 3600} hours in {in_bytes(MEMORY)} (its --retention, --memory)."
    )


def warnings(query: Query, clients: int | None = None) -> Iterator[str]:
    """Yield a warning with its reason for each setting that is valid but unusual."""
    # rsfd does not take olh, so a file refuses this advice.
    advice = "" if query.solution == "rsfd" else "; it weighs less with olh"
    for name, _, oracle, view in attribute_oracles(query):
        if view.supports_one and view.size > MANY_VALUES:
            fake = f"one fake report shifts a share as much as {view.shift_per_fake(1):,.0f} clients do"
            yield f"{name}: {oracle} over {view.size:,} values: {fake}{advice}"

    epsilon = query.record_epsilon
    if epsilon > HIGH_EPSILON:
        fact = f"a report can be {up(math.exp(epsilon))} times as likely with one answer as with another"
        yield f"epsilon {up(epsilon)} is above {HIGH_EPSILON:g} and gives little privacy: {fact}"

    # These warnings compare ways to answer, so the number of people has no effect on them.
    for subject in outlook.audiences(query, 1):
        yield from (f"{subject.name}: {text}" for text in outlook.warnings(subject))

    need = memory.block_bytes(query)
    if query.season is not None and need:
        yield f"season keeps sums of windows for four seasons: up to {in_bytes(need)} in the topic and in a worker"

    for name, domain, _, _ in attribute_oracles(query):
        if domain.size > MOST_BLOCK_VALUES:
            yield f"{name}: with more than {MOST_BLOCK_VALUES:,} values, slow changes of several windows bring no alert"
        # A recorder has a value of the domain for every note.
        if domain.values is not None and not domain.other and query.recorder is None:
            yield f"{name}: other = false: a client with an answer outside the values sends nothing, which reveals that"

    yield from of_query(query).notices(query)
    if clients is not None:
        yield from visibility.small_steps(query, clients)


def notes(query: Query) -> Iterator[str]:
    """Yield what a reader of the estimates should know, and nobody needs to change."""
    longest = max(window.size for window in query.windows)
    if query.period < longest:
        reason = "clients answer repeatedly in it, with the same noise, so not all its reports are independent"
        reason += ". If people are sometimes away, its stated errors can be up to twice too wide"
        yield f"the period of {query.period} s is shorter than the longest finite window, {longest} s: {reason}"


def lines(query: Query, partitions: int, clients: int | None = None) -> Iterator[str]:
    """Yield all lines about a query, in at most 100 columns."""
    tally = tally_size(query)
    yield f"{query.name}  {query.digest.hex()}"
    yield from label("counts", _counts(query))
    yield from label("device", *filter(None, [sentence(query)]))
    yield from label("guarantee", *promises(query))
    yield from label("all windows", *readers.of_all(query))
    yield from label("few reports", *readers.of_few(query, clients))
    yield from label("report", in_bytes(query.oracle.width))
    yield from label("tally", f"{in_bytes(tally * INTEGER)}, {tally:,} integers")

    slots = query.slot_count(partitions)
    if slots < partitions:
        yield from label("spread", f"on {slots} of {partitions} partitions")
    panes = f"{open_panes(query)} open panes on each of {slots} partitions"
    yield from label("worker", f"at most {in_bytes(worker_bytes(query, partitions))}: {panes}")
    ids = f"in addition, {query.max_ids:,} of frames (max_ids) x {panes}, {ID} bytes each"
    yield from label("ids", f"at most {in_bytes(id_bytes(query, partitions))}: {ids}")

    interval = f"a worker writes a changed tally of each of {slots} partitions once in {INTERVAL:g} s,"
    interval += " and less often above --checkpoint-bytes-per-s"
    yield from label("checkpoints", f"at most {in_bytes(checkpoint_rate(query, partitions))}/s: {interval}")
    yield from label("strings", *of_query(query).costs(query, partitions))

    if clients is not None:
        yield from label("shown", *visibility.sentences(query, clients))
        yield from label("groups", *visibility.group_sentences(query, clients))
        yield from label("one record", *readers.of_one(query, clients))

    everybody = outlook.audiences(query, 1 if clients is None else clients)
    for subject in everybody:
        yield from label("error", *(_prefix(query, subject) + text for text in outlook.comparison(subject)))
    if clients is not None:
        for subject in everybody:
            yield from label("outlook", *outlook.sentences(subject))
            ways = list(outlook.table(subject))
            if ways:
                yield ""
                yield from align(iter(ways), (0, 4))

    yield ""
    yield from align(_oracles(query), (0, 2, 3))
    if not all(view.levels for _, _, _, view in attribute_oracles(query)):
        yield ""
        own_errors = list(of_query(query).errors(query))
        yield from align(iter(own_errors or _errors(query)), (0,))

    remarks = [("warning", text) for text in warnings(query, clients)]
    remarks += [("note", text) for text in notes(query)]
    if remarks:
        yield ""
    for name, text in remarks:
        yield from label(name, text)


def _counts(query: Query) -> str:
    """Return what a client tells, in words."""
    count = len(query.attributes)
    if count:
        return f"{count} attribute{'' if count == 1 else 's'} per client, solution {query.solution}"
    return of_query(query).counts(query)


def _prefix(query: Query, subject: Audience) -> str:
    return f"{subject.name}: " if query.attributes else ""


def _oracles(query: Query) -> Iterator[Sequence[str]]:
    yield "", "values", "", "oracle", "p", "q", "of the optimum"
    for name, domain, oracle, view in attribute_oracles(query):
        rest_of_values = f'and "{OTHER}"' if domain.other else ""
        # Neither a mix of answers and fakes (rsfd) nor a level of numbers has the optimum of single values.
        epsilon = None if query.solution == "rsfd" else getattr(view, "epsilon", None)
        ratio = "" if epsilon is None or view.levels else f"{of_optimum(view, epsilon):.2f}"
        yield _short(name), f"{domain.named:,}", rest_of_values, oracle, f"{view.p:.6g}", f"{view.q:.6g}", ratio


def _errors(query: Query) -> Iterator[Sequence[str]]:
    heads: list[str] = []
    for n in CROWDS:
        heads += [f"{n:,}", ""]
    yield "reports", *heads
    yield "", *("sigma", "detectable") * len(CROWDS)
    for name, _, _, view in attribute_oracles(query):
        if view.levels:
            continue  # the error of numbers is one of ranks, which the outlook states

        cells: list[str] = []
        for n in CROWDS:
            sigma, detectable = errors(query, view, n)
            cells += [_share(sigma), _share(detectable)]
        yield _short(name), *cells


def _share(share: float | None) -> str:
    if share is None:
        return ">1"
    return "-" if math.isnan(share) else f"{share:.3g}"


def _short(name: str) -> str:
    return name if len(name) <= 24 else f"{name[:21]}..."


def label(name: str, *texts: str) -> Iterator[str]:
    """Yield texts as lines of at most 100 columns, the first after a name."""
    for text in texts:
        indent = f"  {name:13}"
        # An option that breaks at its hyphen cannot be copied from the terminal.
        yield from wrap(text, WIDTH, initial_indent=indent, subsequent_indent=" " * 15, break_on_hyphens=False)
        name = ""


def align(rows: Iterator[Sequence[str]], text: Sequence[int]) -> Iterator[str]:
    """Yield rows as aligned columns, with the columns `text` to the left and numbers to the right."""
    grid = list(rows)
    widths = [max(map(len, column)) for column in zip(*grid, strict=True)]
    sides = ["<" if index in text else ">" for index in range(len(widths))]
    for row in grid:
        cells = (f"{cell:{side}{width}}" for cell, side, width in zip(row, sides, widths, strict=True))
        yield f"  {'  '.join(cells)}".rstrip()
