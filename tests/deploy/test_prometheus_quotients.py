"""No quotient of a rule or dashboard is infinite, and a restart of a worker makes no alert."""

import json
import re

import pytest

from tests.deploy.observers import ROOT, rules
from tests.deploy.promtool import Rules, series
from tests.deploy.quotients import counted, denominators, unguarded

DASHBOARDS = sorted((ROOT / "deploy" / "grafana").glob("*.json"))
RECORDING = rules("recording.rules.yaml")
WITHOUT_GUARD = {
    "a mean": "sum by (job) (rate(x_sum[5m]))\n/\n  sum by (job) (rate(x_count[5m]))",
    "a share of an hour": "sum by (q) (increase(f_total[1h])) / on (q) group_left\nsum by (q) (increase(r_total[1h]))",
    "a recorded rate": 'sum by (q) (rate(i_total[15m])) / arrived:rate15m{q!=""}',
    "a sum of recorded rates": "rejected:rate / on (ns) group_left () sum by (ns) (arrived:rate15m)",
    "a guard of the quotient": "increase(a_sum[5m]) / increase(a_count[5m]) > 0",
    "the second of two": "a / (increase(b[5m]) > 0) or c / increase(d[5m])",
}
WITH_GUARD = {
    "a guard": "increase(a_sum[5m]) / (increase(a_count[5m]) > 0)",
    "a gauge": "a / b",
    "a path in a label": 'rate(requests_total{route="/v1/reports"}[5m])',
}


def expressions(panel):
    """Yield all expressions of a dashboard."""
    if isinstance(panel, dict):
        for key, value in panel.items():
            if key == "expr":
                yield value
            else:
                yield from expressions(value)
    elif isinstance(panel, list):
        for value in panel:
            yield from expressions(value)


@pytest.mark.parametrize("name", WITHOUT_GUARD)
def test_a_quotient_without_a_guard_is_found(name):
    assert len(unguarded(WITHOUT_GUARD[name], ["arrived:rate15m"])) == 1


@pytest.mark.parametrize("name", WITH_GUARD)
def test_a_quotient_with_a_guard_is_none(name):
    assert unguarded(WITH_GUARD[name], ["arrived:rate15m"]) == []


def test_no_rule_divides_by_a_rate_without_a_guard():
    every = [*RECORDING, *rules("alerts.rules.yaml")]
    assert sum(len(denominators(rule["expr"])) for rule in every) >= 7
    for rule in every:
        assert unguarded(rule["expr"], counted(RECORDING)) == [], rule


@pytest.mark.parametrize("file", DASHBOARDS, ids=lambda file: file.stem)
def test_no_dashboard_divides_by_a_rate_without_a_guard(file):
    for expression in expressions(json.loads(file.read_text())):
        assert unguarded(expression, counted(RECORDING)) == []


INTERVAL = 60
BEFORE = 20
AFTER = 40
"""The scrapes of a life and of the next one. The second is longer than all times that alerts wait."""
LABELS = {"query": "homepage", "flag": "small", "reason": "malformed", "final": "true", "le": "+Inf"}
WORKER = {"namespace": "production", "release": "crowd", "job": "hubbub-worker", "instance": "a:8801"}
ROWS = re.findall(
    r"^\| `(hubbub_\w+)` \| (counter|histogram) \| ([^|]*)\|", (ROOT / "docs" / "metrics.md").read_text(), re.MULTILINE
)
USED = {name for rule in RECORDING for name in re.findall(r"\bhubbub_\w+", rule["expr"])}
COUNTERS = {
    name + part: {key: LABELS[key] for key in re.findall(r"\w+", labels) if key in LABELS}
    for name, kind, labels in ROWS
    for part in (("_sum", "_count") if kind == "histogram" else ("",))
    if name + part in USED
}
"""The counters of workers that recorded rules use, with their labels."""
QUIET = {"HubbubWindowsWithheld", "HubbubImplausibleHigh", "HubbubRecoverySlow", "HubbubCheckpointsFailing"}
"""The alerts of quotients. None is right here, because hardly any report or window is flagged or refused."""
SMALL = {"hubbub_flags_total", "hubbub_rejected_total", "hubbub_rejected_frames_total", "hubbub_implausible_total"}
STEPS = {"larger": 1.5, "equal": 1.0, "smaller": 0.1}


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("counter", [name for name in COUNTERS if "gateway" not in name])
def test_a_restart_on_the_same_address_makes_no_quotient_infinite(tmp_path, counter, step):
    """Only this counter begins anew with another value. The others begin as Prometheus cannot see: where they ended."""
    history = [series("up", [1] * (BEFORE + AFTER), **WORKER)]
    for name, labels in COUNTERS.items():
        rise = 4e-6 if name in SMALL else 4.0
        former = [rise * scrape for scrape in range(BEFORE)]
        start = former[-1] * (STEPS[step] if name == counter else 1.0)
        later = [start if scrape < BEFORE else start + rise * (scrape - BEFORE) for scrape in range(AFTER)]
        history.append(series(name, former + later, **WORKER, **labels))
    starts = [100] * BEFORE + [2000] * AFTER
    history.append(series("process_start_time_seconds", starts, **WORKER))
    rules = Rules(tmp_path, history, INTERVAL)
    for scrape in range(BEFORE, BEFORE + AFTER, 4):
        rules.nothing('{__name__=~"hubbub:.+"} == Inf', scrape * INTERVAL)
        for alert in QUIET:
            rules.alert(alert, scrape * INTERVAL)
    rules.run()
