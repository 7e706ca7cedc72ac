"""The command `hubbub plan`, which predicts errors and costs of a query, or the capacity for a rate."""

import argparse
import sys
from collections.abc import Iterable, Iterator
from dataclasses import fields
from textwrap import wrap

from aggregator.plan import arms, fleet, outlook
from aggregator.plan.check_text import HIGH_EPSILON, WIDTH
from aggregator.plan.fleet import Assumptions
from aggregator.plan.kinds import names, numbers, values
from aggregator.plan.prospect import MOST_CLIENTS, Need, Plan, Prospect, need, prospect, prospects
from hubbub.command.idle_options import refuse_idle
from hubbub.command.options import amount, in_bytes, one_of, parsed, parser_of, run, share, whole
from oracles.discover import FAMILY_ERROR
from oracles.discover.alphabet import LONGEST
from oracles.discover.cell_hash import LEAST_CELLS, MOST_CELLS
from oracles.errors import ParameterError, QueryError
from oracles.mechanisms import NEWEST, automatic
from oracles.mechanisms.haar import BINS
from oracles.query import load
from oracles.query.domain import BINS_BY_DEFAULT
from oracles.query.footprint import INTEGER
from oracles.query.settings import ANSWERS
from oracles.types import MAX_SIZE, usable_epsilon

MANY_CLIENTS = 100
"""Number of clients above which the weight of one fake report causes a warning."""

HELP = """\
Predict the errors and the cost of a query for each oracle, and recommend one. With --rate, predict
the cores, workers, partitions and brokers for the queries of a file. The command sends nothing.

example:
  $ hubbub plan --clients 1e6 --size 1024 --epsilon 1
  $ hubbub plan --clients 1e6 --size 1024 --epsilon 1 --target-share 0.001
  $ hubbub plan --table 16x8 --epsilon 1
  $ hubbub plan --number --bins 256 --clients 1e5
  $ hubbub plan --strings 24 --clients 1e6 --epsilon 2
  $ hubbub plan --arms 2 --delta 0.03
  $ hubbub plan --rate 1e6,1e7,1e8 --queries hubbub.toml

The figures are of a query file of the newest edition, like those of `hubbub check --clients`.
`of best` is the sum of all variances, as a multiple of that of the best report there is.
stderr is the standard error of a share near zero. A share of `detectable` is significant with
probability 0.9. Both hold for one window in which each client answers once. `work` is the number of
integers that the server changes for a report. One fake report shifts a share by `shift`, as much as
`clients` honest ones that change their answer. The capacity follows from measured costs
(docs/performance.md) and from the options. docs/plan.md has the details.

Exit code: 0 done; 2 wrong options or query file, or a rate above the capacity of any number of workers."""


def main(arguments: list[str]) -> int:
    options = _options(arguments)

    def capacity_of_file() -> None:
        queries = load(options.queries).values()
        # Each field needs an option of its name, which fleet.add_options adds.
        assumptions = Assumptions(**{field.name: getattr(options, field.name) for field in fields(Assumptions)})
        fleets = [fleet.fleet(queries, rate, assumptions) for rate in options.rate]
        _write(fleet.lines(options.queries, queries, fleets, assumptions))

    def work() -> None:
        epsilon = usable_epsilon(options.epsilon)
        plan = Plan(options.clients, options.size, epsilon, options.family_error, options.answers, options.budget)
        _write(lines(plan, options.target_share))

    def table() -> None:
        epsilon = usable_epsilon(options.epsilon)
        share = options.target_share or values.PAIR_SHARE
        # No query is made for a table, so this repeats the default budget of a query file.
        budget = options.budget or 4.0 * epsilon
        texts = values.pair_sentences(
            options.table, epsilon, share, options.family_error, budget if options.answers == "life" else None
        )
        for text in texts:
            _write(wrap(text, WIDTH))

    def plan_numbers() -> None:
        epsilon = usable_epsilon(options.epsilon)
        texts = numbers.plan_lines(options.clients, options.bins, epsilon, options.answers, options.width)
        for text, is_heading in texts:
            _write([text, ""] if is_heading else _wrap(text))

    def strings() -> None:
        epsilon = usable_epsilon(options.epsilon)
        query = names.query_of(options.strings, options.cells, epsilon, options.answers, options.budget)
        for text, is_long in names.plan_lines(options.clients, query):
            _write(_wrap(text) if is_long else [text])

    if options.arms is not None:
        return run("plan", lambda: _write(arms.plan_lines(options)))
    if options.rate is not None:
        return run("plan", capacity_of_file)
    if options.strings is not None:
        return run("plan", strings)
    if options.number:
        return run("plan", plan_numbers)
    return run("plan", work if options.table is None else table)


