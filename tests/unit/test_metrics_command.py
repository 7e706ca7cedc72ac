"""`hubbub metrics` asks real ports, and shows their metrics in words."""

import asyncio

import pytest
from prometheus_client.aiohttp import make_aiohttp_handler

from aggregator.process.metrics import Metrics
from aggregator.reading.metrics import duration, main
from aggregator.worker.lateness import LatenessGauges
from hubbub.http.health import health, serving_alone


def ask(*arguments, metrics=None, ready=None, variable=None, monkeypatch=None):
    """Return the exit code of the command, asked about a port with these metrics."""

    async def run():
        registry = (metrics or Metrics()).registry
        async with serving_alone(health(make_aiohttp_handler(registry), lambda: ready), "127.0.0.1", 0) as (host, port):
            if variable:
                monkeypatch.setenv(variable, str(port))
                return await asyncio.to_thread(main, list(arguments))
            return await asyncio.to_thread(main, ["--url", f"http://{host}:{port}/", *arguments])

    return asyncio.run(run())


def metrics_of_a_day():
    metrics = Metrics()
    metrics.reports.labels("homepage").inc(12_345)
    metrics.reports.labels("emoji").inc(5)
    metrics.rejected.labels("homepage", "late").inc(7)
    metrics.lag_records.labels("3").set(4)
    metrics.tally_bytes.set(12e6)
    lateness = LatenessGauges(lambda: 0, lambda: None)
    lateness.reading_lag = 1.03
    metrics.registry.register(lateness)
    for seconds in (0.002, 0.02, 0.02, 7.0):
        metrics.checkpoint.observe(seconds)
    return metrics


def test_one_of_a_unit_is_no_plural():
    times = {0.4: "0 seconds", 1: "1 second", 59: "59 seconds", 61: "1 minute", 7_200: "2 hours", 90_000: "1 day"}
    assert {seconds: duration(seconds) for seconds in times} == times


def test_important_metrics_are_shown_in_words(capsys):
    assert ask(metrics=metrics_of_a_day()) == 0
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert lines[0].startswith("worker at http://127.0.0.1:")
    assert ": ready, version " in lines[0]
    assert ", running for " in lines[0]
    assert "Reports counted: 12,350 (homepage: 12,345; emoji: 5)" in lines
    assert "Reports refused; query is empty if it is unknown: 7 (homepage late: 7)" in lines
    assert "Records of the partition not read yet: partition 3: 4" in lines
    assert "Seconds by which the slowest partition's clock is behind: 1.03" in lines
    assert "Bytes of memory of the tallies of open panes: 12.0 MB" in lines
    assert any(line.endswith("acknowledgement: 4 times, half within 0.025, 99% within 10") for line in lines)
    assert not any("implausible" in line for line in lines), "counters of 0 are left out"
    assert not any("Virtual" in line for line in lines)


def test_a_metric_is_shown_by_name_with_all_its_series(capsys):
    assert ask("rejected_total", metrics=metrics_of_a_day()) == 0
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()[1:]]
    assert lines[0] == "Reports refused; query is empty if it is unknown (hubbub_rejected_total)"
    assert set(lines[1:]) == {"homepage late: 7", "too_large: 0", "malformed: 0", "unknown_query: 0"}


def test_an_unknown_name_is_an_error(capsys):
    assert ask("nosuch") == 4
    assert "no metric has 'nosuch' in its name" in capsys.readouterr().err


def test_a_process_that_is_not_ready_says_why(capsys):
    assert ask(ready="partition 3 is not recovered") == 0
    assert "not ready: partition 3 is not recovered" in capsys.readouterr().out


@pytest.mark.parametrize("variable", ["HUBBUB_PORT", "HUBBUB_HEALTH_PORT"])
def test_a_container_needs_no_option(variable, capsys, monkeypatch):
    if variable == "HUBBUB_HEALTH_PORT":
        monkeypatch.setenv("HUBBUB_PORT", "1")
    assert ask(variable=variable, monkeypatch=monkeypatch) == 0
    assert "worker at http://127.0.0.1:" in capsys.readouterr().out


def test_no_answer_is_an_error_with_the_remedy(capsys, monkeypatch):
    monkeypatch.setenv("HUBBUB_PORT", "1")
    assert main([]) == 3
    error = capsys.readouterr().err
    assert "no process answers at http://127.0.0.1:1, https://127.0.0.1:1. Name its address with --url" in error


def test_an_address_has_a_scheme(capsys):
    with pytest.raises(SystemExit) as ending:
        main(["--url", "127.0.0.1:8801"])
    assert ending.value.code == 2
    assert "must begin with http:// or https://" in capsys.readouterr().err


def test_foreign_text_cannot_move_the_cursor(capsys):
    metrics = Metrics()
    metrics.reports.labels("a\x1b[2J").inc()
    assert ask(metrics=metrics) == 0
    assert "\x1b" not in capsys.readouterr().out
