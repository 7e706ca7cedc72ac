"""The audit counts like the simple fold of the tests, for any division of the records into runs."""

from random import Random

import pytest

from aggregator.errors import Guarantee
from aggregator.reading.audit.fold import Fold
from aggregator.tallies.snapshot import encode_snapshot
from hubbub.definitions.catalog import Definitions
from hubbub.kafka.columns import UNTRUSTED
from tests.fold import fold
from tests.logs import LIMIT, VERSIONS, random_log


def encode_finals(finals):
    return {key: encode_snapshot(total) for key, total in finals.items()}


@pytest.mark.parametrize("seed", range(12))
def test_the_audit_has_the_counts_of_the_fold(seed):
    random, partitions = Random(seed), 1 + seed % 3
    log = random_log(random, partitions, 60, log_has_time=seed % 4 != 0)
    audit = Fold(Definitions(VERSIONS), partitions, log_has_time=seed % 4 != 0, limit=LIMIT)
    for partition, records in enumerate(log):
        while records:
            count = random.randrange(1, 20)
            audit.read(partition, records[:count])
            records = records[count:]  # noqa: PLW2901
    totals = {
        (versions.query.name, final.span.window, final.span.end): final.total
        for versions in VERSIONS.values()
        for final in audit.finals(versions)
    }
    truth = fold(log, VERSIONS.values(), log_has_time=seed % 4 != 0, limit=LIMIT)
    assert encode_finals(totals) == encode_finals(truth)
    assert totals


def test_a_record_without_a_broker_timestamp_stops_the_audit():
    audit = Fold(Definitions(VERSIONS), 1, log_has_time=True, limit=LIMIT)
    with pytest.raises(Guarantee, match="partition 0, offset 7"):
        audit.read(0, [(7, UNTRUSTED, b"")])
