"""`hubbub check`: validates a query file and says what each query promises, how sure it is and what it costs."""

import argparse
import math
import sys
from collections.abc import Collection, Iterator, Sequence
from textwrap import wrap

from aggregator.counting.clock import open_panes
from aggregator.plan import memory
from aggregator.plan.promise import promises, sum_of_charges, up
from hubbub.options import add_queries, in_bytes, parser_of, run, size, whole
from oracles.estimate import Pure
from oracles.multi.attributes import Multi
from oracles.query import Query, load
from oracles.query.domain import OTHER, Domain
from oracles.query.lifetime import DEVICE_EPSILON

CROWDS = (10**4, 10**6, 10**8)
"""The numbers of reports that errors are shown for."""
CHECKPOINT_SECONDS = 0.5
INTEGER = 8
"""Bytes of a tally's integers in memory; what travels is often narrower."""
ID = 100
"""Bytes that a worker needs to remember the id of a frame."""
RETENTION, MEMORY = 24 * 3600, 256 << 20
"""Of a board, unless it is told otherwise."""
MANY_FOR_GRR = 300
HIGH_EPSILON = 8.0
WIDTH = 100
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")

HELP = """\
Validate a query file and say, for each query, what is counted, what its clients are promised,
how large the errors are, and what it costs. Nothing is sent anywhere.

example:
  $ cat hubbub.toml
  [queries.homepage]
  domain  = ["a.example", "b.example"]
  epsilon = 1.0
  pane    = "10s"
  $ hubbub check hubbub.toml --partitions 12

sigma is the standard error of a share near zero; a share as large as `detectable` is found
significant with probability 0.9. Both hold for a window of that many reports, each from a client
of its own. What worker and board take is meant within a factor of 1.5, and is shared by several workers.
Exit code: 0 fine, perhaps with warnings; 2 a wrong file, or more than --max-state."""


def main(arguments: list[str]) -> int:
    options = _options(arguments)

    def work() -> int:
        queries = load(options.file).values()
        texts = ["\n".join(lines(query, options.partitions)) for query in queries]
        sums = (sum_of_charges(queries, DEVICE_EPSILON), *processes(queries, options.partitions))
        together = "\n".join(_labelled("together", *sums))
        sys.stdout.write("\n\n".join([*texts, together]) + "\n")
        refused = [fault for query in queries if (fault := refusal(query, options.partitions, options.max_state))]
        refused = refused or list(filter(None, [sum_refused(queries, options.partitions, options.max_state)]))
        sys.stderr.write("".join(f"hubbub check: {options.file}: {fault}\n" for fault in refused))
        return 2 if refused else 0

    return run("check", work)


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = parser_of("check", HELP)
    parser.add_argument("file", nargs="?", metavar="FILE", help="the query file; goes before --queries")
    add_queries(parser)
    of = "partitions of the reports (default: 12)"
    parser.add_argument("--partitions", type=whole(1, 10_000), default=12, metavar="N", help=of)
    most = "what a worker's tallies may take, such as 512MiB (default: 4GiB)"
    parser.add_argument("--max-state", type=size, default="4GiB", metavar="SIZE", help=most)
    options = parser.parse_args(arguments)
    options.file = options.file or options.queries
    return options


def worker_bytes(query: Query, partitions: int) -> int:
    """The tallies of a worker that has all partitions, every open pane among them."""
    return partitions * open_panes(query) * query.oracle.state_size * INTEGER


def id_bytes(query: Query, partitions: int) -> int:
    """The ids that such a worker remembers at most."""
    return partitions * open_panes(query) * query.max_ids * ID


def checkpoint_rate(query: Query, partitions: int) -> float:
    """Bytes a second where on every partition one tally changes all the time."""
    return partitions * query.oracle.state_size * INTEGER / CHECKPOINT_SECONDS


