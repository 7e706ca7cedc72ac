"""Draw latency against throughput: the time from the record that closes a pane to its final, at rising rates.

python -m benchmarks.curves     needs the extra `plot`, Java and Maven; about ten minutes; writes docs/latency.png
"""

from benchmarks.accuracy.plots import draw
from benchmarks.accuracy.study import Line, Panel, Plot
from benchmarks.harness import ROOT, arguments, broker_on_other_core
from benchmarks.latency import latency

RATES = {
    "grr, frames of 1,000": (1e6, 4e6, 12e6, 24e6),
    "oue, frames of 1,000 with ids": (0.05e6, 0.2e6, 0.5e6, 0.8e6),
}


def panel(name, points):
    points = sorted(points)
    rates = [float(f"{rate / 1e6:.2g}") for rate, _, _ in points]
    lines = [
        Line("median", rates, [p50 for _, p50, _ in points]),
        Line("99 of 100", rates, [p99 for _, _, p99 in points], style="s--"),
    ]
    return Panel(name, "million reports a second", "ms from the close of a pane to its final", lines, log="x")


def main():
    seconds = arguments(__doc__, seconds=(60, "seconds per rate; the first quarter is burn-in")).seconds
    panels = []
    with broker_on_other_core() as cluster:
        for name, rates in RATES.items():
            panels.append(panel(name, [latency(cluster, name, rate, seconds, seconds // 4) for rate in rates]))
    draw(Plot("latency", "", panels), ROOT / "docs" / "latency.png")


if __name__ == "__main__":
    main()
