"""The memory of real processes under a broker is what `hubbub check` says of them, within a factor of 1.5."""

import sys
import time
import tomllib
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from aggregator.plan import memory
from oracles.query import parse
from tests.boards import Board, defined, publish
from tests.brokers import prepared
from tests.footprints import worked
from tests.integration.workers import Place, Worker, environment, until

pytestmark = pytest.mark.long

FACTOR, MIB = 1.5, 1 << 20
QUERY = '[queries.{}]\nepsilon = 1.0\nbudget = 1e9\npane = "2s"\nlateness = "1s"\nskew = "2s"\n'
QUERY += 'windows = ["2s", "all"]\n{}\n'
WIDE = [QUERY.format(f"wide-{i}", 'domain = 2048\npublish = "all"') for i in range(2)]
BIG = [QUERY.format(f"big-{i}", "domain = 30000") for i in range(1)]


def highest(process):
    lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


def within(said, real):
    assert said / FACTOR <= real <= FACTOR * said, f"said {said // MIB} MiB, taken {real // MIB} MiB"


def kept(board):
    with suppress(OSError):
        return board.total("hubbub_board_windows")
    return 0


def test_a_worker_and_a_board_take_what_check_says(kafka, tmp_path):
    with Place(kafka, tmp_path, "".join(WIDE + BIG), partitions=4) as place:
        worker = place.start()
        env = environment(place.kafka, place.file)
        board = Worker([sys.executable, "-m", "hubbub", "board", "--memory", "64MiB"], env, tmp_path, "board")
        place.workers.append(board)
        worker.ready()
        board.ready()
        queries = list(place.queries.values())
        answers = np.minimum(np.random.default_rng(1).geometric(0.01, 200) - 1, 2047)
        began = time.monotonic()

        def enough():
            place.send(*[(part, place.frame(query.name, answers)) for query in queries for part in range(4)])
            time.sleep(0.5)
            return kept(board) >= 300

        until(enough, 600)
        seconds = int(time.monotonic() - began)
        within(memory.worker(queries, 4).total, highest(worker.process))
        within(memory.board(queries, seconds, 64 * MIB), highest(board.process))


@pytest.mark.parametrize("limit", [256, 24])
def test_a_board_that_begins_with_long_topics_takes_no_more(kafka, limit):
    """What is on its way from the broker counts too: once ten times what was to be kept."""
    queries = parse(tomllib.loads("".join(WIDE)), "test", ".")
    records, seconds = [], 240
    worked(list(queries.values()), {}, seconds, records.extend)
    place = prepared(kafka, 12)
    publish(place, [*defined(queries), *(("estimates", *record) for record in records)])
    with Board(place, "--memory", f"{limit}MiB") as board:
        board.until(board._is_ready, 300)
        within(memory.board(queries.values(), seconds, limit * MIB), highest(board.process))
