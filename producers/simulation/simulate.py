"""`hubbub simulate`: a vectorised crowd of clients that answers a query over Kafka, with the true counts."""

import argparse
import math
import secrets
import sys
from textwrap import fill

from hubbub.command.options import parser_of, rate, selected_query, share, whole
from hubbub.moments import utc
from hubbub.next_window import next_window
from oracles.query import Query
from oracles.query.domain import NAMES
from producers.simulation.crowd.crowd_groups import read_groups
from producers.simulation.crowd.distribution import SPECS, Crowd, read_crowd
from producers.simulation.crowd.draws import Draws, generator
from producers.simulation.crowd.note_crowd import SPEC as NOTES
from producers.simulation.crowd.note_crowd import read_notes
from producers.simulation.crowd.population import Population
from producers.simulation.crowd.scenario import BUNDLED, Scenario, find_scenario
from producers.simulation.crowd.words import SPECS as WORDS
from producers.simulation.crowd.words import Words, read_words
from producers.simulation.delivery.schedule import (
    STEP,
    RealClock,
    SimulationClock,
    VirtualClock,
    fastest_steps,
    steady_steps,
)
from producers.simulation.delivery.simulated_frames import SpreadAt
from producers.simulation.delivery.status import DeliveryCounts
from producers.simulation.delivery.stream import Step, Stream, add_sending_options, run_sending, send_stream
from producers.simulation.delivery.true_answers import TrueAnswers
from producers.simulation.traffic import Traffic

_READERS = {NAMES: read_words}
"""The readers of the crowds that are no distributions of values, by the kind of their answers."""
CLIENTS = 100_000
CHURN = 0.1

HELP = f"""\
Simulate a crowd of clients. Each client answers a query once per period. The command publishes the
true counts of each pane to the topic `truth`, so that you can watch the accuracy of the estimates.

example:
  $ hubbub simulate --query homepage --clients 1000000 --values zipf:1.1 --seconds 60
  $ hubbub simulate --query homepage --scenario surge --rate 50000

{fill(f"Values: {SPECS}, {WORDS}.", 110)}
They apply to positions in the domain: with zipf the first value is the most common. For several
attributes, give --values NAME=SPEC for each, or --values file:PATH with their joint counts. A file of
counts is CSV with the columns `value` (or the names of the attributes) and `count`. A file of words has one
on each line, the most common first, or with a count after a tab.

{fill(f"Notes: {NOTES}, the clients of a query with a recorder note at random, RATE times a period on average.", 110)}

Clients answer for life, once or fresh, with the query's budget and renew. They use the SDK's own code. They renew
without a limit. Real devices do so only with `per` and enough max_epsilon (docs/clients.md).
In each period, --churn of them draw a new value.

The noise comes from NumPy, because it is faster and repeatable. Never use it for a person's answer.
Ctrl-C ends the command. See docs/simulate.md.

Exit code: 0 all is sent, or ended by Ctrl-C or SIGTERM; 2 wrong options or query; 3 Kafka cannot be reached;
4 the topics are missing; 1 other errors."""


def main(arguments: list[str]) -> int:
    return run_sending("simulate", _simulate(_options(arguments)))


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = parser_of("simulate", HELP)
    add_sending_options(parser)

    clients = f"number of clients (default: {CLIENTS}, or as many as --rate needs)"
    parser.add_argument("--clients", type=whole(1), metavar="N", help=clients)
    speed = 'answers per second, or "max" (default: each client once per period)'
    parser.add_argument("--rate", type=rate, metavar="N", help=speed)
    parser.add_argument("--seconds", type=whole(1), metavar="N", help="length of the run (default: no end)")
    seed = "seed that repeats a run (default: from the system's entropy)"
    parser.add_argument("--seed", type=whole(), metavar="K", help=seed)

    values = "distribution of the clients' values (default: uniform)"
    parser.add_argument("--values", action="append", default=[], metavar="SPEC", help=values)
    notes = "notes of each client in a period, for a query with a recorder; they give the values"
    parser.add_argument("--notes", metavar="SPEC", help=notes)
    groups = "shares of the clients in groups, such as ios=0.5,web=0.3 (default: no client has a group)"
    parser.add_argument("--groups", metavar="GROUP=SHARE,...", help=groups)
    group_values = "distribution of the clients of one group, in place of --values"
    parser.add_argument("--group-values", action="append", default=[], metavar="GROUP=SPEC", help=group_values)

    scenario = f"changes over time: a TOML file, or a bundled one: {', '.join(BUNDLED)}"
    parser.add_argument("--scenario", metavar="FILE|NAME", help=scenario)
    churn = f"share of the clients that draw a new value each period (default: {CHURN}, with --notes 1)"
    parser.add_argument("--churn", type=_churn, metavar="SHARE", help=churn)

    start = "start of a virtual clock, in Unix seconds; the run does not wait, and with --seed it is always the same"
    parser.add_argument("--start", type=whole(), metavar="T", help=start)
    options = parser.parse_args(arguments)

    if options.start is not None and options.rate == math.inf:
        parser.error("--start does not work with --rate max: a virtual clock needs a rate")
    if options.groups == "":
        parser.error("--groups is empty: write it like ios=0.5,web=0.3, or leave it out")
    if options.group_values and not options.groups:
        parser.error("--group-values needs --groups")
    idle_options = [name for name in ("values", "groups") if options.notes and getattr(options, name)]
    if idle_options:
        parser.error(f"--notes gives the values, so leave out --{idle_options[0]}")
    if options.start is not None and options.seconds is None:
        parser.error("--start needs --seconds: otherwise the run has no end")
    return options