def _write(texts: Iterable[str]) -> None:
    """Write lines to the terminal."""
    sys.stdout.write("".join(f"{text}\n" for text in texts))


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = parser_of("plan", HELP)
    clients = "clients that answer in one window, such as 1e6"
    parser.add_argument("--clients", type=whole(1, MOST_CLIENTS), metavar="N", help=clients)
    sizes = 'number of values, "(other)" included'
    parser.add_argument("--size", type=whole(2, MAX_SIZE), metavar="D", help=sizes)
    cells = "sizes of two attributes, such as 16x8: print the people that a table of all their pairs needs"
    parser.add_argument("--table", type=parsed(values.table_sizes), metavar="AxB", help=cells)

    number = "plan for answers that are numbers: their quantiles"
    parser.add_argument("--number", action="store_true", help=number)
    bins = f"number of bins of numbers (default: {BINS_BY_DEFAULT})"
    parser.add_argument("--bins", type=parsed(_bins), default=BINS_BY_DEFAULT, metavar="B", help=bins)
    reach = "with --number, print the clients for an interval that reaches so far in rank, such as 0.02"
    parser.add_argument("--width", type=share, metavar="H", help=reach)

    length = "plan for unknown strings of so many letters: the names that will be found"
    parser.add_argument("--strings", type=whole(1, LONGEST), metavar="L", help=length)
    logarithm = f"with --strings, the logarithm of the number of cells (default: {MOST_CELLS})"
    parser.add_argument("--cells", type=whole(LEAST_CELLS, MOST_CELLS), default=MOST_CELLS, metavar="B", help=logarithm)

    privacy = "privacy of each report (default: 1; smaller is more private)"
    parser.add_argument("--epsilon", type=amount, default=1.0, metavar="E", help=privacy)
    repeats = "how a client repeats its answers: life (default), once or fresh"
    parser.add_argument("--answers", type=one_of(*ANSWERS), default="life", metavar="A", help=repeats)
    limit = "epsilon of all answers of a client (default: four times --epsilon)"
    parser.add_argument("--budget", type=amount, metavar="B", help=limit)

    goal = "print the clients, or the epsilon, that make this share detectable"
    parser.add_argument("--target-share", type=share, metavar="F", help=goal)
    error = f"probability that any value is significant by mistake (default: {FAMILY_ERROR:g})"
    parser.add_argument("--family-error", type=share, default=FAMILY_ERROR, metavar="A", help=error)
    arms.add_options(parser)
    fleet.add_options(parser)

    options = parser.parse_args(arguments)
    _check_choice(parser, options)
    _refuse_idle(parser, options, arguments)
    return options


