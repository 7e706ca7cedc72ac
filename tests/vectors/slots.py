"""The vectors of slots. `python tests/vectors/slots.py [FILE]` writes them from docs/wire-format.md, without hubbub."""

import hashlib
import json
import struct
import sys
from pathlib import Path

COUNTS = (2, 3, 9, 12, 30, 64, 1000, 65_535)
CASES = 240


def whole(data):
    return struct.unpack("<Q", data)[0]


def walk(digest, count):
    """Return the partitions in the order of the slots."""
    step = whole(hashlib.sha256(digest).digest()[:8]) % count
    if step % 2 == 0:
        step += 1
    while True:
        places = [whole(digest) % count]
        while (places[-1] + step) % count != places[0]:
            places.append((places[-1] + step) % count)
        # A walk that comes back too early misses partitions.
        if len(places) == count:
            return places
        step += 2


def cases():
    for number in range(CASES):
        seed = hashlib.sha256(b"slots %d" % number).digest()
        digest = seed[:8]
        name = seed[8:16]
        count = 12 if number % 3 == 0 else COUNTS[number % len(COUNTS)]
        spread = 4 if number % 6 == 0 else 1 + whole(seed[16:24]) % min(40, count + 2)
        is_spread = spread < count
        partition = walk(digest, count)[whole(name) % spread] if is_spread else whole(name) % count
        texts = {"digest": digest.hex(), "id": name.hex()}
        yield {**texts, "partitions": count, "spread": spread, "partition": partition}


def text():
    return "[\n" + ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases()) + "\n]\n"


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_suffix(".json")
    target.write_text(text())
