"""`hubbub plan`: how sure a query would be and what it would cost, or what a rate takes, before anyone is asked."""

import argparse
import sys
from collections.abc import Iterator
from dataclasses import fields
from textwrap import wrap

from aggregator.plan import capacity
from aggregator.plan.check import HIGH_EPSILON, INTEGER, WIDTH
from aggregator.plan.fleet import Assumptions, fleet
from aggregator.plan.prospect import MOST_CLIENTS, Need, Plan, Prospect, need, prospect, prospects
from hubbub.options import in_bytes, parser_of, run, share, whole
from oracles import oracle
from oracles.query import load
from oracles.types import MAX_SIZE, usable_epsilon

MANY_CLIENTS = 100
"""A fake report that weighs as much as more than these deserves a warning."""

HELP = """\
Say how large the errors of a query would be and what it would cost, for each oracle, and recommend
one; or, with --rate, how many cores, workers, partitions and brokers the queries of a file take at
so many reports a second. Nothing is sent anywhere.

example:
  $ hubbub plan --clients 1e6 --size 1024 --epsilon 1
  $ hubbub plan --clients 1e6 --size 1024 --epsilon 1 --target-share 0.001
  $ hubbub plan --rate 1e6,1e7,1e8 --queries hubbub.toml

stderr is the standard error of a share near zero; a share as large as `detectable` is found
significant with probability 0.9. Both hold for one window in which each client answers once.
`work` is how many integers the server changes a report. One fake report shifts a share by `shift`,
as much as `clients` honest ones do that change their answer. What a rate takes follows from costs
that were measured (docs/performance.md), and from what the options assume. docs/plan.md tells more.

Exit code: 0 done; 2 wrong options or query file, or more than any number of workers carries."""


def main(arguments: list[str]) -> int:
    options = _options(arguments)

    def capacity_of_file() -> None:
        queries = load(options.queries).values()
        assumed = Assumptions(**{field.name: getattr(options, field.name) for field in fields(Assumptions)})
        fleets = [fleet(queries, each, assumed) for each in options.rate]
        sys.stdout.write(
            "".join(f"{line}\n" for line in capacity.lines(options.queries, len(queries), fleets, assumed))
        )

    def work() -> None:
        plan = Plan(options.clients, options.size, usable_epsilon(options.epsilon), options.family_error)
        sys.stdout.write("".join(f"{line}\n" for line in lines(plan, options.target_share)))

    return run("plan", work if options.rate is None else capacity_of_file)


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = parser_of("plan", HELP)
    clients = "how many answer in one window, such as 1e6"
    parser.add_argument("--clients", type=whole(1, MOST_CLIENTS), metavar="N", help=clients)
    values = 'how many values there are, "(other)" counted'
    parser.add_argument("--size", type=whole(2, MAX_SIZE), metavar="D", help=values)
    privacy = "how private each report is (default: 1; less is more private)"
    parser.add_argument("--epsilon", type=float, default=1.0, metavar="E", help=privacy)
    goal = "say how many clients, or which epsilon, make this share detectable"
    parser.add_argument("--target-share", type=share, metavar="F", help=goal)
    error = "the chance that any value is found significant by mistake (default: 0.05)"
    parser.add_argument("--family-error", type=share, default=0.05, metavar="A", help=error)
    capacity.add_options(parser)
    options = parser.parse_args(arguments)
    if options.rate is None and None in (options.clients, options.size):
        parser.error("the following arguments are required: --clients and --size, or --rate")
    if options.rate is not None and (options.clients, options.size) != (None, None):
        parser.error("--rate is of a query file (--queries): --clients and --size have no place beside it")
    return options


def lines(plan: Plan, target: float | None = None) -> Iterator[str]:
    """All that is said of a plan, in at most 100 columns."""
    found, refused = prospects(plan)
    chosen = prospect(plan, oracle("auto", epsilon=plan.epsilon, size=plan.size))
    yield f"{plan.clients:,} clients, one of {plan.size:,} values each, epsilon {plan.epsilon:g}"
    yield ""
    yield _row("oracle", "stderr", "detectable", "report", "reports", "tally", "work", "shift", "clients")
    for each in found:
        yield _row(each.oracle.name, *_cells(plan, each))
    for name, reason in refused.items():
        yield from _wrapped(f"{name:7} cannot be had: {reason}")
    yield ""
    yield from _wrapped(f"recommended: {chosen.oracle.name}. {_reason(chosen, found)}")
    for warning in _warnings(plan, chosen):
        yield from _wrapped(f"but: {warning}")
    if target is not None:
        yield ""
        yield f"a share of {target:g} is found significant with probability 0.9"
        yield ""
        yield f"  {'with':7} {f'at epsilon {plan.epsilon:g} by':>34} {f'from {plan.clients:,} clients at':>38}"
        for each in found:
            yield _needed(need(plan, each.oracle.name, target), recommended=each.oracle.name == chosen.oracle.name)


def _row(*cells: str) -> str:
    name, *numbers = cells
    widths = (9, 10, 10, 10, 10, 7, 9, 9)
    return "  ".join([f"  {name:6}", *(f"{cell:>{width}}" for cell, width in zip(numbers, widths, strict=True))])


def _cells(plan: Plan, each: Prospect) -> Iterator[str]:
    yield f"{each.sigma:.3g}"
    yield ">1" if each.detectable is None else f"{each.detectable:.3g}"
    yield in_bytes(each.oracle.width)
    yield in_bytes(each.oracle.width * plan.clients)
    yield in_bytes(each.oracle.state_size * INTEGER)
    yield f"{each.work:,}"
    yield f"{each.shift_per_fake:.3g}"
    yield f"{each.fake_clients:,.1f}" if each.fake_clients < 100_000 else f"{each.fake_clients:.3g}"


def _reason(chosen: Prospect, found: list[Prospect]) -> str:
    """Why `auto` takes it, in numbers."""
    best = min(found, key=lambda each: each.sigma)
    rule = "Of grr, olh and oue it has the shortest report among those whose variance is within 10% of their smallest"
    above = chosen.sigma / best.sigma - 1.0
    if above < 0.0005:
        return f"{rule}, and no oracle here has a smaller standard error."
    return f"{rule}. Its standard error is {above:.1%} above the smallest here, that of {best.oracle.name}."


def _warnings(plan: Plan, chosen: Prospect) -> Iterator[str]:
    if chosen.detectable is None:
        yield "so few clients are not enough to find even a value that all of them hold; see --target-share"
    if chosen.fake_clients > MANY_CLIENTS:
        yield f"one fake report shifts a share as much as {chosen.fake_clients:,.0f} clients do"
    if plan.epsilon > HIGH_EPSILON:
        yield f"an epsilon above {HIGH_EPSILON:g} hides little"


def _needed(needs: Need, *, recommended: bool) -> str:
    clients = "more than 10^15 clients" if needs.clients is None else f"{needs.clients:,} clients"
    epsilon = "no epsilon up to 16" if needs.epsilon is None else f"epsilon {needs.epsilon:g}"
    return f"  {needs.oracle:7} {clients:>34} {epsilon:>38}{'  recommended' * recommended}"


def _wrapped(text: str) -> Iterator[str]:
    yield from wrap(text, WIDTH, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False)