def _churn(text: str) -> float:
    try:
        return 0.0 if text == "0" else share(text)
    except argparse.ArgumentTypeError as error:
        raise argparse.ArgumentTypeError(f"{error}, or 0 for none") from None


async def _simulate(options: argparse.Namespace) -> DeliveryCounts:
    query = selected_query(options)
    seed = secrets.randbelow(10**18) if options.seed is None else options.seed
    scenario = find_scenario(options.scenario, query) if options.scenario else Scenario()

    speed, clients = _crowd(options, query)
    crowd = _values(options, query)
    churn = options.churn
    if churn is None:
        # The notes of a period say nothing about those of the next one.
        churn = 1.0 if options.notes else CHURN
    groups = read_groups(options.groups, options.values, options.group_values, query) if options.groups else None
    population = Population(query, crowd, clients, seed, scenario, churn=churn, groups=groups)
    clock: SimulationClock = RealClock() if options.start is None else VirtualClock(options.start)

    # A source of its own, since the true counts of a second run would replace those of the first.
    source = generator(seed, Draws.RUN, int(clock.now())).bytes(8).hex()
    pace = "as fast as possible" if speed == math.inf else f"{speed:,.6g} a second"
    sys.stdout.write(f"{clients:,} clients answer {query.name}, {pace}; --seed {seed}, source {source}\n")
    if options.start is None:
        sys.stdout.write(outlook(query, clock.now(), clients))

    def stream(partitions: int, spread_at: SpreadAt) -> Stream:
        start = math.ceil(clock.now())
        traffic = Traffic(population, start, partitions, options.frame, spread_at)
        return _stream(traffic, clock, start + (options.seconds or math.inf), speed)

    return await send_stream(options, query, clock, TrueAnswers(query, source), stream)


def _values(options: argparse.Namespace, query: Query) -> Crowd | Words:
    """Return the distribution of the clients' values."""
    if options.notes:
        return read_notes(options.notes, query)
    read = _READERS.get(query.domains[0].kind, read_crowd)
    return read(options.values, query)


def outlook(query: Query, time: float, clients: int) -> str:
    """Return lines that say when the first result comes, and whether there are enough clients for it."""
    # A window that has ended gets no report of this crowd, even if its lateness is not over.
    arrival = next_window(query, time + query.lateness)
    if arrival is None:
        return f"{query.name} has ended (`until`), so no result will come\n"
    text = (
        f"the next window of {query.name} ends at {utc(arrival.end)}, its result comes soon after {utc(arrival.due)}\n"
    )
    # A client answers once a period, so a window cannot hold more people than there are.
    if clients < query.crowd:
        text += f"too few people: windows with fewer than {query.crowd:,} reports are withheld\n"
    return text


def _crowd(options: argparse.Namespace, query: Query) -> tuple[float, int]:
    """Return the answers per second and the number of clients."""
    if options.rate is None:
        clients = options.clients or CLIENTS
        return clients / query.period, clients
    minimum = CLIENTS if options.rate == math.inf else math.ceil(options.rate * query.period)
    clients = options.clients or minimum
    if options.rate < math.inf and clients < minimum:
        fault = f"each client answers every {clients / options.rate:.3g} s, sooner than the period of {query.period} s"
        # Two answers of a client in one period correlate, so the errors of longer windows are larger than stated.
        effect = f"The intervals of longer windows will be too narrow. Use --clients {minimum} or more."
        sys.stderr.write(f"hubbub simulate: {fault}. {effect}\n")
    return options.rate, clients


async def _stream(traffic: Traffic, clock: SimulationClock, end: float, speed: float) -> Stream:
    start = traffic.start
    activity = traffic.population.scenario.activity
    flood = speed == math.inf
    steps = (
        fastest_steps(clock, end)
        if flood
        else steady_steps(clock, start, end, lambda time_ms: speed * activity(time_ms))
    )
    async for time_ms, answers in steps:
        step_end = time_ms if flood else time_ms + STEP
        progress = None if end == math.inf else (step_end / 1000 - start) / (end - start)
        yield Step(step_end, traffic.step(time_ms, answers), progress, traffic.population.silent)
    yield Step(int(1000 * clock.now()), traffic.rest(), silent=traffic.population.silent)
