"""All attacks of the table, with the service of honest clients beside each: `make hostile`.

python -m tests.hostile.campaign [ROUNDS] [WORD ...]       with words, only rows that have all of them
"""

import asyncio
import subprocess
import sys

from benchmarks.harness import show
from tests.hostile.attacks import ATTACKS
from tests.hostile.namespace import in_namespace, is_in_namespace, may_have_namespace
from tests.hostile.trial import LEAST, memory_limit, port, trial

PLACES = 1_000
"""Places of the port, and connections of the attackers."""


def main(rounds, words):
    """Print the table. Return 1 if the claim of SECURITY.md does not hold."""
    has_ipv6 = is_in_namespace()
    if not has_ipv6:
        show("No network namespace, so the rows from a /48 are missing.")
    show("| held | how | from | port | served | within 2 s | MiB |\n|--|--|--|--|--|--|--|")
    has_failed = False
    for attack in ATTACKS:
        if not all(word in str(attack) for word in words) or ("IPv6" in attack.source and not has_ipv6):
            continue
        with port(attack.port, PLACES) as (process, number):
            outcome = asyncio.run(trial(attack, process, number, attackers=PLACES, honest=10, rounds=rounds, pause=0.5))
        share, soon = (100 * count / outcome.requests for count in (outcome.answers, outcome.soon))
        cells = attack.thing, attack.pace, attack.source, attack.port, f"{share:.0f}%", f"{soon:.0f}%"
        show("| " + " | ".join((*cells, str(outcome.memory >> 20))) + " |")
        if attack.is_claimed:
            has_failed |= outcome.soon < LEAST * outcome.requests or outcome.memory >= memory_limit(attack)
    return int(has_failed)


if __name__ == "__main__":
    if not is_in_namespace() and may_have_namespace():
        command = [sys.executable, "-m", "tests.hostile.campaign", *sys.argv[1:]]
        sys.exit(subprocess.run(in_namespace(command), check=False).returncode)
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 20, sys.argv[2:]))
