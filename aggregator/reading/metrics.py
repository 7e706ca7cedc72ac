"""The command `hubbub metrics`, which shows the metrics of a running process in words."""

import argparse
import math
import os
import ssl
import sys
import time
from collections.abc import Iterator
from itertools import chain, product
from urllib.error import HTTPError
from urllib.request import urlopen

from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from aggregator.reading.tail.notation import plain
from hubbub.command.options import parser_of, run
from oracles.errors import HubbubError

PORTS = ("8801", "8802", "8803", "8804")
"""Default ports of worker, gateway, board and simulation."""
SECONDS = 5.0
PARTS = 5
"""Largest number of series of one metric in a line."""
KINDS = {
    "hubbub_checkpoint_bytes": "worker",
    "hubbub_gateway_ready": "gateway",
    "hubbub_board_windows": "board",
    "hubbub_simulated_reports": "simulation",
    "hubbub_sink_rows": "sink",
}
"""A metric that only this kind of process has."""
DETAILS = (
    "_share",
    "_share_low",
    "_share_high",
    "_mse",
    "_ratio",
    "build_info",
    "_start_time_seconds",
    "_max_fds",
    "virtual_memory_bytes",
)
"""Ends of the names of metrics that are shown only by name."""

HELP = """\
Show the metrics of the hubbub processes on this machine, in words: what each metric counts, its value, and
the largest of its series. Counters that are 0 are left out. NAME shows every metric with that part in its
name, with all its series.

example:
  $ hubbub metrics
  $ hubbub metrics rejected
  $ hubbub metrics --url http://10.0.0.7:8801

The command asks 127.0.0.1, at HUBBUB_HEALTH_PORT, else at HUBBUB_PORT, else at the default ports of all
commands. In a container it needs no option.

Exit code: 0 done; 2 wrong options; 3 no process answers; 4 no metric has that name."""


class Unanswered(HubbubError):
    """No process serves metrics at these addresses."""

    exit_code = 3


class UnknownMetric(HubbubError):
    """No metric has this part in its name."""

    exit_code = 4


def main(arguments: list[str]) -> int:
    parser = parser_of("metrics", HELP)
    parser.add_argument("name", nargs="?", metavar="NAME", help="part of the name of metrics (default: the important)")
    parser.add_argument("--url", metavar="URL", help="address of the process, such as http://10.0.0.7:8801")
    options = parser.parse_args(arguments)
    if options.url and not options.url.startswith(("http://", "https://")):
        parser.error(f"--url: must begin with http:// or https://, got {options.url!r}")
    return run("metrics", lambda: _show(options))


def _show(options: argparse.Namespace) -> None:
    addresses = [options.url.rstrip("/")] if options.url else list(_addresses())
    answers: dict[str, str] = {}
    for address in addresses:
        text = _get(f"{address}/metrics")
        if text:
            answers[address] = text
    if not answers:
        raise Unanswered(f"no process answers at {', '.join(addresses)}. Name its address with --url")
    has_value = False

    for address, text in answers.items():
        families = list(text_string_to_metric_families(text))
        sys.stdout.write(f"{_heading(address, families)}\n")
        for line in _lines(families, options.name):
            has_value = True
            sys.stdout.write(f"  {line}\n")
    if not has_value:
        raise UnknownMetric(f"no metric has {options.name!r} in its name. docs/metrics.md lists all")


def _addresses() -> Iterator[str]:
    port = os.environ.get("HUBBUB_HEALTH_PORT") or os.environ.get("HUBBUB_PORT")
    # A process with a certificate answers in HTTPS only, and nothing here knows whether it has one.
    for number, scheme in product([port] if port else PORTS, ("http", "https")):
        yield f"{scheme}://127.0.0.1:{number}"


def _get(url: str) -> str | None:
    """Return the text of an answer, also of a refusal, or None if nothing answers in HTTP."""
    context = ssl.create_default_context()
    if url.startswith("https://127.0.0.1"):  # certificates are for outside clients
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    try:
        with urlopen(url, timeout=SECONDS, context=context) as answer:  # noqa: S310 - http and https alone
            return str(answer.read().decode())
    except HTTPError as error:
        # A process that is not ready says why in the body of its refusal.
        return error.read().decode(errors="replace") if url.endswith("/readyz") else None
    except (OSError, ValueError):
        return None


