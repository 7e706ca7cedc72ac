"""What several suites share: brokers, started when first asked for, one of each a process."""

import pytest

from tests import brokers
from tests.secured import Secured

HANGS = 7_200
"""Seconds after which even a long test has hung."""


@pytest.fixture(scope="session")
def tansu():
    yield from brokers.tansu()


@pytest.fixture(scope="session")
def kafka():
    yield from brokers.kafka(1)


@pytest.fixture(scope="session")
def three_brokers():
    yield from brokers.kafka(3)


@pytest.fixture(scope="module")
def secured():
    try:
        broker = Secured()
    except brokers.Unavailable as error:
        brokers.missing(error)
    with broker:
        yield broker


@pytest.fixture
def cluster(three_brokers):
    """Three brokers of Apache Kafka, healed after each test."""
    yield three_brokers
    three_brokers.heal()


@pytest.fixture(params=["tansu", "kafka"])
def broker(request):
    """Each broker in turn: `.bootstrap`, `.embedded`, `.kafka(prefix)`."""
    return request.getfixturevalue(request.param)


def pytest_collection_modifyitems(items):
    """With xdist's `--dist loadgroup` one process runs all that needs one costly thing: another would make its own."""
    for item in items:
        if item.get_closest_marker("long"):
            item.add_marker(pytest.mark.timeout(HANGS))
        for costly in ("three_brokers", "ran"):
            if costly in getattr(item, "fixturenames", ()):
                of = item.callspec.params.get(costly, "") if hasattr(item, "callspec") else ""
                item.add_marker(pytest.mark.xdist_group(f"{costly} {of}".strip()))
