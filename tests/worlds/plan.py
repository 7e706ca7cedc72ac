"""The plan of a world: its faults and the reports that arrive, all drawn before it begins.

Nothing else decides about a world, apart from the small chances of each process. So a plan can be made
smaller, written to a file and run again.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from random import Random
from typing import NamedTuple

from tests.worlds.kinds import KINDS, REGISTRATION
from tests.worlds.mix import MIXES, Mix
from tests.worlds.queries import POOL, START, TABLES, query_file

FIRST_REPORT = 3.0
SUMS = 4
"""In one of so many worlds the finals are whole records. In the others they are the sums of their windows."""
HOSTILE = ("empty", "no JSON", "too short", "too long", "unknown query", "pane between panes", "tick")
"""Forms of records that no honest client sends."""
FORMS = ("binary", "JSON", *HOSTILE)


@dataclass(frozen=True)
class Fault:
    """One fault: its time, its kind, the worker that it strikes, and the details that the kind has."""

    at: float
    kind: str
    pick: int = 0
    """The place of the worker among those that run, modulo their number."""
    details: Mapping = field(default_factory=dict)


class Frame(NamedTuple):
    """One record that a sender appends to `reports`."""

    at: float
    partition: int
    query: str
    pane: int
    rows: tuple[int, ...]
    """The reports, by their places in the pool of the query."""
    id: int | None = None
    """The id, before it is multiplied so that it belongs to the partition."""
    form: str = "binary"
    is_misplaced: bool = False
    """Whether the id belongs to the next partition."""
    group: int = 0
    """The number of the group, or 0 without one."""


@dataclass(frozen=True)
class Plan:
    """The settings, faults and reports of a world."""

    seed: int
    mix: Mix
    is_whole: bool
    """Whether finals are whole records, not sums."""
    queries: tuple[str, ...]
    faults: tuple[Fault, ...]
    frames: tuple[Frame, ...]

    def text(self, **more):
        """Return the plan as text for a file."""
        content = more | asdict(self) | {"frames": [frame._asdict() for frame in self.frames]}
        return json.dumps(content, indent=1) + "\n"


def read(text):
    """Return the plan of a text, and the other members of the text."""
    content = json.loads(text)
    faults = tuple(Fault(**fault) for fault in content.pop("faults"))
    frames = tuple(Frame(**frame | {"rows": tuple(frame["rows"])}) for frame in content.pop("frames"))
    mix = Mix(**content.pop("mix"))
    queries = tuple(content.pop("queries"))
    seed = content.pop("seed")
    return Plan(seed, mix, content.pop("is_whole"), queries, faults, frames), content


def draw(seed, name):
    """Draw the plan of a world."""
    mix = MIXES[name]
    random = Random(f"{name}/{seed}")
    chosen_names = random.sample(sorted(TABLES), mix.queries)
    queries = tuple(name for name in TABLES if name in chosen_names)
    return Plan(seed, mix, seed % SUMS == 0, queries, _faults(mix, random), _frames(mix, random, queries))


def _faults(mix, random):
    times = sorted(random.uniform(0.0, mix.seconds) for _ in range(mix.faults))
    weights = [kind.weight for kind in KINDS.values()]
    faults = []
    for time in times:
        name = random.choices(list(KINDS), weights)[0]
        details = {detail: random.choice(choices) for detail, choices in KINDS[name].details.items()}
        # Definitions are written once, as soon as the first worker starts.
        moment = 0.0 if details.get("target") == REGISTRATION else round(time, 4)
        faults.append(Fault(moment, name, random.randrange(60), details))
    return tuple(faults)


def _frames(mix, random, queries):
    frames = []
    time = FIRST_REPORT
    while time < mix.seconds:
        partition = random.randrange(mix.partitions)
        together = [_frame(random, time, partition, queries) for _ in range(random.choice((1, 1, 1, 2, 4)))]
        if random.random() < 0.1:
            together.append(random.choice(together))  # a retry through another sender
        frames += together
        time = round(time + random.choice((0.05, 0.1, 0.15, 0.4)), 4)
    return tuple(frames)


def _frame(random, time, partition, queries):
    name = random.choice(queries)
    query = query_file().queries[name]
    late = random.choice((0, 0, 0, 0, 0, 0, 0, -5, -5, -10, -60, 5, 15))
    form = "binary"
    if random.random() < 0.05:
        form = random.choice(HOSTILE)
    elif random.random() < 0.2:
        form = "JSON"
    has_id = form in ("binary", "JSON") and (query.require_id or random.random() < 0.6)
    return Frame(
        at=time,
        partition=partition,
        query=name,
        pane=(int(START + time) + late) // query.pane * query.pane,
        rows=tuple(random.randrange(POOL) for _ in range(random.choice((1, 1, 2, 5)))),
        id=random.randrange(1, 9) if has_id else None,
        form=form,
        is_misplaced=has_id and random.random() < 0.03,
        group=random.randrange(query.groups.count),
    )


def with_end(plan, seconds):
    """Return the plan without the faults and reports after so many seconds."""
    return replace(
        plan,
        mix=replace(plan.mix, seconds=seconds),
        faults=tuple(fault for fault in plan.faults if fault.at < seconds),
        frames=tuple(frame for frame in plan.frames if frame.at < seconds),
    )
