"""A rebalance in the middle of a checkpoint that returns the partition. The worker then recovers the partition."""

import time
from collections import Counter
from itertools import product

import pytest

from tests.integration.queries import PATIENT
from tests.integration.workers import Place, until

STALL = """
import asyncio, os
from aggregator.counting import checkpoint
from aggregator.counting.checkpoint import Checkpoints
from aggregator.counting.checkpoint_plan import CheckpointPlan

checkpoint.INTERVAL = 0.5
PHASE, FOLDER = int(os.environ["CUT_PHASE"]), os.environ["CUT_FOLDER"]
phases, once, send, full = CheckpointPlan.phases, Checkpoints._once, Checkpoints._send, []

async def held(checkpoints, *, whole):
    if not os.path.exists(f"{FOLDER}/hold") and (whole or not os.path.exists(f"{FOLDER}/armed")):
        await once(checkpoints, whole=whole)

def numbered(plan, *rest):
    for number, phase in enumerate(phases(plan, *rest)):
        if number == PHASE and plan.ids and plan.tallies and plan.rejects and os.path.exists(f"{FOLDER}/armed"):
            full.append(plan)
        yield phase

async def rebalanced(group, generation):
    while group.generation == generation:
        await asyncio.sleep(0.01)

async def stalled(checkpoints, *rest, **more):
    both = len(full) == 2
    full.clear()
    acks = await send(checkpoints, *rest, **more)
    if both:
        os.replace(f"{FOLDER}/armed", f"{FOLDER}/cut")
        acks.append(asyncio.ensure_future(rebalanced(checkpoints.counting.group, checkpoints.counting.generation)))
    return acks

CheckpointPlan.phases, Checkpoints._once, Checkpoints._send = numbered, held, stalled
"""
"""While the file `hold` exists there is no checkpoint. The next whole one is cut.

A rebalance precedes the acknowledgement of one phase.
"""

TRIES = 3
"""Rebalances until one interrupts a checkpoint."""


def frames(place, pane, first, count=10):
    """Return `count` frames of one report for each partition, with ids from `first` on."""
    return [
        (partition, place.frame("page", [number % 3], pane, place.partitions * number + partition))
        for partition, number in product(range(place.partitions), range(first, first + count))
    ]


@pytest.mark.long
@pytest.mark.waits
@pytest.mark.parametrize("phase", [0, 1, 2])
def test_a_rebalance_in_a_checkpoint_loses_nothing_and_repeats_nothing(kafka, tmp_path, phase):
    with Place(kafka, tmp_path, PATIENT) as place:
        worker = place.start(patch=STALL, CUT_PHASE=str(phase), CUT_FOLDER=str(tmp_path)).ready()
        pane = int(time.time())
        place.send(*frames(place, pane, 1))
        until(lambda: worker.total("hubbub_frames_total") == 20)
        (tmp_path / "hold").touch()
        rubbish = [(partition, f"rubbish {partition}".encode()) for partition in range(2)]
        place.send(*rubbish, *frames(place, pane, 11))
        until(lambda: worker.total("hubbub_frames_total") == 40 and worker.total("hubbub_rejected_frames_total") == 2)
        (tmp_path / "armed").touch()
        (tmp_path / "hold").unlink()  # the next checkpoint holds both partitions
        until((tmp_path / "cut").exists)
        before = len(worker.events("recovered"))
        second_worker = place.start().ready()
        again = until(lambda: worker.events("recovered")[before:])[0]
        assert again["offsets"], "it has a partition again"
        assert again["kept"] == [], f"what the plan had taken would be missing: {worker.events('recovered')}, {before}"
        place.send(*frames(place, pane, 5, 20))
        for _ in range(TRIES):
            checkpoints = worker.total("hubbub_checkpoint_seconds_count")
            until(lambda count=checkpoints: worker.total("hubbub_checkpoint_seconds_count") > count)
            mine = {int(partition) for partition in worker.events("recovered")[-1]["offsets"]}
            assert second_worker.stop() == 0
            until(lambda: sorted(worker.events("recovered")[-1]["offsets"]) == ["0", "1"])
            kept_partitions = set(worker.events("recovered")[-1]["kept"])
            if kept_partitions == mine:
                break
            second_worker = place.start().ready()
            until(lambda: len(worker.events("recovered")[-1]["offsets"]) == 1)
        assert kept_partitions == mine, "in calm it keeps what it had"
        place.send(*frames(place, pane, 24))
        verdict = place.verdict(pane)
        assert verdict.exact, verdict
        assert verdict.reports >= 20  # 66 at the least, where the machine is not so slow that some are late
        refused = Counter(dict(record.headers)["reason"] for record in place.read("rejects"))
        assert refused[b"malformed"] >= 2