def counted(query: Query) -> list[tuple[str, Domain, str, Pure]]:
    """All that has shares of its own: name, domain, oracle's name, and the oracle as estimates see it."""
    oracle = query.oracle
    views = oracle.attributes if isinstance(oracle, Multi) else (oracle,)
    names = [attribute.name for attribute in query.attributes] or ["answer"]
    return list(zip(names, query.domains, query.oracle_names, views, strict=True))


def answering(query: Query, n: int) -> int:
    """How many of `n` reports speak of an attribute: with smp only those that chose it."""
    return n // len(query.attributes) if query.solution == "smp" else n


def errors(query: Query, view: Pure, n: int) -> tuple[float, float | None]:
    """Sigma and the detectable share for `n` reports to the query."""
    n = answering(query, n)
    return view.noise(n).sigma, view.detectable(n, query.family_error, sampled=query.solution == "smp")


def refusal(query: Query, partitions: int, limit: int) -> str | None:
    """Why a worker cannot carry a query, and what would help."""
    need = worker_bytes(query, partitions)
    if need <= limit:
        return None
    return (
        f"queries.{query.name}: a worker with {partitions} partitions needs {in_bytes(need)} for {open_panes(query)} "
        f"open panes of {query.oracle.state_size:,} integers each, above --max-state {in_bytes(limit)}; lengthen the "
        "pane, shorten lateness or skew, count fewer values, or raise --max-state"
    )


def sum_refused(queries: Collection[Query], partitions: int, limit: int) -> str | None:
    """Why a worker cannot carry all queries of a file, each of which it could."""
    needs = {query.name: worker_bytes(query, partitions) for query in queries}
    if sum(needs.values()) <= limit:
        return None
    largest = max(needs, key=lambda name: needs[name])
    return (
        f"queries: a worker with {partitions} partitions needs {in_bytes(sum(needs.values()))} for the open panes of "
        f"all {len(needs):,}, above --max-state {in_bytes(limit)}; the largest is {largest} with "
        f"{in_bytes(needs[largest])}"
    )


def processes(queries: Collection[Query], partitions: int) -> Iterator[str]:
    """The memory of a worker that has all partitions, and of a board."""
    usual, most = (memory.worker(queries, partitions, most=each) for each in (False, True))
    ids = sum(id_bytes(query, partitions) for query in queries)
    yield (
        f"A worker with all {partitions} partitions takes about {in_bytes(usual.total)} of memory: tallies "
        f"{in_bytes(usual.tallies)}, windows {in_bytes(usual.merging)}, the estimates of one of them "
        f"{in_bytes(usual.publishing)}. Where every pane is open that may be, {in_bytes(most.total)}; with as many ids "
        f"as max_ids allows up to {in_bytes(ids)} more."
    )
    if most.disk:
        yield (
            f"The panes of its long windows stand on disk: about {in_bytes(most.disk)} in the folder for temporary "
            "files (TMPDIR)."
        )
    yield (
        f"A board takes about {in_bytes(memory.board(queries, RETENTION, MEMORY))} where it keeps "
        f"{RETENTION // 3600} hours in {in_bytes(MEMORY)} (its --retention, --memory)."
    )


def warnings(query: Query) -> Iterator[str]:
    """Settings that are allowed and yet seldom wanted, with the reason."""
    better = "" if query.solution == "rsfd" else "; with olh it weighs less"
    for name, _, oracle, view in counted(query):
        if oracle == "grr" and view.size > MANY_FOR_GRR:
            fake = f"one fake report shifts a share as much as {view.shift_per_fake(1):,.0f} clients do"
            yield f"{name}: grr over {view.size:,} values: {fake}{better}"
    epsilon = query.record_epsilon
    if epsilon > HIGH_EPSILON:
        fact = f"a report can be {up(math.exp(epsilon))} times likelier from one answer than from another"
        yield f"an epsilon of {up(epsilon)} is above {HIGH_EPSILON:g} and hides little: {fact}"
    for name, domain, _, _ in counted(query):
        if domain.values is not None and not domain.other:
            yield f"{name}: other = false: a client whose answer is none of the values sends nothing, and that tells"
    if query.crowd > 1 and len(set(query.windows)) > 1:
        kinds = f"windows of {len(set(query.windows))} kinds overlap"
        promise = f"a crowd of {query.crowd} holds for the records of one kind"
        yield f"{kinds}: {promise}; what one hides can be had as a difference from the others (docs/privacy.md)"
    longest = max(window.size for window in query.windows)
    if query.period < longest:
        reason = (
            "clients answer in it more than once, with the same noise, so fewer reports than it has are independent"
        )
        yield f"the period of {query.period}s is shorter than the longest finite window, {longest}s: {reason}"


