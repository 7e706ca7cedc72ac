"""The memory that `hubbub check` prints. It is that of a real worker or board, within a factor of 1.5."""

import json
import os
import subprocess
import sys
import tomllib

import pytest

from aggregator.plan import check, check_text, memory
from aggregator.process import state_limit
from oracles.query import parse
from tests.queries import make_text

FACTOR = 1.5
BOTH = 30 << 20
"""Memory of the estimator's modules in a process that plays both the worker and the estimator."""
DAY = 86_400


def queries(*tables):
    return "".join(make_text(f"q{i}", {"budget": 1e9}, **table) for i, table in enumerate(tables))


def read(file):
    return list(parse(tomllib.loads(file), "hubbub.toml", ".").values())


def peak(of, file, seconds, **case):
    """Return the peak memory of a process that runs a case."""
    case |= {"of": of, "file": file, "seconds": seconds}
    command = [sys.executable, "-m", "tests.footprints", json.dumps(case)]
    env = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
    process = subprocess.run(command, capture_output=True, text=True, env=env, check=False)
    assert process.returncode == 0, process.stderr
    return int(process.stdout)


THREE = {"windows": ["10s", "1m/10s", "all"]}
SEVERAL = {"attributes": {"a": 4096, "b": 1000, "c": 2000}, "solution": "smp"} | THREE
QUICK = {
    "a million values": (queries({"domain": 1000000, "oracle": "olh"}), 25, {"partitions": 3}),
    "as many panes as may be": (queries({"domain": 500000, "oracle": "olh"}), 25, {"partitions": 3, "ahead": 1}),
}
LONG = {
    "64 values": (queries({"domain": 64} | THREE), 60, {"partitions": 12}),
    "a fitted prior": (queries({"domain": 400000, "methods": ["calibrate"]}), 40, {"partitions": 12}),
    "long windows": (
        queries({"domain": 65535, "windows": ["10m/10s", "all"]}),
        640,
        {"partitions": 2, "reports": 1000},
    ),
    "twenty": (queries(*[{"domain": 16383} | THREE] * 20), 80, {"partitions": 6, "reports": 1000}),
    "sixty": (queries(*[{"domain": 2047} | THREE] * 60), 70, {"partitions": 12, "reports": 1000}),
    "attributes": (queries(*[SEVERAL] * 10), 70, {"partitions": 6, "reports": 1000}),
    "no crowds": (queries({"domain": 200000, "crowd": 1} | THREE), 80, {"partitions": 3}),
    "bits": (queries({"domain": 50000, "oracle": "oue"} | THREE), 80, {"partitions": 6, "reports": 100}),
    "all values": (queries({"domain": 400000, "publish": "all"}), 40, {"partitions": 3}),
    "a share": (queries({"domain": 400000, "threshold": 0.001}), 40, {"partitions": 3}),
}


def check_ratio(estimate, real):
    assert estimate / FACTOR <= real <= FACTOR * estimate, f"said {estimate >> 20} MiB, peak {real >> 20} MiB"


def workers(file, seconds, case):
    estimate = memory.worker(read(file), case["partitions"], most=bool(case.get("ahead")))
    check_ratio(estimate.total - estimate.estimators + BOTH, peak("worker", file, seconds, **case))


@pytest.mark.parametrize("name", QUICK)
def test_a_worker_needs_the_estimated_memory(name):
    workers(*QUICK[name])


@pytest.mark.long
@pytest.mark.parametrize("name", LONG)
def test_a_worker_needs_the_estimated_memory_for_any_query(name):
    workers(*LONG[name])


ONE = {"windows": ["10s"]}
BOARDS = {
    "small": (queries({"domain": 64} | ONE), 3000),
    "three kinds": (queries({"domain": 1024} | THREE), 3000),
    "all values": (queries({"domain": 100000, "publish": "all"} | ONE), 300),
    "attributes": (queries({"attributes": {"a": 64, "b": 10, "c": 2}} | ONE), 3000),
    "sixty": (queries(*[{"domain": 200} | ONE] * 60), 120),
}


@pytest.mark.long
@pytest.mark.parametrize("name", BOARDS)
@pytest.mark.parametrize("limit", [256 << 20, 24 << 20])
def test_a_board_needs_the_estimated_memory(name, limit):
    file, seconds = BOARDS[name]
    check_ratio(memory.board(read(file), seconds, limit), peak("board", file, seconds, retention=DAY, memory=limit))


def test_the_sums_are_over_all_queries(tmp_path, capsys):
    file = tmp_path / "hubbub.toml"
    file.write_text(queries(*[{"domain": 60000} | THREE] * 3))
    assert check.main([str(file), "--long"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    estimate = memory.worker(read(file.read_text()), 12)
    assert f"A worker with all 12 partitions needs about {check_text.in_bytes(estimate.total)} of memory" in text
    assert "A board needs about" in text
    (query,) = read(queries({"domain": 60000} | THREE))
    assert estimate.tallies == 3 * memory.worker([query], 12).tallies
    assert estimate.publishing == memory.worker([query], 12).publishing, "one after another"


def test_only_processes_that_are_needed_are_summed():
    """Each process starts at its first question."""
    small_query, large_query = read(queries({"domain": 64}, {"domain": 70000}))
    alone = [memory.worker([query], 1).estimators for query in (small_query, large_query)]
    assert alone == [memory.ESTIMATOR, memory.ESTIMATOR]
    assert memory.worker([small_query, large_query], 1).estimators == 2 * memory.ESTIMATOR


def test_queries_that_fit_one_by_one_and_not_together_are_refused(tmp_path, capsys):
    file = tmp_path / "hubbub.toml"
    file.write_text(queries(*[{"domain": 60000}] * 3))
    bytes_of_one = state_limit.worker_bytes(read(file.read_text())[0], 12)
    assert check.main([str(file), "--max-state", str(3 * bytes_of_one)]) == 0
    assert check.main([str(file), "--max-state", str(3 * bytes_of_one - 1)]) == 2
    assert "for the open panes of all 3, above --max-state" in capsys.readouterr().err
