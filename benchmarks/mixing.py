"""Measure what `--least` hides and what it costs, with real gateways and a real Kafka.

python -m benchmarks.mixing [--seconds 100] [--rate 1]     needs Java and Maven; the default takes two minutes

Each gateway gets requests of one report at random times, on average `rate` a second. A reader of the log knows the time
of a request, and guesses: it takes any report of the first frame that Kafka has appended after that time. The last
column is the share of requests for which this finds the right report, on average over all its choices.
"""

import asyncio
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
from aiohttp import ClientSession

from benchmarks.harness import arguments, show
from tests.brokers import Cluster
from tests.integration.gateways import FRAMES, Gateway, Site, now

LEAST = (1, 5, 20)
PANES = """
[queries.numbers]
crowd = 1
domain = 60000
answers = "once"
oracle = "grr"
epsilon = 1.0
pane = "60s"
lateness = "30s"
"""
Request = tuple[int, float, float]
"""The number in the report, the time of the request in Unix seconds, and the seconds until its answer."""


async def send(site: Site, gateway: Gateway, gaps: list[float]) -> list[Request]:
    """Send a request after each gap, and wait for all answers."""
    requests: list[Request] = []
    url = f"http://127.0.0.1:{gateway.port}/v1/reports"

    async def post(session: ClientSession, number: int) -> None:
        body = site.frame_of("numbers", site.reports("numbers", 1, number), now())
        sent_at = time.time()
        async with session.post(url, data=body, headers={"Content-Type": FRAMES}) as answer:
            if answer.status != 202:
                raise SystemExit(f"unexpected answer: {answer.status} {await answer.text()}")
        requests.append((number, sent_at, time.time() - sent_at))

    async with ClientSession() as session, asyncio.TaskGroup() as group:
        for number, gap in enumerate(gaps):
            await asyncio.sleep(gap)
            group.create_task(post(session, number))
    return requests


def mixes(site: Site) -> Iterator[tuple[float, set[int]]]:
    """Yield the log time and the numbers of each frame, in the order of time."""
    frames = sorted(site.frames(), key=lambda pair: pair[0].timestamp)
    for record, frame in frames:
        yield record.timestamp / 1000, set(np.frombuffer(frame.reports.tobytes(), "<u2").tolist())


def row(least: object, *cells: str) -> None:
    show(f"{least:>8}" + "".join(f"{cell:>12}" for cell in cells))


def print_row(least: int, requests: list[Request], frames: list[tuple[float, set[int]]], small: float) -> None:
    sizes = {number: len(numbers) for _, numbers in frames for number in numbers}
    waits = [seconds for _, _, seconds in requests]
    hits = 0.0
    for number, sent_at, _ in requests:
        # Both clocks are of this machine, but Kafka's has milliseconds only.
        candidates = next(numbers for appended, numbers in frames if appended >= sent_at - 0.001)
        hits += (number in candidates) / len(candidates)

    alone = sum(sizes[number] == 1 for number, _, _ in requests)
    half, most = np.percentile(waits, [50, 99])
    cells = f"{alone / len(requests):.0%}", f"{np.median(list(sizes.values())):.0f}", f"{half:.2f}", f"{most:.2f}"
    row(least, str(len(requests)), *cells, f"{small:.0f} of {len(frames)}", f"{hits / len(requests):.0%}")


def main() -> None:
    options = arguments(__doc__, seconds=100.0, rate=(1.0, "requests a second"))
    gaps = np.random.default_rng(1).exponential(1 / options.rate, int(options.seconds * options.rate)).tolist()
    with ExitStack() as stack:
        cluster = stack.enter_context(Cluster(1))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        rigs = []
        for least in LEAST:
            (folder / str(least)).mkdir()
            site = stack.enter_context(Site(cluster, folder / str(least), PANES))
            rigs.append((site, stack.enter_context(site.gateway("--least", str(least))).ready()))

        async def send_all() -> list[list[Request]]:
            return await asyncio.gather(*(send(site, gateway, gaps) for site, gateway in rigs))

        row("least", "requests", "alone", "in a mix", "p50 s", "p99 s", "small", "found")
        for least, (site, gateway), requests in zip(LEAST, rigs, asyncio.run(send_all()), strict=True):
            small = gateway.metric("hubbub_gateway_small_mixes_total")
            print_row(least, requests, list(mixes(site)), small)


if __name__ == "__main__":
    main()
