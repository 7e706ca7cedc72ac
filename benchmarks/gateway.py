"""Measure the cost of a request for a gateway, relative to a bare aiohttp handler with the same body.

python -m benchmarks.gateway [--seconds 6] [--keyed]     needs Java and Maven; a few minutes

Gateway, handler, Kafka and the client are separate processes. Gateway and handler take turns on one core. CPU is the
CPU time of the process per request. Latency is measured at the client. The ratio is the handler's CPU divided by the
gateway's. A ratio of 0.5 means that a gateway needs twice the CPU of the handler.
"""

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np

from oracles.frame import encode
from oracles.query import load
from tests.brokers import Cluster, create_topics
from tests.integration.workers import environment

OURS, THEIRS = (sorted(os.sched_getaffinity(0)) * 2)[:2]
BROKER = ("-XX:TieredStopAtLevel=4", "-Xmx1g")
"""Java options of production. Tests use options for a quick start."""
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


def cpu(process: subprocess.Popen[str]) -> float:
    """Return the CPU seconds of the process with all its threads."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


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
        number_of_request = 0
        while (began := time.perf_counter()) < end:
            key_header = f"Idempotency-Key: {key}-{number_of_request:08d}\r\n".encode() if with_key else b""
            writer.write(head + key_header + b"\r\n" + body)
            answer = await reader.readuntil(b"\r\n\r\n")
            if not answer.startswith(b"HTTP/1.1 202 "):
                raise SystemExit(f"unexpected answer: {answer.decode()}")
            length = answer.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
            await reader.readexactly(int(length))
            durations.append(time.perf_counter() - began)
            number_of_request += 1
        writer.close()

    await asyncio.gather(*(client(number) for number in range(CONNECTIONS)))
    return durations


def measure(processes, ports, body, seconds, *, with_key):
    """Return CPU microseconds per request, requests per second, p50 and p99 in milliseconds."""
    before, began = sum(map(cpu, processes)), time.perf_counter()
    durations = asyncio.run(drive(ports, body, seconds, with_key=with_key))
    wall = time.perf_counter() - began
    cpu_seconds = sum(map(cpu, processes)) - before
    p50, p99 = np.percentile(durations, [50, 99]) * 1e3
    return cpu_seconds / len(durations) * 1e6, len(durations) / wall, p50, p99


def best(rounds):
    """Return the round with the least CPU per request."""
    return min(rounds, key=lambda figures: figures[0])


def row(label, *cells):
    print(f"{label:20}" + "".join(f"{cell:>13}" for cell in cells), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Measure the cost of a request for a gateway, relative to a bare handler."
    )
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--keyed", action="store_true", help="also measure requests with a key")
    options = parser.parse_args()
    os.sched_setaffinity(0, {THEIRS})
    with ExitStack() as stack:
        cluster = stack.enter_context(Cluster(1, flags=BROKER))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        (folder / "hubbub.toml").write_text(QUERIES)
        queries = load(folder / "hubbub.toml")
        env = {**environment(create_topics(cluster), folder / "hubbub.toml"), "OPENBLAS_NUM_THREADS": "1"}
        each = ("--connections-each", str(CONNECTIONS))
        gateway = [sys.executable, "-m", "hubbub", "gateway", "--rate", "max", "--work", "max", *each]
        one, port = stack.enter_context(running(gateway, env, OURS))
        two, second = stack.enter_context(running(gateway, env, THEIRS))
        bare, empty = stack.enter_context(running([sys.executable, "-c", BARE], env, OURS))
        row("", "reports", "CPU us", "requests/s", "reports/s", "p50 ms", "p99 ms", "ratio")
        for name in ("grr", "olh"):
            for reports in REPORTS:
                query = queries[name]
                body_reports = query.oracle.perturb(np.zeros(reports, int), np.random.default_rng(1))
                body = encode(query.digest, int(time.time()) // query.pane * query.pane, body_reports)
                kinds = {"bare": ([bare], [empty], False), "gateway": ([one], [port], False)}
                if options.keyed:
                    kinds["gateway, keyed"] = ([one], [port], True)
                kinds["two gateways"] = ([one, two], [port, second], False)
                rounds = {kind: [] for kind in kinds}
                for _ in range(ROUNDS):
                    for kind, (processes, ports, with_key) in kinds.items():
                        rounds[kind].append(
                            measure(processes, ports, body, options.seconds / ROUNDS, with_key=with_key)
                        )
                yardstick = best(rounds["bare"])[0]
                for kind, figures in rounds.items():
                    cpu_time, rate, p50, p99 = best(figures)
                    counts = f"{reports:,}", f"{cpu_time:.0f}", f"{rate:,.0f}", f"{rate * reports:,.0f}"
                    row(f"{name}, {kind}", *counts, f"{p50:.1f}", f"{p99:.1f}", f"{yardstick / cpu_time:.2f}")


if __name__ == "__main__":
    main()
