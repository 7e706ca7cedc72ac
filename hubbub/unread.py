"""A batch of a topic that no reader may have: inflated it would be too large, or it cannot be read at all."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Unread:
    """Stands in the place of a batch's records, as the value of one record with the offset of its last."""

    first: int
    """The offset of the first record that is not read."""
    records: int
    """How many the batch's header names."""
    reason: str
    """too_large or malformed."""
    detail: str

    def __len__(self) -> int:
        """Of the bytes that a reader is given."""
        return 0
