"""All attacks of the table, with the service of honest clients beside each: `make hostile`.

python -m tests.hostile.campaign [ROUNDS] [WORD ...]       with words, only rows that have all of them

The port has a core of its own, if there are two. A row whose machine had other work is printed, but its times are not
judged. Progress goes to the standard error.
"""

import asyncio
import os
import subprocess
import sys
import time

from benchmarks.harness import show
from tests.hostile.attacks import ATTACKS
from tests.hostile.load import QUIET, OtherWork
from tests.hostile.namespace import in_namespace, is_in_namespace, may_have_namespace
from tests.hostile.trial import LEAST, memory_limit, port, trial

PLACES = 1_000
"""Places of the port, and connections of the attackers."""
HONEST = 10
ROUNDS = 4
"""Rounds of requests of a row, each with one of every honest client."""
PAUSE = 0.5
"""Seconds between two rounds."""
START = 4.0
"""Seconds that a port and its attackers take to start, for the first estimate of the whole time."""


def main(rounds, words):
    """Print the table. Return 1 if the claim of SECURITY.md does not hold."""
    has_ipv6 = is_in_namespace()
    if not has_ipv6:
        show("No network namespace, so the rows from a /48 are missing.\n")
    attacks = [attack for attack in ATTACKS if all(word in str(attack) for word in words)]
    attacks = [attack for attack in attacks if has_ipv6 or "IPv6" not in attack.source]

    work = OtherWork()
    time.sleep(1.0)
    cores = work.cores()
    show(f"{len(attacks)} rows, about {_minutes(len(attacks) * (START + rounds * PAUSE))}.")
    if cores >= QUIET:
        show(f"This machine is busy: other work uses {cores:.1f} of its {os.cpu_count()} cores.")
    show(f"Times are judged only in rows beside which other work used less than {QUIET} cores.\n")
    show("| held | how | from | port | served | within 2 s | MiB | other work |\n|--|--|--|--|--|--|--|--|")

    faults = []
    busy_rows = 0
    start = time.monotonic()
    for number, attack in enumerate(attacks, 1):
        outcome, cores = _run(attack, rounds)
        is_judged = cores < QUIET
        busy_rows += not is_judged
        if attack.is_claimed and _is_fault(attack, outcome, is_judged=is_judged):
            faults.append(attack)
        show(_row(attack, outcome, cores))
        remainder = (time.monotonic() - start) / number * (len(attacks) - number)
        sys.stderr.write(f"[{number}/{len(attacks)}, about {_minutes(remainder)} left]\n")

    show(f"\nOf {len(attacks)} rows, the times of {busy_rows} were not judged, because of other work.")
    for attack in faults:
        show(f"The claim does not hold: {attack}")
    return int(bool(faults))


def _run(attack, rounds):
    """Return the outcome of an attack, and the cores that other work used beside it."""
    cores = sorted(os.sched_getaffinity(0))
    with port(attack.port, PLACES, core=cores[0]) as (process, number):
        if len(cores) > 1:
            os.sched_setaffinity(0, set(cores[1:]))
        try:
            work = OtherWork(process.pid)
            settings = {"attackers": PLACES, "honest": HONEST, "rounds": rounds, "pause": PAUSE}
            outcome = asyncio.run(trial(attack, process, number, **settings))
            return outcome, work.cores()
        finally:
            os.sched_setaffinity(0, set(cores))


def _is_fault(attack, outcome, *, is_judged):
    """Whether the outcome breaks the claim. Without a judgement of times, any answer counts."""
    answers = outcome.soon if is_judged else outcome.answers
    return answers < LEAST * outcome.requests or outcome.memory >= memory_limit(attack)


def _row(attack, outcome, cores):
    share, soon = (100 * count / outcome.requests for count in (outcome.answers, outcome.soon))
    cells = attack.thing, attack.pace, attack.source, attack.port, f"{share:.0f}%", f"{soon:.0f}%"
    return "| " + " | ".join((*cells, str(outcome.memory >> 20), f"{cores:.1f}")) + " |"


def _minutes(seconds):
    return f"{max(1, round(seconds / 60))} min"


if __name__ == "__main__":
    if not is_in_namespace() and may_have_namespace():
        command = [sys.executable, "-m", "tests.hostile.campaign", *sys.argv[1:]]
        sys.exit(subprocess.run(in_namespace(command), check=False).returncode)
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS, sys.argv[2:]))
