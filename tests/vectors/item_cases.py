"""The items of sets that clients draw, made without a client's code: HMAC by its definition, and a sum of fractions."""

import hashlib
from fractions import Fraction
from itertools import product

SETS = [
    [],
    ["tea"],
    ["tea", "coffee"],
    ["b", "a", "b", "", "a\u0301"],
    ["\uffee", "\U0001f41d", "z"],  # the order of UTF-8 differs from that of UTF-16
    [f"item {number}" for number in range(20)],
]
KEYS = [bytes(range(32)), hashlib.sha256(b"another device").digest()]
PERIODS = [0, 1, -1, 20_000, (1 << 63) - 1, -(1 << 63)]
MOSTS = [1, 4, 65_536]


def items():
    """Return cases of a set, the size that it is filled up to, a key and a period, each with its item or null."""
    cases = [
        {"items": own, "most": most, "key": key.hex(), "period": str(period), "item": item_of(own, most, key, period)}
        for own, most, key, period in product(SETS, MOSTS, KEYS, PERIODS)
    ]
    return {"cases": cases}


def item_of(own, most, key, period):
    message = b"item" + (period % (1 << 64)).to_bytes(8, "little")
    inner = hashlib.sha256(bytes(byte ^ 0x36 for byte in key.ljust(64, b"\0")) + message).digest()
    block = hashlib.sha256(bytes(byte ^ 0x5C for byte in key.ljust(64, b"\0")) + inner).digest()
    part = Fraction(int.from_bytes(block[:8], "little"), 1 << 64)

    texts = sorted(dict.fromkeys(own), key=str.encode)
    size = max(most, len(texts))
    return next((text for number, text in enumerate(texts) if number <= part * size < number + 1), None)
