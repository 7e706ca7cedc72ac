"""What a start costs on a long log, in CPU seconds of the worker's process."""

import pytest

from benchmarks.recovery import LOGS, measure


@pytest.mark.long
@pytest.mark.parametrize("log", LOGS.values(), ids=LOGS)
def test_a_start_takes_at_most_three_bare_readings_beyond_one_on_empty_topics(log, kafka, tmp_path):
    empty, found = measure(kafka, tmp_path), measure(kafka, tmp_path, log)
    assert found.worker <= empty.worker + 3 * found.bare