def lines(query: Query, partitions: int) -> Iterator[str]:
    """All that is said of a query, in at most 100 columns."""
    d, tally = len(query.attributes), query.oracle.state_size
    yield f"{query.name}  {query.digest.hex()}"
    several = f"{d} attribute{'s' * (d != 1)} a client, solution {query.solution}"
    yield from _labelled("counts", several if d else "one answer a client")
    yield from _labelled("guarantee", *promises(query))
    yield from _labelled("report", in_bytes(query.oracle.width))
    yield from _labelled("tally", f"{in_bytes(tally * INTEGER)}, {tally:,} integers")
    panes = f"{open_panes(query)} open panes on each of {partitions} partitions"
    yield from _labelled("worker", f"at most {in_bytes(worker_bytes(query, partitions))}: {panes}")
    ids = f"{query.max_ids:,} of frames (max_ids) x {panes}, {ID} bytes each; on top"
    yield from _labelled("ids", f"at most {in_bytes(id_bytes(query, partitions))}: {ids}")
    interval = f"each of {partitions} partitions writes a changed tally once in {CHECKPOINT_SECONDS:g} s,"
    interval += " less often where that is more than its worker's --checkpoint-bytes-per-s"
    yield from _labelled("checkpoints", f"at most {in_bytes(checkpoint_rate(query, partitions))}/s: {interval}")
    for rows, text in (_oracles(query), (0, 2, 3)), (_errors(query), (0,)):
        yield ""
        yield from _aligned(rows, text)
    found = [line for warning in warnings(query) for line in _labelled("warning", warning)]
    yield from ["", *found] if found else []


def _oracles(query: Query) -> Iterator[Sequence[str]]:
    yield "", "values", "", "oracle", "p", "q"
    for name, domain, oracle, view in counted(query):
        other = f'and "{OTHER}"' if domain.other else ""
        yield _short(name), f"{domain.named:,}", other, oracle, f"{view.p:.6g}", f"{view.q:.6g}"


def _errors(query: Query) -> Iterator[Sequence[str]]:
    yield "reports", *(cell for n in CROWDS for cell in (f"{n:,}", ""))
    yield "", *("sigma", "detectable") * len(CROWDS)
    for name, _, _, view in counted(query):
        pairs = (errors(query, view, n) for n in CROWDS)
        yield _short(name), *(cell for sigma, share in pairs for cell in (_share(sigma), _share(share)))


def _share(share: float | None) -> str:
    if share is None:
        return ">1"
    return "-" if math.isnan(share) else f"{share:.3g}"


def _short(name: str) -> str:
    return name if len(name) <= 24 else f"{name[:21]}..."


def _labelled(label: str, *texts: str) -> Iterator[str]:
    for text in texts:
        first, rest = f"  {label:13}", " " * 15
        yield from wrap(text, WIDTH, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False)
        label = ""


def _aligned(rows: Iterator[Sequence[str]], text: Sequence[int]) -> Iterator[str]:
    """Rows as aligned columns, numbers to the right."""
    grid = list(rows)
    widths = [max(map(len, column)) for column in zip(*grid, strict=True)]
    sides = ["<" if index in text else ">" for index in range(len(widths))]
    for row in grid:
        cells = (f"{cell:{side}{width}}" for cell, side, width in zip(row, sides, widths, strict=True))
        yield f"  {'  '.join(cells)}".rstrip()
