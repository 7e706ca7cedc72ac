"""The kinds of faults: how often each happens, and the values that its details may have."""

from collections.abc import Mapping
from typing import NamedTuple

from hubbub.kafka.settings import CHANGELOG, CLOCKS, ESTIMATES, REPORTS, SNAPSHOTS
from tests.worlds import strange

LONGEST_FREEZE = 11.0
"""Seconds. It is shorter than the scaled lag of compaction, which bounds how long a worker may sleep."""
REGISTRATION = "queries  write"
TARGETS = (
    f"{CHANGELOG} ids write",
    f"{CHANGELOG} tally write",
    f"{CHANGELOG} progress write",
    f"{CHANGELOG} progress deletion",
    f"{CHANGELOG} tally deletion",
    f"{SNAPSHOTS} closed write",
    f"{CLOCKS} clock write",
    f"{CLOCKS} clock deletion",
    f"{SNAPSHOTS} merged write",
    f"{SNAPSHOTS} state write",
    f"{SNAPSHOTS} closed deletion",
    f"{SNAPSHOTS} merged deletion",
    f"{SNAPSHOTS} state deletion",
    "rejects  write",
    "estimates  write",
    "alerts  write",
    REGISTRATION,
)
"""The kinds of writes that an aimed fault waits for: the topic, the first part of the key, and write or deletion."""


class Kind(NamedTuple):
    """One kind of fault."""

    weight: int
    """How often it happens, beside the other kinds."""
    details: Mapping[str, tuple]
    """The values that each detail may have."""


AIM = {"target": TARGETS, "is_acked": (True, True, True, False, False)}
PLACES = tuple(range(12))
"""Partitions, modulo the number that the topic has."""
KINDS = {
    "kill": Kind(6, {}),
    "aimed kill": Kind(11, AIM | {"steps": (1, 1, 2, 3, 5, 8, 20)}),
    # Longer than a session, so that others own its partitions when it wakes.
    "aimed freeze": Kind(7, AIM | {"seconds": (7.0, 9.0, LONGEST_FREEZE)}),
    # The checkpoint is still open when the rebalance comes.
    "aimed rebalance": Kind(5, AIM | {"seconds": (2.0, 4.0)}),
    "aimed stop": Kind(3, AIM),
    "aimed offline": Kind(3, AIM | {"seconds": (1.0, 3.0, 8.0)}),
    "freeze": Kind(2, {"seconds": (1.0, 3.0, 7.0, LONGEST_FREEZE)}),
    "slow": Kind(2, {"seconds": (0.02, 0.1)}),
    "stop": Kind(2, {}),
    "start": Kind(3, {}),
    "rebalance": Kind(4, {}),
    "offline": Kind(2, {"seconds": (1.0, 3.0, 8.0)}),
    "no leader": Kind(
        4,
        {
            "topic": (CHANGELOG, SNAPSHOTS, CLOCKS, REPORTS, ESTIMATES),
            "partition": PLACES,
            "seconds": (0.5, 2.0, 5.0),
        },
    ),
    "new leader": Kind(
        4,
        {
            "topic": (CHANGELOG, SNAPSHOTS, CLOCKS, REPORTS),
            "partition": PLACES,
            "seconds": (0.2, 1.0),
            "records": (1, 2, 3, 5, 8, 13, 19),
            "skew_ms": (0, 0, -400, 300),
        },
    ),
    "compaction": Kind(4, {"partitions": tuple(range(1, 8))}),
    "clock": Kind(2, {"partition": PLACES, "skew_ms": (-1500, 800, 0)}),
    "retention": Kind(2, {"partition": PLACES}),
    # Mostly upwards: a file of an older revision changes nothing.
    "new file": Kind(2, {"revision": (1, 2, 2, 3, 3)}),
    "strange record": Kind(4, {"topic": tuple(strange.TOPICS), "partition": PLACES, "key": PLACES, "value": PLACES}),
}
