"""The forms of states in the topic `snapshots`, which the first byte of a record tells."""

from aggregator.tallies.keys import StateKey, decode

WITHOUT_MARKS = 2, 3
"""The versions of states by releases before 0.2.0: with a total and without. Their last piece is no marks."""


def is_older(key: bytes | None, value: bytes | None) -> bool:
    """Whether a record is a state in the form of releases before 0.2.0."""
    name = decode(key)
    if not isinstance(name, StateKey) or name.part or not value:
        return False
    return value[0] in WITHOUT_MARKS
