"""The CPU seconds of a worker that starts on a long log."""

import pytest

from benchmarks.recovery import LOGS, measure


@pytest.mark.long
@pytest.mark.parametrize("log", LOGS.values(), ids=LOGS)
def test_a_long_log_adds_at_most_three_bare_reads_to_a_start(log, kafka):
    empty = measure(kafka)
    long = measure(kafka, log)
    assert long.worker <= empty.worker + 3 * long.bare
