"""`hubbub check`: validates a query file and says what each query promises, how sure it is and what it costs."""

import argparse
import math
import os
import re
import sys
from collections.abc import Iterator, Sequence
from decimal import ROUND_CEILING, Context, Decimal
from textwrap import fill

from oracles.domain import OTHER, Domain
from oracles.errors import QueryError
from oracles.multi import Multi
from oracles.pure import Pure
from oracles.query import Query, load

CROWDS = (10**4, 10**6, 10**8)
"""The numbers of reports that errors are shown for."""
CHECKPOINT_SECONDS = 0.5
INTEGER = 8
"""Bytes of a tally's integers in memory; what travels is often narrower."""
MANY_FOR_GRR = 300
HIGH_EPSILON = 8.0
WIDTH = 100
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")

HELP = """\
Validate a query file and say, for each query, what is counted, what its clients are promised, how large the
errors are, and what it costs. Nothing is sent anywhere; run it before a definition goes live.

example:
  $ cat hubbub.toml
  [queries.homepage]
  domain  = ["a.example", "b.example"]
  epsilon = 1.0
  pane    = "10s"
  windows = ["10s", "1m/10s"]
  $ hubbub check hubbub.toml --partitions 12

sigma is the standard error of a share near zero; a share as large as `detectable` is found significant with
probability 0.9. Both are shares of one window's reports, each from a client of its own.

exit code: 0 fine, perhaps with warnings; 2 the file is wrong, or a query needs more than --max-state"""


def main(arguments: list[str]) -> int:
    options = _options(arguments)
    try:
        queries = load(options.file)
    except QueryError as error:
        sys.stderr.write(f"hubbub check: {error}\n")
        return 2
    reports = ["\n".join(lines(query, options.partitions)) for query in queries.values()]
    sys.stdout.write("\n\n".join(reports) + "\n")
    refused = [fault for query in queries.values() if (fault := refusal(query, options.partitions, options.max_state))]
    sys.stderr.write("".join(f"hubbub check: {options.file}: {fault}\n" for fault in refused))
    return 2 if refused else 0


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="hubbub check", description=HELP, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    named = os.environ.get("HUBBUB_QUERIES", "hubbub.toml")
    parser.add_argument("file", nargs="?", metavar="FILE", help="the query file; goes before --queries")
    parser.add_argument(
        "--queries", default=named, metavar="FILE", help="the query file (HUBBUB_QUERIES; default: hubbub.toml)"
    )
    parser.add_argument("--partitions", type=_positive, default=12, metavar="N", help="of the reports (default: 12)")
    parser.add_argument(
        "--max-state",
        type=parse_size,
        default="4GiB",
        metavar="SIZE",
        help="what a worker may hold for a query, such as 512MiB (default: 4GiB)",
    )
    options = parser.parse_args(arguments)
    options.file = options.file or options.queries
    return options


def _positive(text: str) -> int:
    if not re.fullmatch("0*[1-9][0-9]{0,8}", text):
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 1, got {text!r}")
    return int(text)


def parse_size(text: str) -> int:
    """Bytes of "4GiB", "512MiB", "1.5KiB" or "4096"."""
    match = re.fullmatch(r"([0-9]{1,15}(?:\.[0-9]{1,15})?) ?([KMGTP]iB|B)?", text)
    if not match:
        raise argparse.ArgumentTypeError(f"must be a size such as 4GiB, 512MiB or 4096 (bytes), got {text!r}")
    return int(Decimal(match[1]) * 1024 ** _UNITS.index(match[2] or "B"))


