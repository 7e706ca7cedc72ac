"""The drills. Each causes a failure, expects an alert, follows its runbook, and waits until the alert is over."""

import signal
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.deploy.stack.causes import (
    HOUR,
    QUARTER,
    SECOND_GATEWAY,
    age_file,
    compose,
    delete_unreadable,
    end_many_queries,
    end_trouble,
    for_gateway,
    jump_clock,
    kill_workers,
    kill_workers_of_many_queries,
    limit_records,
    loop,
    lose_records,
    remove_one_offs,
    renew_certificate,
    renew_file,
    repair_brokers,
    send,
    send_late,
    set_clock,
    set_quota,
    spoil,
    spoil_definitions,
    spoil_estimates,
    start_stray,
    stop_brokers,
    stop_gateways,
    stop_one,
    use_short_certificate,
    without_typing,
)
from tests.deploy.stack.stack import Stack


@dataclass(frozen=True)
class Drill:
    """A failure. `relief` ends its cause, before the commands of the runbook's mitigation run."""

    name: str
    alert: str
    """The alert that must fire, or an empty text if nobody may be paged."""
    cause: Callable[[Stack], object]
    relief: Callable[[Stack], object] = lambda _: None
    labels: dict[str, str] = field(default_factory=dict)
    mute: tuple[str, ...] = ()
    """Services that do not answer during the failure."""
    fixes: Callable[[str], list[str]] = lambda line: [line]
    """Returns the commands for a line of the mitigation, if the page lets the reader replace a word."""
    patience: float = QUARTER
    end: float = QUARTER
    """The longest time until the alert is over, in seconds."""
    pages: int = 1
    """The most pages of one failure. The alerts that come one after another while it lasts may each be one."""
    instead: tuple[str, ...] = ()
    """Alerts of the same failure, of which one may come first and hide the others."""


WORKER, GATEWAY = {"job": "hubbub-worker"}, {"job": "hubbub-gateway"}
DRILLS = [
    Drill("last-worker", "HubbubNoWorker", compose("stop", "worker"), labels=WORKER, mute=("worker",)),
    Drill("one-worker", "HubbubProcessDown", stop_one("hubbub-worker-2"), labels=WORKER, pages=0),
    Drill("one-gateway", "HubbubProcessDown", compose("stop", "gateway"), labels=GATEWAY, fixes=for_gateway, pages=0),
    Drill(
        "both-gateways",
        "HubbubNoGateway",
        stop_gateways,
        lambda stack: (remove_one_offs("gateway")(stack), stack.must(SECOND_GATEWAY)),
        mute=("gateway",),
    ),
    Drill("broker-frozen", "HubbubWritesWaiting", send(signal.SIGSTOP), send(signal.SIGCONT), mute=("kafka",), pages=2),
    Drill(
        "broker-gone",
        "HubbubNoWorker",  # workers exit after at most 300 s without a broker
        stop_brokers,
        repair_brokers,
        mute=("kafka", "worker"),
        pages=3,
    ),
    Drill(
        "surge",
        "HubbubHitterSurging",
        # A second crowd, as large as the first, in which nearly everybody has the first value.
        compose("run --detach simulator simulate --query homepage --clients 20000 --values zipf:6"),
        remove_one_offs("simulator"),
        mute=("board",),  # `timeout` ends `hubbub tail`
        pages=0,
    ),
    Drill("clock-ahead", "HubbubClockAhead", jump_clock(300)),
    Drill("quota", "HubbubQuotaExhausted", set_quota(100), set_quota(100_000), pages=0),
    Drill("malformed", "HubbubRejectsHigh", spoil, end_trouble, {"reason": "malformed"}, end=HOUR, pages=0),
    Drill("lost-records", "HubbubRecordsLost", lose_records, patience=2 * QUARTER, end=HOUR, pages=2),
    Drill("restart-loop", "HubbubProcessRestarting", loop, labels=WORKER, end=HOUR, pages=0),
    Drill(
        "crash-loop",
        "HubbubFinalsStale",
        kill_workers,
        end_trouble,
        mute=("worker",),
        instead=("HubbubNoWorker",),
        pages=2,
    ),
    Drill("stray-worker", "", start_stray, remove_one_offs("worker"), pages=0),
    Drill(
        "certificate",
        "HubbubCertificateExpiring",
        use_short_certificate,
        renew_certificate,
        {"severity": "critical"},
    ),
    Drill("own-clock", "HubbubClockWrong", set_clock("worker", 60), set_clock("worker", 0), pages=0),
    Drill("old-file", "HubbubDefinitionsBehind", age_file, renew_file, patience=HOUR, pages=0),
    Drill(
        "unreadable-definition",
        "HubbubDefinitionsUnread",
        spoil_definitions,
        delete_unreadable,
        fixes=without_typing,
        pages=0,
    ),
    Drill("unreadable-record", "HubbubBoardUnreadable", spoil_estimates, end=HOUR, pages=0),
    Drill("late-reports", "HubbubLateHigh", send_late, end_trouble, end=HOUR, pages=0),
    Drill("large-records", "HubbubRecordsTooLarge", limit_records, end=2 * HOUR),
    # The last one, because the workers keep its queries.
    Drill(
        "many-queries",
        "HubbubFinalsStale",
        kill_workers_of_many_queries,
        end_many_queries,
        mute=("worker",),
        instead=("HubbubNoWorker",),
        pages=2,
    ),
]
UNDRILLED = {
    "HubbubRecoverySlow": "a recovery of more than a minute needs a changelog of a day",
    "HubbubCheckpointsFailing": "Kafka must acknowledge slowly for minutes; a frozen broker ends the workers before",
    "HubbubLagGrowing": "it needs a load above the limit of a core, and limits hold with runc only",
    "HubbubReadingBehind": "as HubbubLagGrowing",
    "HubbubPublishingBehind": "as HubbubLagGrowing",
    "HubbubGatewaySlow": "as HubbubLagGrowing",
    "HubbubGatewayErrors": "a broker that fails for so long brings HubbubWritesWaiting and HubbubNoWorker first",
    "HubbubImplausibleHigh": "the query of compose.yaml has an oracle without implausible reports",
    "HubbubPoisoningSuspected": "as HubbubImplausibleHigh",
    "HubbubAccuracyLow": "it follows from the number of people, and not from a failure",
    "HubbubWindowsWithheld": "as HubbubAccuracyLow",
    "HubbubWindowsIncomplete": "HubbubRecordsLost hides it",
    "HubbubIdsOverflow": "it needs a million ids in one pane",
    "HubbubSinkBehind": "drills start no sink; tests/unit/test_sink_store.py lets its store fail",
    "HubbubSinkGap": "as HubbubSinkBehind",
    "HubbubSinkDown": "as HubbubSinkBehind",
}
"""The alerts above info without a drill, and the reasons. Tests of the rules show all of them."""
