"""The alerts of a worker that restarts again and again. Each history has scrapes every 15 seconds."""

from itertools import cycle, islice

import pytest

from tests.deploy.promtool import INTERVAL, Rules, series

CALM = 60
"""The scrapes before the fault."""
LOOP = 80
"""The scrapes of the fault, 20 minutes."""
AFTER = 40
LIMIT = 300
"""A critical alert fires within so many seconds."""
BEGINNING = CALM * INTERVAL
END = (CALM + LOOP) * INTERVAL
PLACE = {"namespace": "production", "release": "crowd"}
WORKER = {**PLACE, "job": "hubbub-worker", "instance": "a:8801"}
STALE = {"severity": "critical", **PLACE, "query": "homepage"}
EXPECTED_AGE = 25


def looped(*pattern):
    """Return the values of a fault: a pattern again and again."""
    return [*islice(cycle(pattern), LOOP)]


def history(up, gauge, starts, counter, *, board=False, **labels):
    """Return the series of an installation whose only worker fails. Each argument has the values of that time."""
    worker = {**WORKER, **labels}
    query = {**worker, "query": "homepage"}
    reports = [100 * scrape for scrape in range(CALM)]
    later = [100 * scrape for scrape in range(AFTER)]
    finals = [scrape // 2 for scrape in range(CALM)]
    ages = [10] * CALM + [age if here is not None else None for age, here in zip(looped(0), gauge, strict=True)]
    lines = [
        series("up", [1] * CALM + up + [1] * AFTER, **worker),
        series("process_start_time_seconds", [100] * CALM + starts + [9e5] * AFTER, **worker),
        series("hubbub_unpublished_age_seconds", [0] * CALM + gauge + [0] * AFTER, **query),
        series("hubbub_reports_total", reports + counter + later, **query),
        series("hubbub_records_total", finals + counter + [*range(AFTER)], **query, final="true"),
        series("hubbub_newest_final_age_seconds", ages + [10] * AFTER, **query),
        series("hubbub_expected_final_age_seconds", [EXPECTED_AGE] * CALM + gauge + [EXPECTED_AGE] * AFTER, **query),
    ]
    if board:
        board_labels = {**PLACE, "job": "hubbub-board", "instance": "b:8803", "query": "homepage"}
        growing = [10 + INTERVAL * scrape for scrape in range(LOOP)]
        lines.append(series("hubbub_newest_final_age_seconds", [10] * CALM + growing + [10] * AFTER, **board_labels))
    return lines


NONE = looped(None)
ZERO = looped(0)
ONCE = looped(0, None, None, None)
"""In one scrape of four, and 0 then."""
STARTS = [1000 + 15 * scrape for scrape in range(LOOP)]
LOOPS = {
    "the gauge is there in one scrape of four": (looped(1, 0, 0, 0), ONCE, STARTS, ONCE),
    "the gauge is always 0": (looped(1), ZERO, STARTS, ZERO),
    "the gauge is absent": (looped(1), NONE, STARTS, ZERO),
    "up changes with every scrape": (looped(1, 0), looped(0, None), [*looped(1, None)], looped(0, None)),
    "each life counts no report": (looped(1, 1, 0), looped(0, 0, None), STARTS, looped(0, 0, None)),
    "every life ends during the recovery": (looped(1, 1, 1, 0), NONE, STARTS, NONE),
    "each life counts reports, and publishes nothing": (looped(1), ZERO, STARTS, ZERO),
}


@pytest.mark.parametrize("board", [False, True], ids=["no board", "a board"])
@pytest.mark.parametrize("name", LOOPS)
def test_a_loop_pages_until_finals_come_again(tmp_path, name, board):
    rules = Rules(tmp_path, history(*LOOPS[name], board=board))
    rules.alert("HubbubFinalsStale", BEGINNING)
    rules.alert("HubbubFinalsStale", BEGINNING + LIMIT, STALE)
    for minute in range(6, 20, 2):
        rules.alert("HubbubFinalsStale", BEGINNING + 60 * minute, STALE)
    rules.alert("HubbubFinalsStale", END + 60)
    rules.run()


def test_a_long_recovery_after_a_loop_does_not_end_the_alert(tmp_path):
    up = looped(1, 0)[:40] + [1] * 40
    starts = STARTS[:40] + [2000] * 40
    rules = Rules(tmp_path, history(up, NONE, starts, NONE))
    rules.alert("HubbubFinalsStale", END - 30, STALE)
    rules.alert("HubbubFinalsStale", END + 60)
    rules.run()


def test_a_loop_in_one_installation_pages_nothing_for_another(tmp_path):
    other = {**PLACE, "release": "other"}
    well = [1] * LOOP
    counter = [6000 + 100 * scrape for scrape in range(LOOP)]
    second = [
        line
        for line in history(well, [0] * LOOP, [100] * LOOP, counter, instance="c:8801", release="other")
        if "newest_final" not in line["series"]
    ]
    age = series("hubbub_newest_final_age_seconds", [10] * (CALM + LOOP), **other, query="homepage", instance="c:8801")
    rules = Rules(tmp_path, [*history(*LOOPS["up changes with every scrape"]), *second, age])
    rules.alert("HubbubFinalsStale", BEGINNING + LIMIT, STALE)
    rules.alert("HubbubFinalsStale", END - 60, STALE)
    rules.run()


def test_no_worker_of_a_loop_pages(tmp_path):
    rules = Rules(tmp_path, history(*LOOPS["the gauge is there in one scrape of four"]))
    rules.alert("HubbubNoWorker", BEGINNING)
    rules.alert("HubbubNoWorker", BEGINNING + LIMIT, {"severity": "critical", **PLACE, "job": "hubbub-worker"})
    rules.alert("HubbubNoWorker", END + 240)
    rules.run()


HOVERING = (1, 0) * 6 + (1, 1, 0) * 3
"""The share without a worker is a half, then a third. The alert needs 0.4."""


def test_no_worker_fires_on_while_a_loop_hovers_at_its_share(tmp_path):
    """An alert that ends before Alertmanager's first look pages nobody."""
    up = looped(*HOVERING)
    gauge = [0 if alive else None for alive in up]
    rules = Rules(tmp_path, history(up, gauge, [*looped(1, None)], gauge))
    for seconds in range(BEGINNING + LIMIT, END, INTERVAL):
        rules.alert("HubbubNoWorker", seconds, {"severity": "critical", **PLACE, "job": "hubbub-worker"})
    rules.alert("HubbubNoWorker", END + 240)
    rules.run()


GAUGES = {
    "HubbubDefinitionsBehind": ("hubbub_definitions_behind", 1, 0, ["instance"]),
    "HubbubDefinitionsUnread": ("hubbub_definitions_unread", 1, 0, []),
    "HubbubClockAhead": ("hubbub_clock_ahead_seconds", 5, 0, ["partition"]),
    "HubbubLagGrowing": ("hubbub_lag_records", 2000, 10, ["partition"]),
}
"""The gauge of each alert, its value at first, its growth with each scrape, and the labels that the alert keeps."""
CRITICAL = ("HubbubClockAhead",)


def test_alerts_of_a_process_see_it_in_one_scrape_of_four(tmp_path):
    length = CALM + 4 * LOOP
    last = (length - 1) * INTERVAL
    labels = {**WORKER, "partition": "3"}
    lines = []
    for metric, value, growth, _ in GAUGES.values():
        values = [None if scrape % 4 else value + growth * scrape for scrape in range(length)]
        lines.append(series(metric, values, **labels))

    rules = Rules(tmp_path, lines)
    for name, (_, _, _, own_labels) in GAUGES.items():
        severity = "critical" if name in CRITICAL else "warning"
        rules.alert(name, last, {"severity": severity, **PLACE, **{label: labels[label] for label in own_labels}})
    rules.run()


def worker(instance, *, down=(), late=0):
    """Return a worker that is away for some scrapes, and says then that a window is late."""
    labels = {**WORKER, "instance": instance}
    length = CALM + LOOP
    away = set(down)
    back = max(away, default=0) + 1
    starts = [1000 if scrape > max(away, default=length) else 100 for scrape in range(length)]
    ages = [None if scrape in away else late * (scrape == back) for scrape in range(length)]
    return [
        series("up", [0 if scrape in away else 1 for scrape in range(length)], **labels),
        series("process_start_time_seconds", starts, **labels),
        series("hubbub_unpublished_age_seconds", ages, **labels, query="homepage"),
    ]


def finals(length, *, stops=None):
    """Return the reports and finals of a query, which the worker d counts and publishes."""
    labels = {**WORKER, "instance": "d:8801", "query": "homepage"}
    stops = length if stops is None else stops
    reports = [100 * min(scrape, stops) for scrape in range(length)]
    ages = [10 + INTERVAL * max(0, scrape - stops) for scrape in range(length)]
    return [
        series("hubbub_reports_total", reports, **labels),
        series("hubbub_newest_final_age_seconds", ages, **labels),
        series("hubbub_expected_final_age_seconds", [EXPECTED_AGE] * length, **labels),
    ]


def pages(rules):
    """Expect no critical alert at any time."""
    for name in ("HubbubFinalsStale", "HubbubNoWorker", "HubbubNoGateway"):
        for seconds in range(0, (CALM + LOOP) * INTERVAL, 30):
            rules.alert(name, seconds)
    rules.run()


def test_a_roll_of_three_workers_pages_nobody(tmp_path):
    restarts = {"a:8801": (60, 61), "b:8801": (64, 65), "d:8801": (68, 69)}
    lines = [line for name, down in restarts.items() for line in worker(name, down=down, late=45)]
    pages(Rules(tmp_path, [*lines, *finals(CALM + LOOP)]))


def test_clients_that_stop_page_nobody(tmp_path):
    pages(Rules(tmp_path, [*worker("d:8801"), *finals(CALM + LOOP, stops=CALM)]))


def test_one_worker_of_two_in_a_loop_is_a_warning(tmp_path):
    length = CALM + LOOP
    loop = {**WORKER, "instance": "a:8801"}
    starts = [100] * CALM + STARTS
    looper = [series("up", [1] * CALM + looped(1, 0), **loop), series("process_start_time_seconds", starts, **loop)]
    rules = Rules(tmp_path, [*looper, *worker("d:8801"), *finals(length)])
    last = (length - 1) * INTERVAL
    rules.alert("HubbubProcessRestarting", last, {"severity": "warning", **loop})
    pages(rules)


def checkpoints(counts, lags, starts):
    """Return the series of the checkpoints of a worker with one partition."""
    return [
        series("hubbub_checkpoint_seconds_count", counts, **WORKER),
        series("hubbub_lag_records", lags, **WORKER, partition="0"),
        series("process_start_time_seconds", starts, **WORKER),
    ]


def test_a_worker_that_saves_nothing_pages_though_most_scrapes_fail(tmp_path):
    counts = [*range(CALM), *looped(CALM, None, None, None)]
    there = [0] * CALM + ONCE
    rules = Rules(tmp_path, checkpoints(counts, there, [100 if count is not None else None for count in counts]))
    rules.alert("HubbubCheckpointsFailing", BEGINNING)
    for seconds in range(BEGINNING + 660, END, INTERVAL):
        rules.alert("HubbubCheckpointsFailing", seconds, {"severity": "critical", **WORKER})
    rules.run()


def test_a_worker_that_saves_slowly_pages_though_most_scrapes_fail(tmp_path):
    counts = [*range(CALM), *(None if scrape % 4 else CALM + scrape // 4 for scrape in range(LOOP))]
    sums = [count and (count if count < CALM else CALM + 14 * (count - CALM)) for count in counts]
    lines = checkpoints(counts, [0] * CALM + ONCE, [100 if count is not None else None for count in counts])
    rules = Rules(tmp_path, [*lines, series("hubbub_checkpoint_seconds_sum", sums, **WORKER)])
    place = {**PLACE, "instance": WORKER["instance"]}
    for seconds in range(BEGINNING + 660, END, INTERVAL):
        rules.alert("HubbubCheckpointsFailing", seconds, {"severity": "critical", **place})
    rules.run()


def test_a_worker_in_a_loop_is_no_page_about_checkpoints(tmp_path):
    """Another worker may publish for it, and if none does, HubbubFinalsStale pages."""
    rules = Rules(tmp_path, checkpoints([*range(CALM), *ZERO], [0] * (CALM + LOOP), [100] * CALM + STARTS))
    for seconds in range(0, END, INTERVAL):
        rules.alert("HubbubCheckpointsFailing", seconds)
    rules.run()


FAULTS = {
    "HubbubRecordsLost": ("hubbub_lost_records_total", {}, "critical", False),
    "HubbubRecordsTooLarge": ("hubbub_records_too_large_total", {"query": "homepage"}, "warning", True),
    "HubbubPoisoningSuspected": ("hubbub_flags_total", {"query": "homepage", "flag": "skewed"}, "warning", True),
    "HubbubWindowsIncomplete": ("hubbub_flags_total", {"query": "homepage", "flag": "incomplete"}, "warning", True),
    "HubbubIdsOverflow": ("hubbub_flags_total", {"query": "homepage", "flag": "ids_overflow"}, "warning", True),
}
"""The counter of each alert, its labels, the severity of the alert, and whether it names the query."""


@pytest.mark.parametrize("life", ["a new address", "the same address"])
def test_a_fault_found_before_the_first_scrape_of_a_worker_is_an_alert(tmp_path, life):
    """Kafka deletes reports while no worker runs, so the next worker finds the loss as it starts."""
    new = {**WORKER, "instance": "b:8801"} if life == "a new address" else WORKER
    former = [7] * CALM if life == "the same address" else [None] * CALM
    starts = ([-5000] if life == "the same address" else [None]) * CALM + [BEGINNING - 10] * LOOP
    lines = [series("process_start_time_seconds", starts, **new)]
    for metric, labels in {metric: labels for metric, labels, *_ in FAULTS.values()}.items():
        for flag in ("skewed", "incomplete", "ids_overflow") if "flag" in labels else (None,):
            own = {**labels, "flag": flag} if flag else labels
            lines.append(series(metric, former + [7] * LOOP, **new, **own))

    rules = Rules(tmp_path, lines)
    for name, (_, _, severity, has_query) in FAULTS.items():
        query = {"query": "homepage"} if has_query else {}
        rules.alert(name, BEGINNING - INTERVAL)
        rules.alert(name, BEGINNING + 60, {"severity": severity, **PLACE, **query})
    rules.alert("HubbubRecordsLost", BEGINNING + 960)
    rules.run()
