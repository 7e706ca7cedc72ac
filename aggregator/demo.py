"""`hubbub demo`: a simulated crowd answers privately, and what it said is counted, in one process."""

import argparse
import sys
import time
from collections.abc import Iterator

import numpy as np

from oracles import ORACLES, oracle
from oracles.errors import ParameterError
from oracles.frame import decode, encode
from oracles.pure import Oracle, Reports

HELP = """\
A simulated crowd, one favourite page each (Zipf: a few pages are common, most are rare). Every
client perturbs its answer, answers travel in frames of 1,000 reports, and the table shows what can
be said of the crowd although no single report can be trusted.

example:
  $ hubbub demo --clients 1000000 --epsilon 0.5"""

PAGES = 100
SHOWN = 15
BAR = 30
FRAME = 1_000


def main(arguments: list[str]) -> int:
    options = _options(arguments)
    rng = np.random.default_rng(options.seed)
    try:
        chosen = oracle(options.oracle, epsilon=options.epsilon, size=PAGES)
    except ParameterError as error:
        sys.stderr.write(f"hubbub demo: {error}\n")
        return 2
    weights = 1.0 / np.arange(1, PAGES + 1) ** 1.1
    values = rng.choice(PAGES, options.clients, p=weights / weights.sum())

    begun = time.perf_counter()
    frames = list(_frames(chosen.perturb(values, rng)))
    perturbed = time.perf_counter()
    state = chosen.zeros()
    for frame in frames:
        chosen.add(state, decode(frame).shaped(chosen.width).reports)
    counted = time.perf_counter()

    sent = sum(map(len, frames))
    print(f"{chosen!r}: each report is {chosen.epsilon:g}-LDP and {chosen.width} bytes")
    print(f"{options.clients:,} clients perturbed their answers in {perturbed - begun:.2f} s")
    print(f"{len(frames):,} frames ({sent / 1e6:.1f} MB) were counted in {counted - perturbed:.3f} s\n")
    _table(chosen, state, values)
    return 0


def _options(arguments: list[str]) -> argparse.Namespace:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="hubbub demo", description=HELP, formatter_class=raw)
    parser.add_argument("--clients", type=_crowd, default=300_000, metavar="N", help="how many (default: 300000)")
    parser.add_argument("--epsilon", type=float, default=1.0, help="how private (default: 1.0; less is more private)")
    parser.add_argument("--oracle", choices=[*ORACLES, "auto"], default="auto", help="how they answer (default: auto)")
    parser.add_argument("--seed", type=int, default=1, help="of the simulation (default: 1)")
    return parser.parse_args(arguments)


def _crowd(text: str) -> int:
    number = int(float(text)) if text.replace("e", "", 1).replace(".", "", 1).isdigit() else 0
    if not 1 <= number <= 100_000_000:
        raise argparse.ArgumentTypeError(f"must be a number from 1 to 100,000,000, got {text!r}")
    return number


def _frames(reports: Reports) -> Iterator[bytes]:
    for start in range(0, len(reports), FRAME):
        yield encode(b"hubbubhi", 0, reports[start : start + FRAME])


def _table(chosen: Oracle, state: np.ndarray[tuple[int], np.dtype[np.int64]], values: np.ndarray) -> None:
    estimate = chosen.estimate(state, len(values))
    low, high = estimate.interval()
    true = np.bincount(values, minlength=PAGES) / len(values)
    top = np.argsort(-estimate.shares, kind="stable")[:SHOWN]
    scale = BAR / max(float(high[top].max()), 1e-9)
    print(f"{'page':8} {'estimate':>9}  {'95% interval':^18} {'truth':>8}")
    for v in top:
        filled, reach = round(max(estimate.shares[v], 0.0) * scale), round(high[v] * scale)
        bar = "█" * filled + "─" * (reach - filled)
        print(f"page-{v:<3} {estimate.shares[v]:9.2%}  {low[v]:7.2%} to {high[v]:7.2%} {true[v]:8.2%}  {bar}")
    held = np.count_nonzero((low <= true) & (true <= high))
    noise = estimate.noise
    detectable = noise.detectable(PAGES)
    found = f"from {detectable:.2%} on is found significant" if detectable else "would need a larger crowd"
    print(f"\n{held} of {PAGES} intervals hold the truth. The standard error of a rare value is {noise.sigma:.2%};")
    print(f"a share {found} with probability 0.9.")
