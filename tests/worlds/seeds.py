"""The plans of 50 seeds, as hashes: python -m tests.worlds.seeds --write makes the list again.

Equal plans and equal code give equal traces, and tests/unit/test_worlds.py shows that for two orders of hashes. The
list keeps the draws, so that a seed in an old report still means the same world. New draws need a mix of a new name.
"""

import json
import sys
from hashlib import sha256
from pathlib import Path

from tests.worlds.plan import draw
from tests.worlds.run import MIX

FILE = Path(__file__).with_suffix(".json")
SEEDS = 50


def hashes(mix=MIX):
    """Return the hash of the plan of each seed."""
    return {str(seed): sha256(draw(seed, mix).text().encode()).hexdigest()[:16] for seed in range(SEEDS)}


if __name__ == "__main__":
    content = {"mix": MIX, "plans": hashes()}
    if "--write" in sys.argv:
        FILE.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    sys.stdout.write(json.dumps(content, indent=1) + "\n")
