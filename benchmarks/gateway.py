"""Measure the cost of a request for a gateway, relative to a bare aiohttp handler with the same body.

python -m benchmarks.gateway [--seconds 6] [--keyed]     needs Java and Maven; a few minutes

Gateway, handler, Kafka and the client are separate processes. Gateway and handler take turns on one core. CPU is the
CPU time of the process per request. Latency is measured at the client. The ratio is the handler's CPU divided by the
gateway's. A ratio of 0.5 means that a gateway needs twice the CPU of the handler.
"""

import asyncio
import itertools
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import numpy as np

from benchmarks.harness import BROKER, OURS, THEIRS, arguments, cpu, pin, place_of, show
from oracles.frame import encode
from tests.brokers import Cluster
from tests.integration.workers import environment

REPORTS = (1, 100, 10_000)
CONNECTIONS = 256
"""Number of connections, so many that a gateway has work while other reports wait in a mix buffer."""
ROUNDS = 3
QUERIES = "".join(
    f"""
[queries.{name}]
domain = 1024
oracle = "{name}"
epsilon = 1.0
answers = "once"
pane = "1h"
lateness = "1h"
"""
    for name in ("grr", "olh")
)
BARE = """
import sys
from aiohttp import web

async def handle(request):
    await request.read()
    return web.Response(status=202, body=b'{"accepted":1}', headers={"Content-Type": "application/json"})

app = web.Application(client_max_size=1 << 24)
app.add_routes([web.post("/v1/reports", handle)])
web.run_app(app, host="127.0.0.1", port=0, access_log=None, print=lambda line: print(line, flush=True))
"""


@contextmanager
def running(command: list[str], env: dict[str, str], core: int) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Run a process on its own core, and yield it with the port that it prints."""
    process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True)  # noqa: S603 - our own
    try:
        os.sched_setaffinity(process.pid, {core})
        line = next(line for line in process.stdout if "http://" in line)
        yield process, int(line.partition("http://")[2].partition(":")[2].partition("/")[0].split()[0])
    finally:
        process.terminate()
        process.wait(30)
        process.stdout.close()


async def drive(ports: list[int], body: bytes, seconds: float, *, with_key: bool) -> list[float]:
    """Return the seconds of each request. A client sends the next request after the last answer."""
    head = (
        b"POST /v1/reports HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/vnd.hubbub.frames\r\n"
        b"Content-Length: %d\r\n" % len(body)
    )
    durations: list[float] = []
    end = time.perf_counter() + seconds

    async def client(number: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", ports[number % len(ports)])
        key = os.urandom(8).hex()
        for request in itertools.count():
            began = time.perf_counter()
            if began >= end:
                break
            key_header = f"Idempotency-Key: {key}-{request:08d}\r\n".encode() if with_key else b""
            writer.write(head + key_header + b"\r\n" + body)

            answer = await reader.readuntil(b"\r\n\r\n")
            if not answer.startswith(b"HTTP/1.1 202 "):
                raise SystemExit(f"unexpected answer: {answer.decode()}")
            # The next answer would begin within the body that is left in the socket.
            length = answer.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
            await reader.readexactly(int(length))
            durations.append(time.perf_counter() - began)
        writer.close()

    await asyncio.gather(*(client(number) for number in range(CONNECTIONS)))
    return durations


def measure(processes, ports, body, seconds, *, with_key):
    """Return CPU microseconds per request, requests per second, p50 and p99 in milliseconds."""
    cpu_at_start = sum(cpu(process.pid) for process in processes)
    began = time.perf_counter()
    durations = asyncio.run(drive(ports, body, seconds, with_key=with_key))
    wall = time.perf_counter() - began
    cpu_seconds = sum(cpu(process.pid) for process in processes) - cpu_at_start

    p50, p99 = np.percentile(durations, [50, 99]) * 1e3
    return cpu_seconds / len(durations) * 1e6, len(durations) / wall, p50, p99


def print_row(label, *cells):
    show(f"{label:20}" + "".join(f"{cell:>13}" for cell in cells))


def compare(name, query, reports, kinds, seconds):
    """Print the figures of requests with so many reports, of each kind of process in turns."""
    body_reports = query.oracle.perturb(np.zeros(reports, int), np.random.default_rng(1))
    body = encode(query.digest, int(time.time()) // query.pane * query.pane, body_reports)
    rounds = {kind: [] for kind in kinds}
    for _ in range(ROUNDS):
        for kind, (processes, ports, with_key) in kinds.items():
            rounds[kind].append(measure(processes, ports, body, seconds / ROUNDS, with_key=with_key))

    # The round with the least CPU a request is the one that the machine disturbed least.
    yardstick = min(rounds["bare"])[0]
    for kind, figures in rounds.items():
        cpu_time, rate, p50, p99 = min(figures)
        counts = f"{reports:,}", f"{cpu_time:.0f}", f"{rate:,.0f}", f"{rate * reports:,.0f}"
        print_row(f"{name}, {kind}", *counts, f"{p50:.1f}", f"{p99:.1f}", f"{yardstick / cpu_time:.2f}")


def main() -> None:
    options = arguments(__doc__, seconds=4.0, keyed=(False, "also measure requests with a key"))
    pin(THEIRS)
    with ExitStack() as stack:
        cluster = stack.enter_context(Cluster(1, flags=BROKER))
        place = stack.enter_context(place_of(cluster, QUERIES))
        env = environment(place.kafka, place.file)
        gateway = [sys.executable, "-m", "hubbub", "gateway", "--rate", "max", "--work", "max"]
        gateway += ["--connections-each", str(CONNECTIONS)]
        process, port = stack.enter_context(running(gateway, env, OURS))
        second_process, second_port = stack.enter_context(running(gateway, env, THEIRS))
        bare, bare_port = stack.enter_context(running([sys.executable, "-c", BARE], env, OURS))

        kinds = {"bare": ([bare], [bare_port], False), "gateway": ([process], [port], False)}
        if options.keyed:
            kinds["gateway, keyed"] = ([process], [port], True)
        kinds["two gateways"] = ([process, second_process], [port, second_port], False)

        print_row("", "reports", "CPU us", "requests/s", "reports/s", "p50 ms", "p99 ms", "ratio")
        for name in ("grr", "olh"):
            for reports in REPORTS:
                compare(name, place.queries[name], reports, kinds, options.seconds)


if __name__ == "__main__":
    main()