def _check_choice(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """End with a message if the options do not belong to one kind of plan."""
    # argparse knows no groups of options of which a user takes one whole group.
    has_clients = options.clients is not None
    has_size = options.size is not None
    has_table = options.table is not None
    has_rate = options.rate is not None

    if options.arms is not None:
        if options.delta is None or has_clients or has_size or has_table or has_rate or options.number:
            parser.error("--arms needs --delta, and prints how many people are needed: it takes --values for --size")
        return
    if has_table and (has_clients or has_size or has_rate):
        parser.error("--table prints how many clients are needed: leave --clients, --size and --rate out")

    if options.strings is not None:
        if not has_clients or options.number or has_size or has_table or has_rate:
            parser.error("--strings needs --clients, and takes no --size")
    elif options.number:
        if not has_clients or has_size or has_table or has_rate:
            parser.error("--number needs --clients, and takes --bins in place of --size")
    elif has_rate:
        if has_clients or has_size:
            parser.error("--rate uses a query file (--queries): leave --clients and --size out")
    elif not has_table and not (has_clients and has_size):
        parser.error("the following arguments are required: --clients and --size, or --table, or --rate")


_SHARES = ("--target-share", "--family-error")
_ANSWERS = ("--epsilon", "--answers", "--budget")


_RATE = (
    *("--queries", "--frame", "--per-frame", "--no-ids", "--partitions", "--fill", "--speed"),
    *("--replication", "--replicas", "--retention", "--broker-rate", "--partition-rate"),
)


def _refuse_idle(parser: argparse.ArgumentParser, options: argparse.Namespace, arguments: list[str]) -> None:
    """End with a message if an option belongs to another kind of plan."""
    if options.arms is None:
        refuse_idle(parser, arguments, arms.OPTIONS, "without --arms")
    if options.rate is not None:
        refuse_idle(parser, arguments, (*_ANSWERS, *_SHARES, "--bins", "--width", "--cells"), "with --rate")
        return

    refuse_idle(parser, arguments, _RATE, "without --rate")
    # The plan of a size also compares ways to answer, and the budget ends fresh answers too.
    if options.answers != "life" and options.size is None:
        refuse_idle(parser, arguments, ("--budget",), f"with --answers {options.answers} here")
    if options.arms is not None:
        refuse_idle(parser, arguments, ("--target-share", "--strings", "--bins", "--width", "--cells"), "with --arms")
    elif options.strings is not None:
        refuse_idle(parser, arguments, (*_SHARES, "--bins", "--width"), "with --strings")
    elif options.number:
        refuse_idle(parser, arguments, (*_SHARES, "--budget", "--cells"), "with --number")
    else:
        refuse_idle(parser, arguments, ("--bins", "--width"), "without --number")
        refuse_idle(parser, arguments, ("--cells",), "without --strings")


def _bins(text: str) -> int:
    """Return a number of bins, or raise a ParameterError."""
    try:
        bins = int(text)
    except ValueError:
        bins = 0  # no valid number either, so that both faults get one message

    if bins not in BINS:
        raise ParameterError(f"must be a power of two from {BINS[0]} to {BINS[-1]}")
    return bins


def lines(plan: Plan, target: float | None = None) -> Iterator[str]:
    """Yield all lines about a plan, in at most 100 columns."""
    choices, reasons = prospects(plan)
    best = prospect(plan, automatic(plan.epsilon, plan.size, edition=NEWEST, budget=plan.limit(plan.epsilon)))
    answers = "answers for life" if plan.answers == "life" else f"answers {plan.answers}"
    yield f"{plan.clients:,} clients, one of {plan.size:,} values each, epsilon {plan.epsilon:g}, {answers}"
    yield ""
    yield _row("oracle", "of best", "stderr", "detectable", "report", "reports", "tally", "work", "shift", "clients")
    for choice in choices:
        yield _row(choice.oracle.name, *_cells(plan, choice))
    for name, reason in reasons.items():
        yield from _wrap(f"{name:7} not available: {reason}")

    yield ""
    yield from _wrap(f"recommended: {best.oracle.name}. {_reason(best, choices)}")
    texts, warnings = _outlook(plan)
    texts += [f"warning: {warning}" for warning in (*_warnings(plan, best), *warnings)]
    for text in texts:
        yield from _wrap(text)

    if target is not None:
        yield ""
        yield f"a share of {target:g} is significant with probability 0.9"
        yield ""
        yield f"  {'with':7} {f'at epsilon {plan.epsilon:g} by':>34} {f'from {plan.clients:,} clients at':>38}"
        for choice in choices:
            name = choice.oracle.name
            yield _need_row(need(plan, name, target), is_best=name == best.oracle.name)


def _outlook(plan: Plan) -> tuple[list[str], list[str]]:
    """Return the sentences and the warnings of `hubbub check --clients` about the query."""
    try:
        query = plan.query
    except QueryError as error:
        # The formulas take settings that a file refuses, so the rest of the plan stays.
        return [], [f"a query file refuses this query: {error}"]

    [subject] = outlook.audiences(query, plan.clients)
    sentences = [*outlook.comparison(subject, plan.clients), *outlook.sentences(subject)]
    return sentences, list(outlook.warnings(subject))


def _row(*cells: str) -> str:
    name, *numbers = cells
    widths = (8, 9, 10, 6, 9, 9, 7, 8, 8)
    return "  ".join([f"  {name:6}", *(f"{cell:>{width}}" for cell, width in zip(numbers, widths, strict=True))])


def _cells(plan: Plan, choice: Prospect) -> Iterator[str]:
    ratio = values.of_optimum(choice.oracle, plan.epsilon)
    yield f"{ratio:.3f}" if ratio < 10 else f"{ratio:.3g}"
    yield f"{choice.sigma:.3g}"
    yield ">1" if choice.detectable is None else f"{choice.detectable:.3g}"
    yield in_bytes(choice.oracle.width)
    yield in_bytes(choice.oracle.width * plan.clients)
    yield in_bytes(choice.oracle.state_size * INTEGER)
    yield f"{choice.work:,}"
    yield f"{choice.shift_per_fake:.3g}"
    yield f"{choice.fake_clients:,.1f}" if choice.fake_clients < 100_000 else f"{choice.fake_clients:.3g}"


def _reason(recommendation: Prospect, choices: list[Prospect]) -> str:
    """Return why `auto` chooses an oracle, in numbers."""
    best = min(choices, key=lambda choice: choice.sigma)
    rule = "Of the oracles that fit it has the fewest bytes within 2% of the optimum, or else the smallest error"
    excess = recommendation.sigma / best.sigma - 1.0
    # A smaller excess would be printed as 0.0%.
    if excess < 0.0005:
        return f"{rule}, and no oracle has a smaller standard error."
    return f"{rule}. Its standard error is {excess:.1%} above the smallest one, from {best.oracle.name}."


def _warnings(plan: Plan, choice: Prospect) -> Iterator[str]:
    if choice.detectable is None:
        yield "too few clients to detect even a value that all of them have; see --target-share"
    if choice.fake_clients > MANY_CLIENTS:
        yield f"one fake report shifts a share as much as {choice.fake_clients:,.0f} clients do"
    if plan.epsilon > HIGH_EPSILON:
        yield f"an epsilon above {HIGH_EPSILON:g} gives little privacy"


def _need_row(needs: Need, *, is_best: bool) -> str:
    clients = "more than 10^15 clients" if needs.clients is None else f"{needs.clients:,} clients"
    epsilon = "no epsilon up to 16" if needs.epsilon is None else f"epsilon {needs.epsilon:g}"
    mark = "  recommended" if is_best else ""
    return f"  {needs.oracle:7} {clients:>34} {epsilon:>38}{mark}"


def _wrap(text: str) -> Iterator[str]:
    yield from wrap(text, WIDTH, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False)