def size(count: float) -> str:
    """Bytes for people: 544 B, 57.4 KiB."""
    step = min(max(int(count).bit_length() - 1, 0) // 10, len(_UNITS) - 1)
    return f"{count:,.0f} B" if step == 0 else f"{count / 1024**step:,.1f} {_UNITS[step]}"


def open_panes(query: Query) -> int:
    """The most panes of a query that are open on one partition at a time."""
    return (query.lateness + query.skew) // query.pane + 2


def worker_bytes(query: Query, partitions: int) -> int:
    """The tallies of a worker that has all partitions, every open pane among them."""
    return partitions * open_panes(query) * query.oracle.state_size * INTEGER


def checkpoint_rate(query: Query, partitions: int) -> float:
    """Bytes a second where on every partition one tally changes all the time."""
    return partitions * query.oracle.state_size * INTEGER / CHECKPOINT_SECONDS


def counted(query: Query) -> list[tuple[str, Domain, str, Pure]]:
    """What has shares of its own: name, domain, oracle's name, and the oracle as estimates see it."""
    oracle = query.oracle
    views = oracle.attributes if isinstance(oracle, Multi) else (oracle,)
    names = [attribute.name for attribute in query.attributes] or ["answer"]
    return list(zip(names, query.domains, query.oracle_names, views, strict=True))


def answering(query: Query, n: int) -> int:
    """How many of `n` reports speak of an attribute: with smp only those that chose it."""
    return n // len(query.attributes) if query.solution == "smp" else n


def errors(query: Query, view: Pure, n: int) -> tuple[float, float | None]:
    """Sigma and the detectable share for `n` reports to the query."""
    noise = view.noise(answering(query, n))
    return noise.sigma, noise.detectable(view.size, query.family_error)


def refusal(query: Query, partitions: int, limit: int) -> str | None:
    """Why a worker cannot carry a query, and what would help."""
    need = worker_bytes(query, partitions)
    if need <= limit:
        return None
    return (
        f"queries.{query.name}: a worker with {partitions} partitions needs {size(need)} for {open_panes(query)} "
        f"open panes of {query.oracle.state_size:,} integers each, above --max-state {size(limit)}; lengthen the pane, "
        "shorten lateness or skew, count fewer values, or raise --max-state"
    )


def warnings(query: Query) -> Iterator[str]:
    """What is allowed and yet seldom wanted, with the reason."""
    for name, _, oracle, view in counted(query):
        if oracle == "grr" and view.size > MANY_FOR_GRR:
            yield (
                f"{name}: grr over {view.size:,} values: one fake report shifts a share as much as "
                f"{view.shift_per_fake(1):,.0f} clients do; with other oracles it weighs as a few"
            )
    if query.record_epsilon > HIGH_EPSILON:
        yield (
            f"an epsilon of {_up(query.record_epsilon)} is above {HIGH_EPSILON:g}: a report can be "
            f"{math.exp(query.record_epsilon):,.0f} times likelier from one answer than from another, so it hides little"
        )
    longest = max(window.size for window in query.windows)
    if query.period < longest:
        yield (
            f"the period of {query.period}s is shorter than the longest finite window, {longest}s: clients answer in it "
            "more than once, with the same noise, and its errors are those of fewer reports than it has"
        )


def guarantee(query: Query) -> Iterator[str]:
    """What a client is promised, in words that are exactly true."""
    epsilon, record, d = f"{query.epsilon:g}", _up(query.record_epsilon), len(query.attributes)
    yield {
        None: f"One report is {epsilon}-LDP: no report is more than exp({epsilon}) = {_up(math.exp(query.epsilon))} "
        "times likelier from one answer than from another.",
        "spl": f"One report of a whole record is {epsilon}-LDP: each of its {d} attributes is answered with epsilon/{d}.",
        "smp": f"One report of a whole record is {epsilon}-LDP: it answers one of {d} attributes, drawn at random and "
        "visible to all.",
        "rsfd": f"One report of a WHOLE record is {record}-LDP: epsilon' = ln(d (exp(epsilon) - 1) + 1) with d = {d} "
        f"attributes. The epsilon = {epsilon} of the file holds only between records that differ in ONE attribute, "
        "and not always even then.",
    }[query.solution]
    yield "Memoised reports of one client can be linked to each other; answering once a period limits that."
    yield "Fresh noise each period would add up, one epsilon after another: a client sends its first report again."
    together = _up(query.answers * query.record_epsilon)
    yield (
        f"A client's budget of {query.budget:g} allows at most {query.answers:,} distinct "
        f"answer{'s' * (query.answers != 1)}, {together}-LDP together."
    )


def _up(number: float) -> str:
    """Four decimals that never promise more than the number does."""
    exact = Decimal(number)
    rounded = exact.quantize(Decimal("0.0001"), rounding=ROUND_CEILING, context=Context(prec=400))
    return f"{rounded.normalize(Context(prec=400)):f}"


def lines(query: Query, partitions: int) -> Iterator[str]:
    """All that is said of a query, in at most 100 columns."""
    oracle = query.oracle
    yield f"{query.name}  {query.digest.hex()}"
    yield from _labelled("counts", _counts(query))
    yield from _labelled("guarantee", *guarantee(query))
    yield from _labelled("report", f"{oracle.width:,} bytes")
    yield from _labelled("tally", f"{oracle.state_size:,} integers, {size(oracle.state_size * INTEGER)}")
    panes = f"{open_panes(query)} open panes on each of {partitions} partitions"
    yield from _labelled(
        "worker", f"at most {size(worker_bytes(query, partitions))}: {panes}; ids of frames come on top"
    )
    interval = f"each of {partitions} partitions writes a changed tally once in {CHECKPOINT_SECONDS:g} s"
    yield from _labelled("checkpoints", f"at most {size(checkpoint_rate(query, partitions))}/s: {interval}")
    yield ""
    yield from _columns(_oracles(query), text=(0, 2))
    yield ""
    yield from _columns(_errors(query), text=(0,))
    found = list(warnings(query))
    yield from _labelled("warning", *found, gap=bool(found))


def _counts(query: Query) -> str:
    if not query.attributes:
        return "one answer of each client"
    return f"{len(query.attributes)} attribute(s) of each client, by {query.solution}"


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


def _labelled(label: str, *texts: str, gap: bool = False) -> Iterator[str]:
    if gap:
        yield ""
    for text in texts:
        yield fill(text, WIDTH, initial_indent=f"  {label:13}", subsequent_indent=" " * 15)
        label = "" if label != "warning" else label


def _columns(rows: Iterator[Sequence[str]], text: Sequence[int]) -> Iterator[str]:
    """Rows as aligned columns, numbers to the right."""
    grid = list(rows)
    widths = [max(map(len, column)) for column in zip(*grid, strict=True)]
    for row in grid:
        cells = [
            f"{cell:{'<' if index in text else '>'}{width}}"
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield f"  {'  '.join(cells)}".rstrip()
