"""Measure what the work around the reports costs as queries and partitions grow.

python -m benchmarks.scale [limit scrape waiting pane ...] [--queries 200 3000]
python -m benchmarks.scale --live 64x1000     needs Java and Maven; five minutes

limit    CPU of a record on a board that is full and drops an old window for each new one
scrape   series of a worker, and the CPU of the longest turn of its event loop during a scrape
waiting  memory of 20 panes of 100,000 values that wait for the last of 64 partitions, beside their sums
pane     records, bytes and CPU of a pane without reports, for fleets of four sizes
frame    CPU of a frame of 100 reports among many queries, of equal and of varied size
moves    partitions that move in a rebalance
start    CPU of a final that a board takes at its start
spread   queries on a partition, load of workers, and queries that a partition or a worker holds

Only `--live` needs a broker: a worker runs without reports, and then with 200 frames a second.
"""

import asyncio
import time
import tracemalloc
from collections.abc import Callable, Iterator

import numpy as np
from aiohttp import ClientSession, web

from aggregator.board.store.store import Store
from aggregator.merging.pane_parts import PaneParts
from aggregator.process.metrics import Metrics
from aggregator.tallies.snapshot import Snapshot, encode_snapshot, view_snapshot
from benchmarks import scale_panes, scale_spread
from benchmarks.harness import arguments, selection, show, table_of
from benchmarks.scale_live import live
from hubbub.http.scrape import scrape_handler
from hubbub.http.server import serving
from oracles.query import Query, parse
from tests.boards import PANE, START, Crowd, definition_messages

FILLING = 4
"""Windows of each query that fill the board."""
WORKERS = 100
PANES = 20
PARTITIONS = 64
CELLS = 100_000
FRAME_QUERIES = [1, 13, 100, 900, 1_100, 3_000]
"""Numbers of queries for the cost of a frame. It has no cliff between 900 and 1,100."""
MEASURED = 4
"""Windows of each query whose records are measured, on a full board."""


def definitions_of(count: int) -> dict[str, Query]:
    """Return equal queries of 64 values with other names."""
    table = {"domain": 64, "oracle": "olh", "epsilon": 1.0, "budget": 1e9, "pane": f"{PANE}s", "windows": ["10s"]}
    return parse({"queries": {f"query-{number:04}": table for number in range(count)}}, "benchmark", ".")


def finals_of(queries: dict[str, Query], windows: int) -> Iterator[list[bytes]]:
    """Yield the finals of all queries, window by window. All have the records of one, with other names."""
    model = next(iter(queries.values()))
    crowd = Crowd(model, clients=2_000)
    for _ in range(windows):
        (final, *_) = (value for topic, _, value in crowd.next() if topic == "estimates")
        yield [
            final.replace(model.name.encode(), query.name.encode()).replace(
                model.digest.hex().encode(), query.digest.hex().encode()
            )
            for query in queries.values()
        ]


def cost_at_limit(count: int) -> float:
    """Return the CPU of a record on a full board, in milliseconds."""
    queries = definitions_of(count)
    end = START + (FILLING + MEASURED + 1) * PANE
    batches = list(finals_of(queries, FILLING + MEASURED))
    board = empty_board(queries, end, 1 << 40)
    for records in batches[:FILLING]:
        for value in records:
            board.take_record(value)

    full_board = empty_board(queries, end, board.size)
    for records in batches[:FILLING]:
        for value in records:
            full_board.take_record(value)
    start = time.process_time()
    for records in batches[FILLING:]:
        for value in records:
            full_board.take_record(value)
    return 1000 * (time.process_time() - start) / (MEASURED * count)


def empty_board(queries: dict[str, Query], end: int, memory: int) -> Store:
    board = Store(86_400, memory, lambda: end + 1.0)
    for _, key, value in definition_messages(queries):
        board.define(key, value, 0)
    return board


def limit(counts: list[int]) -> None:
    costs = {count: cost_at_limit(count) for count in counts}
    least = costs[counts[0]]
    rows = [(f"{count:,}", f"{cost:.3f}", f"{cost / least:.2f}") for count, cost in costs.items()]
    show(table_of(("queries", "CPU of a record at the limit, ms", "ratio to the first row"), rows))


def scrape(counts: list[int]) -> None:
    rows = []
    for count in counts:
        metrics = Metrics()
        queries = definitions_of(count)
        metrics.add_queries(queries.values())
        metrics.merge_queries([*queries][::WORKERS])
        turn, body = asyncio.run(longest_turn(metrics))
        series = sum(not line.startswith(b"#") for line in body.splitlines())
        rows.append((f"{count:,}", f"{series:,}", f"{1000 * turn:.1f}"))
    show(table_of(("queries", f"series of one of {WORKERS} workers", "CPU of the longest turn of its loop, ms"), rows))


async def longest_turn(metrics: Metrics) -> tuple[float, bytes]:
    """Return the CPU of the longest turn of the loop while a scrape is answered, and the answer."""
    app = web.Application()
    app.add_routes([web.get("/metrics", scrape_handler(metrics.registry))])
    gaps = [0.0]

    async def turn() -> None:
        while True:
            before = time.thread_time()
            await asyncio.sleep(0)
            gaps.append(time.thread_time() - before)

    async with serving(app, "127.0.0.1", 0) as (host, port), ClientSession() as session:
        turning = asyncio.create_task(turn())
        reply = await session.get(f"http://{host}:{port}/metrics", headers={"Accept-Encoding": "identity"})
        body = await reply.read()
        turning.cancel()
    return max(gaps), body


def waiting(_: list[int]) -> None:
    panes = PaneParts(CELLS)
    draw = np.random.default_rng(1)
    tracemalloc.start()
    for pane in range(PANES):
        for partition in range(PARTITIONS - 1):
            counts = draw.integers(0, 200, CELLS).astype(np.uint8)
            panes.put(pane, partition, view_snapshot(encode_snapshot(Snapshot(1, 0, 0, 0, counts))))
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    sums = PANES * CELLS * np.dtype(np.int64).itemsize
    rows = [(f"{used / 1e6:.1f}", f"{sums / 1e6:.1f}", f"{used / sums:.2f}")]
    show(table_of(("memory of waiting panes, MB", "their sums, MB", "ratio"), rows))


def start(counts: list[int]) -> None:
    rows = []
    for count in counts:
        queries = definitions_of(count)
        batches = list(finals_of(queries, FILLING))
        board = empty_board(queries, START + (FILLING + 1) * PANE, 1 << 40)
        begin = time.process_time()
        for value in (value for records in batches for value in records):
            board.take_record(value)
        rows.append((f"{count:,}", f"{1000 * (time.process_time() - begin) / (FILLING * count):.3f}"))
    show(table_of(("queries", "CPU of a final of 64 values at the start, ms"), rows))


CASES: dict[str, Callable[[list[int]], None]] = {
    "limit": limit,
    "scrape": scrape,
    "waiting": waiting,
    "pane": lambda _: scale_panes.pane(),
    "frame": lambda _: scale_panes.frame(FRAME_QUERIES),
    "moves": lambda _: scale_panes.moves(),
    "start": start,
    "spread": lambda _: scale_spread.spread(),
}


def main() -> None:
    options = arguments(
        __doc__,
        CASES,
        queries=[200, 3000],
        live=("", "partitions x queries of a live worker, such as 64x1000"),
        seconds=(90.0, "length of each of the two live measurements"),
    )
    if options.live:
        partitions, queries = map(int, options.live.split("x"))
        live(partitions, queries, options.seconds)
        return
    for case in selection(CASES, options.cases).values():
        case(options.queries)


if __name__ == "__main__":
    main()