def _heading(address: str, families: list[Metric]) -> str:
    names = {family.name for family in families}
    kind = next((kind for name, kind in KINDS.items() if name in names), "process")
    # Any program may listen at this port, so its answer is foreign text.
    ready = plain((_get(f"{address}/readyz") or "").strip(), 200)
    # A process that is ready but late says so behind a semicolon.
    state = ready if ready.partition(";")[0] == "ready" else f"not ready: {ready or 'no answer'}"

    values = {sample.name: sample for sample in chain.from_iterable(family.samples for family in families)}
    build = values.get("hubbub_build_info")
    start = values.get("process_start_time_seconds")

    parts = [f"{kind} at {address}: {state}"]
    if build is not None:
        parts.append(f"version {build.labels.get('version')}, kernels {build.labels.get('kernels')}")
    if start is not None:
        parts.append(f"running for {duration(time.time() - start.value)}")
    return ", ".join(parts)


def _lines(families: list[Metric], name: str | None) -> Iterator[str]:
    """Yield a line for each metric, and a line for each series if the metric is asked for by name."""
    for family in sorted(families, key=lambda family: family.name.startswith("process_")):
        # The parser cuts this end off, but readers know a counter by the name that Prometheus stores.
        full_name = f"{family.name}_total" if family.type == "counter" else family.name
        if name is None:
            if not family.name.endswith(DETAILS) and _matters(family):
                yield f"{_words(family)}: {_summary(family)}"
        elif name in full_name:
            yield f"{_words(family)} ({full_name})"
            yield from (f"  {_series(sample)}: {_number(sample)}" for sample in family.samples)


def _matters(family: Metric) -> bool:
    """Whether a metric has a value to show. A counter of 0 has none."""
    return any(sample.value or family.type != "counter" for sample in family.samples)


def _words(family: Metric) -> str:
    return str(family.documentation).rstrip(".")


def _summary(family: Metric) -> str:
    """Return the total of a counter, the largest of a gauge, or the quantiles of a histogram."""
    if family.type == "histogram":
        return _quantiles(family)
    samples = sorted(family.samples, key=lambda sample: -sample.value)
    if not samples[0].labels:
        return _number(samples[0])

    parts = [
        f"{_series(sample)}: {_number(sample)}" for sample in samples[:PARTS] if sample.value or sample is samples[0]
    ]
    more = sum(bool(sample.value) for sample in samples[PARTS:])
    text = "; ".join(parts) + (f"; and {more} more" if more else "")
    total = sum(sample.value for sample in samples)
    return f"{_amount(samples[0].name, total)} ({text})" if family.type == "counter" else text


def _quantiles(family: Metric) -> str:
    count = sum(sample.value for sample in family.samples if sample.name.endswith("_count"))
    if not count:
        return "none yet"
    bounds: dict[float, float] = {}
    for sample in family.samples:
        if sample.name.endswith("_bucket"):
            bound = float(sample.labels["le"])
            bounds[bound] = bounds.get(bound, 0.0) + sample.value

    # A bucket counts all observations up to its bound, so the first one with enough of them has the quantile.
    median, high = (min(bound for bound, number in bounds.items() if number >= share * count) for share in (0.5, 0.99))
    return f"{count:,.0f} times, half within {_bound(median)}, 99% within {_bound(high)}"


def _bound(seconds: float) -> str:
    return "the largest bound" if math.isinf(seconds) else f"{seconds:g}"


def _series(sample: Sample) -> str:
    """Return the labels of a series in words."""
    labels = {name: value for name, value in sample.labels.items() if value}
    values = [
        plain(value) if name in ("query", "reason", "kind") else f"{name} {plain(value)}"
        for name, value in labels.items()
    ]
    return " ".join(values) or "(none)"


def _number(sample: Sample) -> str:
    return _amount(sample.name, sample.value)


def _amount(name: str, value: float) -> str:
    if "_bytes" in name and value >= 1e6:
        return f"{value / 1e6:,.1f} MB"
    return f"{value:,.0f}" if value == int(value) else f"{value:,.3g}"


def duration(seconds: float) -> str:
    """Return a time in its largest whole unit."""
    for unit, length in (("day", 86_400), ("hour", 3600), ("minute", 60), ("second", 1)):
        if seconds >= length:
            count = int(seconds // length)
            return f"{count} {unit}{'s' if count > 1 else ''}"
    return "0 seconds"
