"""`hubbub simulate`: a crowd of clients, vectorised, that answers a query over Kafka, and the truth about it."""

import argparse
import math
import secrets
import sys

from hubbub.options import chosen, parser_of, rate, share, whole
from oracles.query import Query
from producers.simulation.distribution import SPECS, read_crowd
from producers.simulation.options import add_sending_options
from producers.simulation.pace import Virtual, Wall, WallClock, flooding, paced
from producers.simulation.population import Draws, Population, generator
from producers.simulation.scenario import BUNDLED, Scenario, chosen_scenario
from producers.simulation.shipping import Step, Stream, ending, ship
from producers.simulation.traffic import STEP, Traffic
from producers.simulation.truth import TrueAnswers
from producers.simulation.watch import Deliveries

CLIENTS = 100_000
CHURN = 0.1

HELP = f"""\
Simulate a crowd of clients that answer a query, each once a period, and publish the true counts
of each pane to the topic `truth`, so that the accuracy of the estimates can be seen live.

example:
  $ hubbub simulate --query homepage --clients 1000000 --values zipf:1.1 --seconds 60
  $ hubbub simulate --query homepage --scenario surge --rate 50000

Values: {SPECS}.
Positions in the domain are meant: with zipf the first value is the most common. Several attributes:
--values NAME=SPEC for each, or --values file:PATH with their joint counts. A file of counts is CSV
with the columns `value` (or the attributes' names) and `count`.

Clients answer for life, once or fresh as the query says, with its budget and renew, by the SDK's own
code; each period --churn of them draw a new value.

The noise is NumPy's, not that of the system's entropy, because it is faster and can be repeated:
never for a person's answer. Ctrl-C ends it. docs/simulate.md tells more."""


def main(arguments: list[str]) -> int:
    return ending("simulate", _simulate(_options(arguments)))


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = parser_of("simulate", HELP)
    add_sending_options(parser)
    crowd = f"how many (default: {CLIENTS}, or as many as --rate needs)"
    parser.add_argument("--clients", type=whole(1), metavar="N", help=crowd)
    speed = 'answers a second at the most, or "max" (default: each client once a period)'
    parser.add_argument("--rate", type=rate, metavar="R", help=speed)
    parser.add_argument("--seconds", type=whole(1), metavar="S", help="until it ends (default: never)")
    parser.add_argument("--seed", type=whole(), metavar="K", help="repeats a run (default: of the system's entropy)")
    law = "what clients hold (default: uniform)"
    parser.add_argument("--values", action="append", default=[], metavar="SPEC", help=law)
    happens = f"what happens over time: TOML, or one of ours: {', '.join(BUNDLED)}"
    parser.add_argument("--scenario", metavar="FILE|NAME", help=happens)
    churn = f"of the clients that draw a new value each period (default: {CHURN})"
    parser.add_argument("--churn", type=_churn, default=CHURN, metavar="SHARE", help=churn)
    start = "a made-up time to begin at, in Unix seconds: nothing is waited for, and a seeded run is the same always"
    parser.add_argument("--start", type=whole(), metavar="T", help=start)
    options = parser.parse_args(arguments)
    if options.start is not None and options.rate == math.inf:
        parser.error("--start makes up the time by the rate, so --rate max cannot be had with it")
    if options.start is not None and options.seconds is None:
        parser.error("--start needs --seconds: a made-up time has no other end")
    return options


def _churn(text: str) -> float:
    return 0.0 if text == "0" else share(text)


async def _simulate(options: argparse.Namespace) -> Deliveries:
    query = chosen(options)
    seed = secrets.randbelow(10**18) if options.seed is None else options.seed
    given = options.scenario
    scenario = chosen_scenario(given, query) if given else Scenario()
    speed, clients = _crowd(options, query)
    crowd = read_crowd(options.values, query)
    population = Population(query, crowd, clients, seed, scenario, churn=options.churn)
    clock: WallClock = Wall() if options.start is None else Virtual(options.start)
    source = generator(seed, Draws.RUN, int(clock.now())).bytes(8).hex()
    often = "as fast as possible" if speed == math.inf else f"{speed:,.6g} a second"
    sys.stdout.write(f"{clients:,} clients answer {query.name}, {often}; --seed {seed}, source {source}\n")

    def stream(partitions: int) -> Stream:
        start = math.ceil(clock.now())
        traffic = Traffic(population, start, partitions, options.frame)
        return _stream(traffic, clock, start + (options.seconds or math.inf), speed)

    return await ship(options, query, clock, TrueAnswers(query, source), stream)


def _crowd(options: argparse.Namespace, query: Query) -> tuple[float, int]:
    """The rate at which they answer, and how many there are."""
    if options.rate is None:
        clients = options.clients or CLIENTS
        return clients / query.period, clients
    needed = CLIENTS if options.rate == math.inf else math.ceil(options.rate * query.period)
    clients = options.clients or needed
    if options.rate < math.inf and clients < needed:
        often = f"each client answers every {clients / options.rate:.3g} s, sooner than the period of {query.period} s"
        narrow = f"the intervals of longer windows will be too narrow; --clients {needed} would do"
        sys.stderr.write(f"hubbub simulate: {often}: {narrow}\n")
    return options.rate, clients


async def _stream(traffic: Traffic, clock: WallClock, end: float, speed: float) -> Stream:
    start, activity = traffic.start, traffic.population.scenario.activity
    flood = speed == math.inf
    turns = flooding(clock, end) if flood else paced(clock, start, end, lambda at: speed * activity(at))
    async for at, answers in turns:
        until = at if flood else at + STEP
        done = None if end == math.inf else (until / 1000 - start) / (end - start)
        yield Step(until, traffic.step(at, answers), done, traffic.population.silent)
    yield Step(int(1000 * clock.now()), traffic.rest(), silent=traffic.population.silent)
