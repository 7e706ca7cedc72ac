"""Checks of a frame before it is sent: the values that a header can hold."""

import numpy as np

from oracles.errors import ParameterError, ReportError
from oracles.types import MAX_WIDTH, Reports

MAX_GROUP = 255
"""The highest number of a group."""
NONE = bytes(8)
"""A digest or id of zeros, which stands for none."""


def check_frame(digest: bytes, pane: int, reports: Reports, name: bytes | None) -> None:
    """Raise an error if no frame can hold these values, before a frame is sent."""
    if not isinstance(digest, bytes) or len(digest) != 8:
        raise ParameterError(f"a digest must be 8 bytes, got {digest!r}")
    # Python takes True for a whole number.
    if isinstance(pane, bool) or not isinstance(pane, int | np.integer) or not is_whole_second(int(pane)):
        raise ParameterError(f"a pane must be a whole second that fits in 64 bits, got {pane!r}")
    if name is not None:
        check_id(name)
    if not isinstance(reports, np.ndarray) or reports.dtype != np.uint8 or reports.ndim != 2:
        raise ReportError("reports must be a NumPy array of uint8 with shape (n, width)")
    n, width = reports.shape
    # The header has 4 bytes for n and 2 for the width, so larger ones would be cut silently.
    if not 1 <= width <= MAX_WIDTH or n >= 1 << 32:
        raise ReportError(f"a frame must hold fewer than 2^32 reports of 1 to {MAX_WIDTH} bytes, got {n} of {width}")


def check_group(group: int) -> None:
    """Raise an error unless a frame can hold the number of a group."""
    if isinstance(group, bool) or not isinstance(group, int | np.integer) or not 0 <= group <= MAX_GROUP:
        raise ParameterError(f"a group must be a whole number from 0 to {MAX_GROUP}, got {group!r}")


def check_id(name: bytes) -> None:
    """Raise an error unless a frame can hold the id."""
    if not isinstance(name, bytes) or len(name) != 8 or name == NONE:
        raise ParameterError(f"an id must be 8 bytes, not all zero, got {name!r}")


def is_whole_second(pane: int) -> bool:
    """Whether a frame can hold the start of a pane."""
    return -(1 << 63) <= pane < 1 << 63
