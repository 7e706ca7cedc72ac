"""Count how often each fault met each phase of a worker: python -m tests.worlds.coverage --worlds 2000.

A phase lasts from a write of a worker to its next one, so these are the places between any two writes of a checkpoint,
of finals and their states, of a recovery and of a registration.
"""

import argparse
import sys
from collections import Counter

from tests.worlds.faults import phase
from tests.worlds.kinds import TARGETS
from tests.worlds.process import RECOVERED, RECOVERING, STARTING
from tests.worlds.run import MIX, results

WORLDS = 2000
FAULTS = ("kill", "freeze", "rebalance", "stop", "offline")
"""The faults that meet a worker. The others meet the log."""
PHASES = (
    STARTING,
    RECOVERING,
    RECOVERED,
    *(phase(target, is_acked=is_acked) for target in TARGETS for is_acked in (False, True)),
)


def empty_cells(meetings):
    """Return the faults and phases that never met."""
    return [(fault, name) for name in PHASES for fault in FAULTS if not meetings[fault, name]]


def table(meetings):
    """Return the lines of the report."""
    width = max(map(len, PHASES))
    lines = [f"{'phase':{width}} " + " ".join(f"{fault:>9}" for fault in FAULTS)]
    rows = ((name, " ".join(f"{meetings[fault, name]:9}" for fault in FAULTS)) for name in PHASES)
    return lines + [f"{name:{width}} {cells}" for name, cells in rows]


def main(arguments):
    parser = argparse.ArgumentParser(prog="python -m tests.worlds.coverage", description=__doc__.splitlines()[0])
    parser.add_argument("--worlds", type=int, default=WORLDS, help="worlds from seed 0 (default: %(default)s)")
    parser.add_argument("--mix", default=MIX, help="how often each fault happens")
    options = parser.parse_args(arguments)

    meetings = Counter()
    failures = 0
    for result in results(range(options.worlds), options.mix):
        meetings += result.meetings
        failures += bool(result.violations)

    empty = empty_cells(meetings)
    lines = [*table(meetings), *(f"never met: {fault}, {name}" for fault, name in empty)]
    lines.append(f"{options.worlds} worlds, {failures} found, {len(empty)} of {len(PHASES) * len(FAULTS)} cells empty")
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    return int(bool(empty))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
