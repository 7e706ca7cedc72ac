"""The metrics of processes, with series that exist from the start and the ages of finals."""

import time
from importlib.metadata import version
from itertools import product

import pytest
from prometheus_client import generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as open_metrics
from prometheus_client.parser import text_string_to_metric_families

from aggregator.counting.admission.gate import Reason
from aggregator.process.freshness import Freshness, NewestFinal
from aggregator.process.metrics import FREQUENT, KINDS, REASONS, UNKNOWN, Metrics
from aggregator.records.span import PUBLISH_SECONDS, shortest_expected_age
from aggregator.records.words import ALL_FLAGS
from hubbub.command.metrics import registry
from oracles.kernels import c_library
from tests.queries import make_queries, make_table

TABLE = make_table(domain=8, oracle="grr", budget=8.0, pane="5s", lateness="3s")
QUERIES = make_queries(
    {
        "page": TABLE | {"windows": ["10s", "1m/20s", "all"], "threshold": {"count": 50}},
        "hourly": TABLE | {"windows": ["1h", "1d/1h"], "threshold": 0.25},
    }
)


BOOLEANS = ("false", "true")


def series(registry):
    """Return the value of each series."""
    families = text_string_to_metric_families(generate_latest(registry).decode())
    return {of(sample.name, **sample.labels): sample.value for family in families for sample in family.samples}


def of(name, /, **labels):
    return name, frozenset(labels.items())


def test_a_process_shows_its_version_and_its_resources():
    values = series(registry())
    assert values[of("hubbub_build_info", version=version("hubbub"), kernels=c_library.name())] == 1
    assert values[of("process_resident_memory_bytes")] > 1e6
    assert values[of("process_start_time_seconds")] < time.time()


@pytest.mark.parametrize("write", [generate_latest, open_metrics])
def test_there_are_no_dates_of_creation(write):
    metrics = Metrics()
    metrics.add_queries(QUERIES.values())
    metrics.checkpoint.observe(0.1)
    text = write(metrics.registry).decode()
    assert 'hubbub_reports_total{query="page"} 0.0' in text
    assert "_created" not in text


def test_series_with_known_labels_are_there_from_the_start():
    metrics = Metrics()
    metrics.add_queries(QUERIES.values())
    values = series(metrics.registry)
    names = {of("hubbub_rejected_total", query="", reason=reason) for reason in UNKNOWN}
    for query in QUERIES:
        names |= {of(f"hubbub_{name}_total", query=query) for name in ("reports", "frames", "implausible")}
        names |= {of("hubbub_rejected_total", query=query, reason=reason) for reason in FREQUENT}
    assert {(name, labels) for name, labels in values if "query" in dict(labels)} == names
    assert {values[name] for name in names} == {0.0}


def test_series_of_finals_are_where_a_query_is_merged():
    def of_finals(query):
        names = {of(f"hubbub_{name}_total", query=query) for name in ("records_too_large", "states_too_large")}
        names |= {of("hubbub_records_total", query=query, final=final) for final in BOOLEANS}
        names |= {of("hubbub_flags_total", query=query, flag=flag) for flag in ALL_FLAGS}
        return names | {of("hubbub_alerts_total", query=query, kind=k, baseline=b) for k, b in product(KINDS, BOOLEANS)}

    def known(metrics):
        return {name for name in series(metrics.registry) if "query" in dict(name[1])}

    metrics = Metrics()
    metrics.merge_queries({"page"})
    assert known(metrics) - of_finals("page") == {of("hubbub_rejected_total", query="", reason=r) for r in UNKNOWN}
    assert of_finals("page") <= known(metrics)
    metrics.records.labels("page", "true").inc()
    metrics.merge_queries({"page", "hourly"})
    assert series(metrics.registry)[of("hubbub_records_total", query="page", final="true")] == 1
    metrics.merge_queries({"hourly"})
    assert not of_finals("page") & known(metrics)
    assert of_finals("hourly") <= known(metrics)


def test_every_label_value_in_the_code_is_known():
    assert {str(reason.value) for reason in Reason} == {*REASONS, *UNKNOWN}


def test_a_series_that_counts_is_not_reset_by_knowing_its_query_again():
    metrics = Metrics()
    metrics.reports.labels("page").inc(7)
    metrics.add_queries(QUERIES.values())
    assert series(metrics.registry)[of("hubbub_reports_total", query="page")] == 7


def test_metrics_of_finals_are_removed_when_another_worker_may_merge():
    metrics = Metrics()
    for gauge in (metrics.sigma, metrics.detectable, metrics.threshold, metrics.coverage):
        gauge.labels("page", "").set(0.5)
    metrics.true_mse.labels("page", "", "norm_sub").set(0.5)
    metrics.clear_finals()
    assert not [name for name in series(metrics.registry) if name[0].endswith(("_share", "_mse", "_ratio"))]


def test_the_age_limit_of_a_final_follows_from_its_shortest_step_and_lateness():
    assert shortest_expected_age(QUERIES["page"]) == 5 + 3 + PUBLISH_SECONDS  # `all` shows each pane
    assert shortest_expected_age(QUERIES["hourly"]) == 3600 + 3 + PUBLISH_SECONDS


def test_ages_are_those_of_the_newest_finals():
    process_registry = registry()
    end = int(time.time()) - 100
    process_registry.register(Freshness(lambda: [NewestFinal("page", end, 18), NewestFinal("hourly", None, 3613)]))
    values = series(process_registry)
    assert 100 <= values[of("hubbub_newest_final_age_seconds", query="page")] < 160
    assert values[of("hubbub_newest_final_age_seconds", query="hourly")] == 0
    assert values[of("hubbub_expected_final_age_seconds", query="page")] == 18


def test_a_window_that_ends_in_the_future_has_the_age_zero():
    process_registry = registry()
    process_registry.register(Freshness(lambda: [NewestFinal("page", int(time.time()) + 100, 18)]))
    assert series(process_registry)[of("hubbub_newest_final_age_seconds", query="page")] == 0


def test_a_threshold_is_a_share_of_the_reports():
    page = QUERIES["page"].threshold
    hourly = QUERIES["hourly"].threshold
    assert [page.share(n) for n in (0, 25, 100, 1000)] == [None, 1.0, 0.5, 0.05]
    assert hourly.share(10) == 0.25
