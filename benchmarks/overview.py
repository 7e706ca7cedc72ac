"""Measure the CPU of the board for one overview of many queries, a comparison of two windows, and a scrape of metrics.

python -m benchmarks.overview [--queries 200] [--values 1024]

The store holds twelve windows of each query, and the most alerts that a board keeps. No broker is needed.
"""

import time
from dataclasses import replace
from statistics import median

from prometheus_client import generate_latest

from aggregator.board.answers.all_queries import AllQueries
from aggregator.board.answers.difference_answer import DifferenceAnswer
from aggregator.board.answers.parameters import Parameters
from aggregator.board.answers.query_list import Queries
from aggregator.board.answers.reply import Reply
from aggregator.board.server.metrics import BoardMetrics
from aggregator.board.server.route import ROUTES
from aggregator.board.store.states import States
from aggregator.board.store.store import MOST_ALERTS, Store
from aggregator.records.alert import decode, encode
from benchmarks.harness import arguments
from oracles.query import parse
from tests.boards import HOMEPAGE, PANE, START, Crowd, definition_messages, status_message

WINDOWS = 12
REPEATS = 20


def filled_store(queries: int, values: int) -> Store:
    table = {"domain": values, "oracle": "olh", "epsilon": 1.0, "budget": 1e9, "pane": f"{PANE}s", "windows": ["10s"]}
    definitions = parse({"queries": {f"query-{number:04}": table for number in range(queries)}}, "benchmark", ".")
    end = START + WINDOWS * PANE
    store = Store(86_400, 4 << 30, lambda: end + 1.0)
    for _, key, value in definition_messages(definitions):
        store.define(key, value, 0)

    # All queries have the records of one, with other names.
    model = next(iter(definitions.values()))
    crowd = Crowd(model, clients=2_000)
    records = []
    for _ in range(WINDOWS):
        records += [value for topic, _, value in crowd.next() if topic == "estimates"]
    for query in definitions.values():
        for record in records:
            text = record.replace(model.name.encode(), query.name.encode())
            store.take_record(text.replace(model.digest.hex().encode(), query.digest.hex().encode()))
        store.take_status(status_message(query, end, end)[2])

    sample = next(decode(value) for topic, _, value in Crowd(HOMEPAGE).next() if topic == "alerts")
    for number in range(MOST_ALERTS):
        query = f"query-{number % queries:04}"
        store.take_alert(encode(replace(sample, id=f"{number:032x}", query=query, baseline=False)))
    return store


def cpu(work) -> float:
    """Return the median CPU of a call, in milliseconds."""
    times = []
    for _ in range(REPEATS):
        start = time.process_time()
        work()
        times.append(1000 * (time.process_time() - start))
    return median(times)


def main() -> None:
    options = arguments(__doc__, queries=200, values=1024)
    store = filled_store(options.queries, options.values)
    compare = next(route for route in ROUTES if route.name == "compare")
    pairs = [("from", str(START + PANE)), ("to", str(START + WINDOWS * PANE))]
    metrics = BoardMetrics(store)

    rows = {
        f"overview of {options.queries:,} queries": lambda: Reply.json(AllQueries.of(store, Parameters([], ()), "")),
        "states of all queries, each 5 s": lambda: States().changes(store),
        f"comparison of {options.values:,} values": lambda: Reply.json(
            DifferenceAnswer.of(store, Parameters(pairs, compare.all_parameters), "query-0000")
        ),
        "list of all queries": lambda: Reply.json(Queries.of(store, Parameters([], ()), "")),
        "metrics, all finals new": lambda: generate_latest(BoardMetrics(store).whole),
        "metrics, no final new": lambda: generate_latest(metrics.whole),
    }
    for name, work in rows.items():
        print(f"{name}: {cpu(work):.1f} ms of CPU")


if __name__ == "__main__":
    main()
