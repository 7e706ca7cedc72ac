"""The records of older releases, whose differences from this release are known and no faults. Pure."""

import math

import orjson

from aggregator.reading.audit.ranges import read_final
from aggregator.records.subject import IMPOSSIBLE

WITHOUT_FLAG = f"without the flag {IMPOSSIBLE}"
OTHER_ERROR = "with another error of its weighted total"


def is_before(end: int, raised_at: int) -> bool:
    """Whether a worker of an older release has published the final of a window that ends then.

    Workers of older releases stop before the formats version rises.
    """
    return 1000 * end <= raised_at


def difference(key: bytes, published: bytes | None, expected: bytes, raised_at: int) -> str | None:
    """Return in words how the record of an older release differs from that of this one. None if it is another fault."""
    final = read_final(key, published)
    expected_final = read_final(key, expected)
    # Alerts and maps have no flags, and anybody may write under the key of a final.
    if published is None or final is None or final.flags is None or expected_final is None:
        return None

    if IMPOSSIBLE in (expected_final.flags or ()) and IMPOSSIBLE not in final.flags:
        return WITHOUT_FLAG
    if is_before(final.span.end, raised_at) and _has_other_error(published, expected):
        return OTHER_ERROR
    return None


def _has_other_error(published: bytes, expected: bytes) -> bool:
    """Whether two records differ in nothing but the standard errors of a weighted total."""
    record = orjson.loads(published)
    weighted = record.get("weighted")
    expected_weighted = orjson.loads(expected).get("weighted")
    if not isinstance(weighted, dict) or not isinstance(expected_weighted, dict):
        return False

    errors = weighted.get("stderr")
    expected_errors = expected_weighted["stderr"]
    if not isinstance(errors, list) or len(errors) != len(expected_errors):
        return False
    if not all(isinstance(error, float | int) and math.isfinite(error) and error >= 0.0 for error in errors):
        return False

    record["weighted"]["stderr"] = expected_errors
    return orjson.dumps(record) == expected
