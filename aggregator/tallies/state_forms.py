"""The forms of states in the topic `snapshots`, which the first byte of a record tells."""

from aggregator.tallies.keys import StateKey, decode

WITHOUT_MARKS = 2, 3
"""The versions of states by releases before 0.2.0: with a total and without. Their last piece is no marks."""
WITH_MARKS = 4, 5
"""The present versions: with a total, as a state of `all` has, and without."""
SPLIT = 6
"""The version of the record that stands for a split state."""


def is_older(key: bytes | None, value: bytes | None) -> bool:
    """Whether a record is a state in the form of releases before 0.2.0."""
    name = decode(key)
    if not isinstance(name, StateKey) or name.part or not value:
        return False
    return value[0] in WITHOUT_MARKS


def without_marks(value: bytes) -> bytes:
    """Return a state whose marks readers skip, so that they begin again.

    >>> list(without_marks(bytes([4, 1]))), list(without_marks(bytes([3, 0])))
    ([2, 1], [3, 0])
    """
    forms = dict(zip(WITH_MARKS, WITHOUT_MARKS, strict=True))
    return bytes([forms.get(value[0], value[0])]) + value[1:]
