"""Brokers that several suites share. A process of pytest starts each of them at most once."""

import gc
import logging
import os
from itertools import chain

import pytest

from aggregator.demo import broker as ports
from tests import brokers, stores
from tests.secured import Secured
from tests.slowness import patience

HANGS = 7_200
"""The seconds after which a long test ends as hung."""


@pytest.fixture(autouse=True)
def handlers_of_the_log():
    """Leave the log as it was. A command that runs in the test writes it to a stream that ends with the test."""
    root = logging.getLogger()
    earlier_handlers = list(root.handlers)
    yield
    root.handlers = earlier_handlers


@pytest.fixture
def unpatched_libraries(monkeypatch):
    """Undo the patches of libraries that come with a Faust app of hubbub. The tests after it would run with them."""
    # Most processes of tests need no Faust.
    from aiokafka import conn
    from aiokafka.consumer import consumer as consumers
    from aiokafka.consumer import fetcher

    from aggregator.counting import faust_patches

    for module, names in {
        fetcher: ("PartitionRecords", "MemoryRecords"),
        conn: ("AIOKafkaProtocol", "AIOKafkaConnection", "io"),
        consumers: ("GroupCoordinator", "Fetcher"),
    }.items():
        for name in names:
            monkeypatch.setattr(module, name, getattr(module, name))
    # Records of a topic that an earlier test installed would still come as runs.
    monkeypatch.setattr(faust_patches, "_sources", set())


@pytest.fixture(scope="session")
def tansu():
    yield from brokers.tansu()


@pytest.fixture(scope="session")
def kafka():
    yield from brokers.kafka(1)


@pytest.fixture(scope="module")
def s3_server():
    """A server of S3. Its bucket lasts as long as the tests of one module."""
    with stores.s3() as server:
        yield server


@pytest.fixture
def store_address(s3_server):
    """The address of a part of the bucket that no other test uses. This process reaches it by its environment."""
    with stores.proxied(s3_server):
        yield stores.unused_address()


@pytest.fixture
def lone_kafka():
    """A broker of Apache Kafka for one test, which may stop it."""
    yield from brokers.kafka(1)


@pytest.fixture(scope="session")
def three_brokers():
    yield from brokers.kafka(3)


@pytest.fixture(scope="module")
def secured_kafka():
    try:
        broker = Secured()
    except brokers.Unavailable as error:
        brokers.skip(error)
    with broker:
        yield broker


@pytest.fixture
def cluster(three_brokers):
    """Three brokers of Apache Kafka. They are repaired after each test."""
    yield three_brokers
    three_brokers.heal()


@pytest.fixture(params=["tansu", "kafka"])
def broker(request):
    """The embedded broker, then Apache Kafka."""
    return request.getfixturevalue(request.param)


APACHE = {"kafka", "lone_kafka", "three_brokers", "secured_kafka"}
"""Fixtures that are brokers of Apache Kafka."""
COSTLY = ("three_brokers", "secured_kafka", "ran")
"""Fixtures that take many seconds to make."""


def pytest_configure():
    """Let no two processes of tests choose one port, because a port is free until its server starts."""
    number = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    ports._PORTS = ports._PORTS[number :: int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))]


@pytest.hookimpl(tryfirst=True)  # xdist reads the groups in the same hook
def pytest_collection_modifyitems(items):
    """Mark tests of Apache Kafka, and give long tests and slow machines more time.

    With xdist, run all tests of a costly fixture in one process, and run them first, then those that wait for long.
    """
    for item in items:
        choice = item.callspec.params.get("broker") if hasattr(item, "callspec") else None
        if choice == "kafka" or (choice is None and APACHE & {*getattr(item, "fixturenames", ())}):
            item.add_marker("apache")
        limit = HANGS if item.get_closest_marker("long") else float(item.config.getini("timeout"))
        item.add_marker(pytest.mark.timeout(patience(limit)))
        for costly in COSTLY:
            if costly in getattr(item, "fixturenames", ()):
                parameter = item.callspec.params.get(costly, "") if hasattr(item, "callspec") else ""
                item.add_marker(pytest.mark.xdist_group(f"{costly} {parameter}".strip()))
    # A test that waits for a minute must not begin when the others are over.
    items.sort(key=lambda item: [item.get_closest_marker(name) is None for name in ("xdist_group", "waits")])


def pytest_collection_finish(session):
    """Check that xdist knows each group. Without it, each process would make the costly fixtures again.

    Then leave all that was imported and collected out of the garbage collection.
    """
    if getattr(session.config.option, "loadgroup", False):
        ids = [item.nodeid for item in session.items if item.get_closest_marker("xdist_group")]
        assert all("@" in name for name in ids), "xdist read the groups before conftest.py made them"
    # Modules and items live as long as the process. Each full collection would visit their millions of objects.
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """If a test fails, show what its brokers of Apache Kafka logged last."""
    report = yield
    if report.failed and call.when != "teardown":
        clusters = [value for value in getattr(item, "funcargs", {}).values() if isinstance(value, brokers.Cluster)]
        for node in dict.fromkeys(node for node in chain.from_iterable(cluster.nodes for cluster in clusters)):
            state = "runs" if node.running else "has ended"
            report.sections.append((f"log of the broker at {node.bootstrap}, which {state}", node.log_end()))
    return report


def pytest_terminal_summary(terminalreporter):
    """Print the notes of tests, also of those that ran in another process."""
    for report in terminalreporter.getreports("passed"):
        for name, text in report.user_properties:
            if name == "note":
                terminalreporter.write_line(text)
