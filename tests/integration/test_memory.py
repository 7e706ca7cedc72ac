"""The memory of real processes on a broker. It is check a factor of 1.5 of the result of `hubbub check`."""

import subprocess
import sys
import time
import tomllib
from contextlib import suppress
from itertools import chain, product
from pathlib import Path

import numpy as np
import pytest

from aggregator.plan import memory
from oracles.frame import encode
from oracles.query import parse
from tests import forks
from tests.boards import Board, definition_messages, publish
from tests.brokers import create_topics
from tests.footprints import worker_memory
from tests.integration.workers import Place, Worker, environment, until
from tests.queries import make_text

FACTOR, MIB = 1.5, 1 << 20
TIMES = {"budget": 1e9, "pane": "1s", "lateness": "1s", "skew": "2s", "windows": ["1s", "all"]}
WIDE = [make_text(f"wide-{i}", TIMES, domain=2048, publish="all") for i in range(2)]
BIG = [make_text("big", TIMES, domain=30000)]
LARGE = [make_text("large", TIMES, windows=["1s"], domain=400000, methods=["norm_sub", "calibrate"])]
PARTITIONS = 4
CASES = {"three queries": (WIDE + BIG, 100), "a large one": (LARGE, 40)}
"""The queries, and a number of windows after which a worker has reached its peak."""


def peak(pid):
    """Return the most memory that a process and its child processes have had."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    own = 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
    families = [path.read_text().split() for path in Path(f"/proc/{pid}/task").glob("*/children")]
    return own + sum(peak(child) for child in chain.from_iterable(families))


def frame(query, rng):
    """Return reports of new people. Noise that repeats would prove values that nobody has."""
    answers = np.minimum(rng.geometric(0.01, 200) - 1, 2047)
    return encode(query.digest, int(time.time()), query.oracle.perturb(answers, rng))


def check(estimate, real):
    assert estimate / FACTOR <= real <= FACTOR * estimate, f"estimated {estimate // MIB} MiB, used {real // MIB} MiB"


def board_windows(board):
    with suppress(OSError):
        return board.total("hubbub_board_windows")
    return 0


@pytest.fixture(autouse=True)
def no_forks(monkeypatch):
    """Start real commands. A fork has the modules of all commands in its memory."""
    monkeypatch.setattr(forks, "start", subprocess.Popen)


@pytest.mark.long
@pytest.mark.parametrize("case", CASES)
def test_a_worker_and_a_board_need_the_memory_that_check_prints(kafka, tmp_path, case):
    texts, windows = CASES[case]
    with Place(kafka, tmp_path, "".join(texts), PARTITIONS) as place:
        worker = place.start()
        env = environment(place.kafka, place.file)
        board = Worker([sys.executable, "-m", "hubbub", "board", "--memory", "64MiB"], env, tmp_path, "board")
        place.workers.append(board)
        worker.ready()
        board.ready()
        queries = list(place.queries.values())
        rng = np.random.default_rng(1)
        began = time.monotonic()

        def enough():
            place.send(*[(part, frame(query, rng)) for query, part in product(queries, range(PARTITIONS))])
            time.sleep(0.3)
            return board_windows(board) >= windows

        until(enough, 200)
        seconds = int(time.monotonic() - began)
        check(memory.worker(queries, PARTITIONS).total, peak(worker.process.pid))
        check(memory.board(queries, seconds, 64 * MIB), peak(board.process.pid))


@pytest.mark.long
@pytest.mark.parametrize("limit", [256, 24])
def test_a_board_that_starts_on_long_topics_needs_no_more_memory(kafka, limit):
    """Records on their way from the broker count too. They once took ten times the limit."""
    queries = parse(tomllib.loads("".join(WIDE)), "test", ".")
    records, seconds = [], 240
    worker_memory(list(queries.values()), {}, seconds, records.extend)
    place = create_topics(kafka, 12)
    publish(place, [*definition_messages(queries), *(("estimates", *record) for record in records)])
    with Board(place, "--memory", f"{limit}MiB") as board:
        board.until(board._is_ready, 300)
        check(memory.board(queries.values(), seconds, limit * MIB), peak(board.process.pid))
