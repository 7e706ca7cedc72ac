"""The drills. Each causes a failure, expects an alert, follows its runbook, and waits until the alert is over."""

import signal
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.deploy.stack.causes import (
    HOUR,
    QUARTER,
    SECOND_GATEWAY,
    compose,
    for_gateway,
    jump_clock,
    loop,
    lose_records,
    remove_one_offs,
    repair_brokers,
    send,
    set_quota,
    spoil,
    stop_brokers,
    stop_gateways,
    stop_one,
)
from tests.deploy.stack.stack import Stack


@dataclass(frozen=True)
class Drill:
    """A failure. `relief` ends its cause, before the commands of the runbook's mitigation run."""

    name: str
    alert: str
    """The alert that must fire, or an empty text if nothing above info may."""
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
    Drill(
        "malformed",
        "HubbubRejectsHigh",
        spoil,
        lambda stack: stack.spoiler.stop(),
        {"reason": "malformed"},
        end=HOUR,
        pages=0,
    ),
    Drill("lost-records", "HubbubRecordsLost", lose_records, patience=2 * QUARTER, end=HOUR, pages=2),
    Drill("restart-loop", "HubbubProcessRestarting", loop, labels=WORKER, end=HOUR, pages=0),
]
