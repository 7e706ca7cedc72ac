"""The records of blocks in the topic `snapshots`."""

from typing import Any

import numpy as np
import orjson

from aggregator.merging.blocks import NEVER, Block, Part
from aggregator.tallies.group_cells import groups_of_row, groups_row
from oracles.errors import ReportError
from oracles.query import Query

VERSION = 1
"""The version of a block's record."""
# Little-endian on every machine, since another one may read the record.
_WIDTHS = {width: np.dtype(f"<u{width}") for width in (1, 2, 4, 8)}


def encode(block: Block) -> bytes:
    """Return a block as bytes: a line of JSON, then the counts."""
    rows: list[list[object] | None] = []
    counts: list[bytes] = []
    for part in block.parts:
        if part is None:
            rows.append(None)
            continue

        width = part.counts.itemsize
        row = [part.n, part.n_independent, part.is_visible, part.is_complete, len(part.counts), width]
        rows.append([*row, *groups_row(part.groups)])
        counts.append(part.counts.astype(_WIDTHS[width]).tobytes())

    head = orjson.dumps({"version": VERSION, "since": block.known_from, "parts": rows})
    return b"".join([head, b"\n", *counts])


def decode(data: bytes, query: Query) -> Block:
    """Return the block that `encode` has written, or raise a ReportError."""
    line, _, body = data.partition(b"\n")
    parts: list[Part | None] = []
    offset = 0
    try:
        head = orjson.loads(line)
        if head["version"] != VERSION:
            raise ReportError(f"the block has version {head['version']}, but {VERSION} is expected")
        known_from = head["since"]
        if type(known_from) is not int or abs(known_from) > NEVER:
            raise ReportError("the block needs a whole number as time")

        for row, oracle in zip(head["parts"], query.attribute_oracles, strict=True):
            if row is None:
                parts.append(None)
                continue

            part = _read_part(row, body, offset)
            # Counts above the number of reports would give shares above 1.
            size = len(part.counts)
            if size != oracle.counters or part.n_independent > part.n or (size and int(part.counts.max()) > part.n):
                raise ReportError(f"the block does not fit query {query.name}")
            parts.append(part)
            offset += part.counts.nbytes
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ReportError(f"the block is unreadable: {error!r}") from error

    if offset != len(body):
        raise ReportError(f"the block has {len(body)} bytes of counts, but claims {offset}")
    return Block(known_from, tuple(parts))


def _read_part(row: Any, body: bytes, offset: int) -> Part:
    """Return the part of a row. Its counts begin at an offset."""
    n, independent, is_visible, is_complete, size, width, *numbers = row
    # A bool is an int to `isinstance`, and a negative size would read all bytes that follow.
    if any(type(number) is not int or not 0 <= number <= NEVER for number in (n, independent, size)):
        raise ReportError("the block needs whole numbers as counts")

    return Part(
        n=n,
        n_independent=independent,
        counts=np.frombuffer(body, _WIDTHS[width], size, offset),
        is_visible=is_visible is True,
        is_complete=is_complete is True,
        groups=groups_of_row(numbers),
    )
