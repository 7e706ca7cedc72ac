"""The audit's fold is that of the tests, however its records come in runs."""

from random import Random

import pytest

from aggregator.counting.tally import encode_snapshot
from aggregator.errors import Guarantee
from aggregator.reading.audit.fold import Fold
from hubbub.definitions import Definitions
from hubbub.definitions.corrections import UNTRUSTED, Correction
from tests.fold import fold
from tests.logs import LIMIT, VERSIONS, random_log


def told(finals):
    return {key: encode_snapshot(total) for key, total in finals.items()}


@pytest.mark.parametrize("seed", range(12))
def test_it_finds_what_a_plain_fold_finds(seed):
    random, partitions = Random(seed), 1 + seed % 3
    log = random_log(random, partitions, 60, embedded=seed % 4 == 0)
    offsets = [offset for offset, *_ in log[0]]
    corrections = (Correction(0, offsets[10], offsets[20], random.choice([None, log[0][5][1]]), log[0][19][1]),)
    audit = Fold(Definitions(VERSIONS, corrections=corrections), partitions, embedded=seed % 4 == 0, limit=LIMIT)
    for partition, records in enumerate(log):
        while records:
            count = random.randrange(1, 20)
            audit.read(partition, records[:count])
            records = records[count:]  # noqa: PLW2901
    found = {
        (versions.query.name, final.span.window, final.span.end): final.total
        for versions in VERSIONS.values()
        for final in audit.finals(versions)
    }
    truth = fold(log, VERSIONS.values(), corrections=corrections, embedded=seed % 4 == 0, limit=LIMIT)
    assert told(found) == told(truth)
    assert found


def test_a_time_that_nobody_vouches_for_ends_it():
    audit = Fold(Definitions(VERSIONS), 1, embedded=False, limit=LIMIT)
    with pytest.raises(Guarantee, match="partition 0, offset 7"):
        audit.read(0, [(7, UNTRUSTED, b"")])
